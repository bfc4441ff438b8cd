"""Plans that are stopped, changed or cannot go on: what was done is kept, and the rest is told."""

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from model.files import write_whole
from tests.training.tiny_plans import TinyPlan
from tests.training.tiny_runs import Refusal
from training.__main__ import main
from training.device import Accelerator
from training.errors import InterruptedRunError
from training.plan.plan import load_plan
from training.plan.teacher import Teacher, TeacherLabels, load_teacher

TEXTS = [f"good film {number}" for number in range(1500)]


def edited(tiny: TinyPlan, folder: Path, old: str, new: str, *options: str) -> list[str]:
    """The command over a copy of the plan in which something else is said."""
    text = tiny.plan.read_text(encoding="utf-8")
    assert old in text
    path = folder / "plan.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    command = tiny.command(folder / "out", *options)
    command[command.index("--plan") + 1] = str(path)
    return command


def test_a_stage_begins_anew_when_it_was_changed_in_the_middle(
    tiny: TinyPlan,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("training.fit.trainer.Trainer._measure", lambda *_: signal.raise_signal(2))
        assert main(tiny.command(tmp_path / "out", "--save-every", "1")) == 130
    assert "interrupted after step " in capsys.readouterr().err
    run_dir = tmp_path / "out.run"
    assert (run_dir / "teacher-state").is_dir()

    command = edited(
        tiny, tmp_path, "[teacher.rows.passes]\nshort = 1.0", "[teacher.rows.passes]\nshort = 0.5"
    )
    assert main(command) == 0

    said = capsys.readouterr().out
    assert "teacher starts again: its state is damaged or of another plan or data\n" in said
    assert "resuming" not in said
    assert not [path for path in run_dir.iterdir() if path.name.endswith("-state")]


@pytest.mark.parametrize(
    ("place", "number", "told"),
    [
        (
            "training.plan.stage_runner.write_whole",
            15,
            "interrupted after stage 1 of 2; the state is saved",
        ),
        (
            "training.cli.plan.write_checkpoint",
            2,
            "interrupted after stage 2 of 2; the state",
        ),
    ],
)
def test_a_signal_while_something_is_written_ends_the_run_after_it(
    tiny: TinyPlan,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    number: int,
    told: str,
) -> None:
    shutil.copytree(made.with_name("out.run"), tmp_path / "out.run")
    if "stage_runner" in place:
        (tmp_path / "out.run" / "1-broad.json").unlink()

    def write(path: Path, content: object = None, **_: object) -> None:
        if isinstance(content, bytes):
            write_whole(path, content)
        if path.name in {"1-broad.json", "out"}:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(place, lambda path, *content, **others: write(path, *content[:1], **others))
        assert main(tiny.command(tmp_path / "out")) == 128 + number

    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.run" / "1-broad.json").exists()


def test_a_diverged_stage_leaves_nothing_to_go_on_with(
    tiny: TinyPlan, made: Path, tmp_path: Path, refusal: Refusal
) -> None:
    run_dir = shutil.copytree(made.with_name("out.run"), tmp_path / "out.run")
    for path in run_dir.glob("2-sharp*"):
        path.unlink()
    stage = "max_length = 12\nepochs = 1\nbatch_size = 16\nlearning_rate = 2e-3"
    wild = stage.replace("2e-3", "1e30")
    told = refusal(edited(tiny, tmp_path, stage, wild, "--save-every", "1"))

    assert "the run has diverged; start again with a learning rate below 1e+30" in told
    names = {path.name for path in run_dir.iterdir()}
    assert "1-broad.safetensors" in names
    assert "2-sharp.safetensors" not in names
    assert not [name for name in names if name.endswith("-state")]


def test_a_state_is_kept_until_the_stage_is(
    tiny: TinyPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("training.plan.stage_runner.write_whole", fail)
        assert main(tiny.command(tmp_path / "out")) == 1

    assert (tmp_path / "out.run" / "teacher-state").is_dir()


def make_teacher(tiny: TinyPlan, path: Path, stops: list[int | None]) -> Teacher:
    teacher = load_plan(tiny.plan).teacher
    assert teacher is not None
    network, tokenizer = load_teacher(tiny.teacher, teacher, num_labels=2)
    return Teacher(
        network,
        tokenizer,
        TeacherLabels(path, "one"),
        num_labels=2,
        accelerator=Accelerator(torch.device("cpu")),
        stop=lambda: stops.pop(0),
    )


def test_a_signal_ends_the_asking_of_a_teacher_and_keeps_what_it_said(
    tiny: TinyPlan, tmp_path: Path
) -> None:
    path = tmp_path / "labels.safetensors"

    asked = make_teacher(tiny, path, [None, 15])
    with pytest.raises(InterruptedRunError, match="interrupted after text 1024 of 1500; ") as told:
        asked.probabilities(TEXTS)

    assert told.value.signal == 15
    kept = TeacherLabels(path, "one")
    assert [text in kept for text in TEXTS] == [True] * 1024 + [False] * 476
    whole = make_teacher(tiny, path, [None]).probabilities(TEXTS)
    np.testing.assert_array_equal(whole[:1024], kept.of(TEXTS[:1024]))
    assert whole.shape == (1500, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_length = 16\nseed", "max_length = 99\nseed", "the plan has texts of 99 tokens, but "),
        ("max_length = 12", "max_length = 99", "the plan has texts of 99 tokens, but "),
        (
            "[teacher.recipe]\nmax_length = 16",
            "[teacher.recipe]\nmax_length = 39",
            "config.json has positions for 38: lower max_length",
        ),
        ("hold_out = 20", "hold_out = 201", "source short: hold_out is 201, but "),
    ],
)
def test_what_cannot_work_is_told_before_any_work(
    tiny: TinyPlan, tmp_path: Path, refusal: Refusal, old: str, new: str, message: str
) -> None:
    assert message in refusal(edited(tiny, tmp_path, old, new))
    assert not (tmp_path / "out.run").exists()


def test_a_stage_without_rows_is_refused(
    tiny: TinyPlan, made: Path, tmp_path: Path, refusal: Refusal
) -> None:
    shutil.copytree(made.with_name("out.run"), tmp_path / "out.run")
    passes = "[stages.rows.passes]\nshort = "

    assert refusal(edited(tiny, tmp_path, f"{passes}2.0", f"{passes}0.001")) == (
        "stage sharp: there are no rows: raise passes, sentences, rules or groups"
    )

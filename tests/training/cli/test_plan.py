"""`headlight-train fit --plan`: several stages to one checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from model import open_checkpoint
from tests.training.tiny_plans import TinyPlan
from tests.training.tiny_runs import Refusal
from training.__main__ import main
from training.fit.checkpointing import write_state
from training.plan.data import read_plan_data
from training.plan.plan import load_plan
from training.plan.stages import average_weights


def test_the_checkpoint_is_sound_and_tells_its_plan(tiny: TinyPlan, made: Path) -> None:
    manifest = open_checkpoint(made).manifest

    assert manifest.seed == 3
    assert manifest.max_length == 16
    assert manifest.language == "en"
    plan = load_plan(tiny.plan)
    assert manifest.recipe["plan"] == plan.model_dump(mode="json", exclude_defaults=True)
    assert manifest.recipe["init_from"] == plan.pretrained.name == "tiny BERT"
    assert [(source.file, source.rows) for source in manifest.training_data] == [
        ("short.tsv", 200),
        ("more/other.tsv", 60),
        ("bare.txt", 30),
    ]
    tokenizer = open_checkpoint(made).tokenizer
    assert tokenizer.encode("film \N{THUMBS UP SIGN}!") == tokenizer.encode("film good!")
    (metric,) = manifest.metrics
    assert (metric.name, metric.rows) == ("validation", 20)


def test_every_stage_leaves_its_course(made: Path) -> None:
    run_dir = made.with_name("out.run")

    names = {path.name for path in run_dir.iterdir()}
    for stage in ("teacher", "1-broad", "2-sharp"):
        assert {f"{stage}.safetensors", f"{stage}.jsonl", f"{stage}.png"} <= names
    assert not [name for name in names if "state" in name or "part" in name]


@pytest.mark.parametrize("is_note", [False, True])
def test_a_damaged_stage_is_done_again_and_gives_the_same(
    tiny: TinyPlan,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    is_note: bool,
) -> None:
    run_dir = shutil.copytree(made.with_name("out.run"), tmp_path / "run")
    path = run_dir / "2-sharp.safetensors"
    if is_note:
        path.with_suffix(".json").write_bytes(b"")
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"\x7f")

    assert main(tiny.command(tmp_path / "out", "--run-dir", str(run_dir))) == 0

    assert "stage 1-broad is done already\nstage 2-sharp\n" in capsys.readouterr().out
    again, before = (
        (place / "model.safetensors").read_bytes() for place in (tmp_path / "out", made)
    )
    assert again == before


def test_the_teacher_is_asked_once_about_a_text(
    tiny: TinyPlan,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_dir = shutil.copytree(made.with_name("out.run"), tmp_path / "run")
    changed = tmp_path / "plan.toml"
    text = tiny.plan.read_text(encoding="utf-8")
    changed.write_text(text.replace("epochs = 2", "epochs = 1"), encoding="utf-8")
    command = tiny.command(tmp_path / "out", "--run-dir", str(run_dir))
    command[command.index(str(tiny.plan))] = str(changed)

    assert main(command) == 0

    said = capsys.readouterr()
    assert "stage 1-broad\n" in said.out
    assert "teacher, from 0 of " not in said.err


def test_a_killed_run_goes_on_and_ends_in_the_same_weights(
    tiny: TinyPlan,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class KilledError(Exception):
        pass

    def die(folder: Path, *content: Any) -> str | None:  # noqa: ANN401
        unsaved = write_state(folder, *content)
        if folder.name == "1-broad-state":
            raise KilledError
        return unsaved

    # Every step is a state, so that a kill in the middle of a stage has one to go on from.
    words = tiny.command(tmp_path / "out", "--save-every", "1")
    with monkeypatch.context() as patch:
        patch.setattr("training.fit.trainer.write_state", die)
        with pytest.raises(KilledError):
            main(words)

    assert main(words) == 0

    assert "resuming 1-broad after step " in capsys.readouterr().out
    again, before = (
        (place / "model.safetensors").read_bytes() for place in (tmp_path / "out", made)
    )
    assert again == before


@pytest.mark.parametrize(
    ("removed", "added", "message"),
    [
        (
            "",
            ["--epochs", "1", "--labels", "a,b"],
            "the plan decides what --labels and --epochs would: change it there",
        ),
        ("", ["--run-dir", "out/run"], "which is written as a whole: choose a folder elsewhere"),
        (
            "",
            ["--folds", "3"],
            "--plan trains one network for all of its sources: leave it out, or leave out --folds",
        ),
        (
            "",
            ["--log-to", "mlflow"],
            "--log-to is for one run, and a --plan has several: leave it out",
        ),
        ("", ["x.tsv"], "--plan names its files itself: leave out x.tsv"),
        ("--data", [], "--plan needs --data too"),
        ("--teacher", [], "--plan needs --teacher too"),
        ("--init-from", [], "--plan needs --init-from too"),
        ("--plan", [], "name at least one FILE to learn from"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tiny: TinyPlan,
    tmp_path: Path,
    refusal: Refusal,
    monkeypatch: pytest.MonkeyPatch,
    removed: str,
    added: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = tiny.command(Path("out"), *added)
    if removed:
        at = words.index(removed)
        del words[at : at + 2]

    assert message in refusal(words)
    assert not (tmp_path / "out").exists()


def test_other_pretrained_weights_are_refused(
    tiny: TinyPlan, tmp_path: Path, refusal: Refusal
) -> None:
    command = tiny.command(tmp_path / "out")
    command[command.index("--init-from") + 1] = str(tiny.teacher)

    error = refusal(command)
    assert f"--init-from: {tiny.teacher / 'model.safetensors'} has the SHA-256 " in error
    assert "the plan was made with tiny BERT, " in error


def test_nothing_held_out_is_trained_on(tiny: TinyPlan) -> None:
    data = read_plan_data(load_plan(tiny.plan), tiny.data)

    held = set(data.held_out.texts)
    assert len(held) == 20
    assert not held & {text for texts in data.pool.texts.values() for text in texts}
    assert len(data.pool.texts["short"]) == 180
    assert len(data.pool.texts["bare"]) == 30


def test_the_mean_of_weights() -> None:
    one, other = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 6.0])}

    assert average_weights([(1.0, one), (3.0, other)])["w"].tolist() == [2.5, 5.0]
    assert average_weights([(0.0, one), (2.0, other)])["w"].tolist() == [3.0, 6.0]

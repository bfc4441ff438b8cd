"""Runs that end in no checkpoint: diverged ones, and those that go on with other rows."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from training.__main__ import main
from training.measure.history import Measurement, read_history, write_history

_PRESET = """\
max_length = 16
epochs = 2
batch_size = 8
learning_rate = 1e-3

[network]
vocab_size = 200
hidden_size = 8
num_layers = 2
num_heads = 2
intermediate_size = 16
"""
_WORDS = {0: ("bad", "dull", "poor", "weak"), 1: ("good", "bright", "rich", "strong")}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Arguments of a run over two columns of text."""
    rng = random.Random(3)
    rows = ["sentence\tother\tlabel"]
    for number in range(64):
        label = number % 2
        sentence = " ".join([str(number), *rng.choices(_WORDS[label], k=4)])
        rows.append(f"{sentence}\t{sentence[::-1]}\t{label}")
    (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(_PRESET, encoding="utf-8")
    return [
        *("fit", str(tmp_path / "rows.tsv"), "--output", str(tmp_path / "out")),
        *("--preset", str(tmp_path / "tiny.toml"), "--threads", "1", "--dtype", "float32"),
    ]


def test_a_run_does_not_go_on_with_another_column_of_the_same_file(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("training.fit.export.save_checkpoint", fail)
        assert main([*command, "--text-column", "sentence"]) == 1
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert refusal.startswith(
        f"headlight-train: the checkpoint: {tmp_path / 'out' / 'model.safetensors'} could not be "
        "written (no space left): it needs "
    )

    assert main([*command, "--text-column", "sentence"]) == 1
    assert capsys.readouterr().err == (
        f"headlight-train: {tmp_path / 'out.run' / 'state'} holds the state of a run: resume "
        "it with --resume, continue it with --extend if it has ended, or discard it with "
        "--overwrite\n"
    )

    assert main([*command, "--text-column", "other", "--resume"]) == 1
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert f"{tmp_path / 'out.run' / 'state'}: the interrupted run was another one" in refusal
    assert "training_rows: " in refusal
    assert not (tmp_path / "out").exists()

    assert main([*command, "--text-column", "sentence", "--resume"]) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert sorted(path.name for path in (tmp_path / "out.run").iterdir()) == [
        "history.jsonl",
        "history.png",
    ]


def test_an_interrupted_run_is_given_up_by_overwrite(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "out.run" / ".state.old").mkdir(parents=True)
    command = [*command, "--text-column", "sentence"]
    assert main(command) == 1
    assert main([*command, "--overwrite"]) == 0
    assert not (tmp_path / "out.run" / ".state.old").exists()


def test_the_history_grows_with_each_epoch(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.run" / "history.jsonl"
    seen: list[int] = []

    def write(history: Sequence[Measurement], place: Path) -> None:
        write_history(history, place)
        seen.append(len(read_history(path)))

    monkeypatch.setattr("training.cli.fit.write_history", write)
    assert main([*command, "--text-column", "sentence"]) == 0
    assert seen == [1, 2]

"""Runs that end in no checkpoint, and go on only with the same rows."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.training.tiny_runs import arguments
from training.__main__ import main
from training.measure.history import Measurement, read_history, write_history


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Arguments of a run over two columns of text."""
    typed = arguments(tmp_path, "out", "--dtype", "float32")
    _, *rows = (tmp_path / "rows.tsv").read_text(encoding="utf-8").splitlines()
    columns = [(*row.split("\t"), row.partition("\t")[0][::-1]) for row in rows]
    lines = ["sentence\tlabel\tother", *("\t".join(each) for each in columns)]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return typed


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
    assert seen == [1, 2, 3]

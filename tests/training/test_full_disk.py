"""Runs whose files cannot grow, as on a full disk: nothing that was trained is lost."""

import errno
import re
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from model import open_checkpoint
from model.checkpoint.saving import save_checkpoint
from tests.training.tiny_runs import Refusal, arguments, read_history, signal_after, weights
from training.__main__ import main
from training.fit.state import TrainerState, save_state, step_of_state

# What limits a file in a process: the kernel refuses to write beyond, as on a full disk.
FAULT = "File too large"


@contextmanager
def files_limited_to(most_bytes: int) -> Iterator[None]:
    """Lets no file of this process grow beyond a size; Python ignores the signal for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill_up(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_state_that_cannot_be_written_costs_no_checkpoint(
    tmp_path: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint is smaller than a state, and fits."""
    most = 2 * len(weights(fitted / "out"))
    with files_limited_to(most):
        assert main(arguments(tmp_path, "out")) == 0

    printed = capsys.readouterr().out.splitlines()
    warnings = [line for line in printed if line.startswith("warning: the state")]
    assert len(warnings) == 3
    place = re.escape(str(tmp_path / "out.run" / "state" / "tensors.safetensors"))
    told = re.fullmatch(
        rf"warning: the state after step 14 is not on disk: {place} could not be written "
        rf"\({FAULT}\): it needs ([\d,]+) bytes; no state is there to resume from\. .*",
        warnings[0],
    )
    assert told is not None
    assert int(told[1].replace(",", "")) > most
    assert weights(tmp_path / "out") == weights(fitted / "out")
    assert not list((tmp_path / "out.run").glob("*state*"))


def test_where_nothing_can_be_written_the_bytes_and_the_file_are_told(
    tmp_path: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = len(weights(fitted / "out"))
    with files_limited_to(size - 1):
        assert main(arguments(tmp_path, "out")) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(
        f"headlight-train: the checkpoint: {tmp_path / 'out' / 'model.safetensors'} could not be "
        f"written ({FAULT}): it needs "
    )
    assert last.endswith("; nor is the last state saved: no state is there to resume from")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.run", "rows.tsv", "tiny.toml"]
    assert len(read_history(tmp_path / "out.run")) == 3


def test_a_checkpoint_that_cannot_be_written_is_written_by_resume(
    tmp_path: Path,
    fitted: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refusal: Refusal,
) -> None:
    command = arguments(tmp_path, "out")
    header, *rows = (tmp_path / "rows.tsv").read_text(encoding="utf-8").splitlines()
    lines = [f"{header}\tother", *(f"{row}\tword {number}" for number, row in enumerate(rows))]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("training.fit.export.save_checkpoint", fill_up)
        assert main(command) == 1

    assert re.search(
        r"/model\.safetensors could not be written \(No space left on device\): it needs [\d,]+ "
        r"bytes, and [\d,]+ are free: make room; the trained weights are saved, and the same ",
        capsys.readouterr().err,
    )
    state = tmp_path / "out.run" / "state"
    assert refusal(command) == (
        f"{state} holds the state of a run: resume it with --resume, or discard it with --overwrite"
    )
    # Another column of the same file makes other rows.
    told = refusal([*command, "--text-column", "other", "--resume"])
    assert told.startswith(f"{state}: the interrupted run was another one: training_rows: ")
    # Two states need not fit any more: only the checkpoint is written.
    with files_limited_to(2 * len(weights(fitted / "out"))):
        assert main([*command, "--resume"]) == 0
    assert capsys.readouterr().out.startswith("resuming after step 42\n")
    assert weights(tmp_path / "out") == weights(fitted / "out")
    assert open_checkpoint(tmp_path / "out").manifest.seed == 0


def save_only_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets one state be written, as where the disk fills up after it; returns the steps of all."""
    steps: list[int] = []

    def save_first(folder: Path, position: TrainerState, *others: Any) -> None:  # noqa: ANN401
        steps.append(position.step)
        if len(steps) > 1:
            fill_up()
        save_state(folder, position, *others)

    monkeypatch.setattr("training.fit.checkpointing.save_state", save_first)
    return steps


def test_an_old_state_makes_room_for_the_weights_that_are_trained(
    tmp_path: Path, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is smaller than the state."""

    def save_beside_no_state(*given: Any, **named: Any) -> None:  # noqa: ANN401
        if (tmp_path / "out.run" / "state").exists():
            fill_up()
        save_checkpoint(*given, **named)

    steps = save_only_once(monkeypatch)
    monkeypatch.setattr("training.fit.export.save_checkpoint", save_beside_no_state)
    assert main(arguments(tmp_path, "out")) == 0
    assert steps == [14, 28, 42]
    assert weights(tmp_path / "out") == weights(fitted / "out")


def test_the_state_before_is_kept_when_the_next_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_only_once(monkeypatch)
    signal_after(monkeypatch, 18, signal.SIGTERM)
    assert main(arguments(tmp_path, "out")) == 128 + signal.SIGTERM
    assert re.search(
        r"interrupted after step 18 of 42; the last state is not saved: .* are free; --resume "
        r"continues after step 14\n$",
        capsys.readouterr().err,
    )
    assert step_of_state(tmp_path / "out.run" / "state") == 14


def test_a_disk_that_is_too_small_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    assert re.search(
        r"/out\.run and \S+/out: the states of a run and its checkpoint need 1,[\d,]+ bytes, and "
        r"1,000,000 are free there: make room, or put the states on another disk with --run-dir$",
        refusal(arguments(tmp_path, "out")),
    )
    assert not (tmp_path / "out.run").exists()

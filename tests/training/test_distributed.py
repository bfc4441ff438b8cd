"""Trains on several processes that a real `torchrun` starts: the same losses and weights as one."""

import re
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.tiny_runs import Refusal, read_lines
from tests.training.torchrun import assert_close, command, end, start, write_files
from training.__main__ import main

ROWS = 75  # with batches of 16 the last one has 11 rows, which 2 and 3 do not divide


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run, and the checkpoint of one process in `alone`."""
    found = tmp_path_factory.mktemp("ranks")
    write_files(found, rows=ROWS)
    assert main(command(found, found / "alone")) == 0
    return found


def history(output: Path) -> list[dict[str, float]]:
    return read_lines(output.with_name(f"{output.name}.run") / "history.jsonl")


def assert_same(first: Path, second: Path) -> None:
    """Losses and weights agree within 1e-5, and the folders have the same files."""
    for one, other in zip(history(first), history(second), strict=True):
        assert other == pytest.approx(one, abs=1e-5)
    assert_close(first, second)
    for suffix in ("", ".run"):
        assert names(first, suffix) == names(second, suffix)


def names(output: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in output.with_name(output.name + suffix).iterdir())


def test_passes_change_nothing(folder: Path) -> None:
    assert main(command(folder, folder / "passes", "--accumulate", "3")) == 0
    assert_same(folder / "alone", folder / "passes")


@pytest.mark.slow
def test_processes_and_passes_change_nothing(folder: Path) -> None:
    output, logs = folder / "out", folder / "logs"
    # No process tears its interpreter down beside the threads of an exchange.
    program = folder / "program.py"
    program.write_text(
        "import atexit, os, runpy\n"
        "class Kept:\n"
        "    def __del__(self, write=os.write):\n"
        "        write(1, b'torn down')\n"
        "kept = Kept()\n"
        "atexit.register(print, 'exit handlers have run')\n"
        "runpy.run_module('training', run_name='__main__', alter_sys=True)\n"
    )
    options = ("--accumulate", "2", "--log-to", f"tensorboard:{logs}")
    code, out, err = end(start(2, command(folder, output, *options), program=(str(program),)))

    assert code == 0, err
    assert_same(folder / "alone", output)
    assert out.count("exit handlers have run") == 2
    assert "torn down" not in out
    # Only the first process prints and logs.
    assert out.count("checkpoint: ") == 1
    assert len(re.findall(r"^epoch 1/3", out, re.MULTILINE)) == 1
    assert err.count("validation: ") <= 1
    (events,) = logs.rglob("events*")
    found = EventAccumulator(str(events.parent), size_guidance={"scalars": 0})
    found.Reload()
    logged = [(event.step, event.value) for event in found.Scalars("epoch/validation_loss")]
    assert logged == [
        (line["step"], pytest.approx(line["validation_loss"], rel=1e-6)) for line in history(output)
    ]


def test_a_process_that_never_comes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    values = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert refusal(command(folder, folder / "missing", "--rank-timeout", "1")).startswith(
        "not all of the 2 processes that WORLD_SIZE announces have come within 1 s: start the "
        "others, or raise --rank-timeout ("
    )


@pytest.mark.slow
def test_an_error_is_printed_once(folder: Path) -> None:
    code, _, err = end(start(2, command(folder, folder / "fault", "--batch-size", "0")))
    assert code == 1
    assert err.count("headlight-train: ") == 1


def test_other_commands_refuse_several_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["evaluate", "rows.tsv", "--checkpoint", "never"]) == 1
    assert capsys.readouterr().err == (
        "headlight-train: only fit runs on several processes: start this command without torchrun\n"
    )

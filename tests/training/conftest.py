"""What the tests of training share: a whole run."""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.training.tiny_runs import arguments, write_sentences
from training.__main__ import main


@pytest.fixture(scope="module", autouse=True)
def one_core() -> Iterator[None]:
    """Lets commands compute with one thread: on busy cores two take many times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.backends.threads.usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run in `out`, its files, its event files in `runs`, and what it printed."""
    folder = tmp_path_factory.mktemp("fitted")
    write_sentences(folder / "other.tsv", rows=100, seed=5)
    options = ("--evaluate", str(folder / "other.tsv"))
    logs = ("--log-to", f"tensorboard:{folder / 'runs'}")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(arguments(folder, "out", *options, *logs)) == 0
    (folder / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")
    return folder


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], str]:
    """Runs a command that must fail; returns the one line of its fault, without its own name."""

    def run(command: Sequence[str]) -> str:
        capsys.readouterr()
        assert main(command) == 1
        errors = capsys.readouterr().err
        assert errors.count("headlight-train: ") == 1
        *_, line = errors.splitlines()
        assert line.startswith("headlight-train: ")
        return line.removeprefix("headlight-train: ")

    return run

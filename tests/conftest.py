"""What all suites share: how hypothesis and torch run, and a checkpoint that nobody changes."""

import fcntl
import logging
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from model import Predictor, load_predictor, open_checkpoint
from tests.builders import tiny_checkpoint
from tests.hub_stand_in import Hub, run_hub
from tests.programs import UsageFault


def pytest_configure() -> None:
    """Settles what must not differ from machine to machine."""
    # No deadline: a slow machine is no failure. The same cases every time where nobody looks on.
    settings.register_profile("headlight", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("headlight")
    _settle_torch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Lets no test of another process run beside one that is marked `alone`."""
    alone = item.get_closest_marker("alone") is not None
    lock = item.config.rootpath / ".pytest_cache" / "alone.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("ab+") as file:
        # A lock of this process: with `flock`, a fork that a test leaves behind would keep it.
        fcntl.lockf(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            _settle_torch()
            # Ray adds a time to every record of the process that imports it.
            logging.setLogRecordFactory(logging.LogRecord)


def _settle_torch() -> None:
    """Undoes what a command that ran in this process has set for all of it."""
    # Tiny networks gain nothing from threads, and lose much where cores are shared.
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(mode=False)


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint; write another with `tiny_checkpoint` to change one."""
    return tiny_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny checkpoint that the test may change."""
    return tiny_checkpoint(tmp_path / "tiny")


@pytest.fixture(scope="session")
def predictor(checkpoint_folder: Path) -> Predictor:
    """The tiny checkpoint in float32 on the processor."""
    return load_predictor(open_checkpoint(checkpoint_folder), device="cpu", dtype="float32")


@pytest.fixture
def usage_fault(capsys: pytest.CaptureFixture[str]) -> UsageFault:
    """Runs a command whose options are wrong; returns what it writes of them."""

    def run(main: Callable[[list[str]], int], *typed: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*typed])
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine that huggingface_hub asks in this process, with a cache of its own."""
    import huggingface_hub.constants  # here, because it is an extra that few tests need

    with run_hub() as running:
        for name, value in {
            "ENDPOINT": running.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": running.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "home"),
        }.items():
            monkeypatch.setattr(huggingface_hub.constants, name, value)
        yield running

"""Servers that are started, that do not start, and that are ended with all that they started."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import servers
from benchmarks.client import predict_once
from benchmarks.errors import AnswerError, ServerError
from benchmarks.labels import read_answers
from benchmarks.servers import Program, Server, serve

QUICK = "tests.benchmarks.quick_server"
SERVICE = Program("headlight", "service", ("--dtype", "float32", "--threads", "1"))

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_a_server_answers_until_the_block_ends(
    checkpoint_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_API_KEYS", "left-out")

    with serve(SERVICE, checkpoint_folder, tmp_path) as server:
        assert len(read_answers(predict_once(server.port, ["a good film"]))) == 1
        assert server.start_seconds > 0
        held = server.processes.memory_bytes()
        if sys.platform == "linux":
            assert held is not None
            assert 50_000_000 < held < 5_000_000_000

    with pytest.raises(AnswerError, match="no connection"):
        predict_once(server.port, ["a good film"])
    with pytest.raises(ProcessLookupError):
        os.killpg(server.processes.first, 0)


def assert_it_answers_when_it_is_woken(server: Server) -> None:
    """And not while it is paused."""
    server.pause()
    with ThreadPoolExecutor(1) as client:
        waiting = client.submit(predict_once, server.port, ["a good film"])
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        with server.awake():
            assert len(read_answers(waiting.result())) == 1


def test_a_paused_server_answers_when_it_is_woken_and_ends_as_any_other(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with serve(SERVICE, checkpoint_folder, tmp_path) as server:
        assert_it_answers_when_it_is_woken(server)

    with pytest.raises(ProcessLookupError):
        os.killpg(server.processes.first, 0)


def test_a_server_that_does_not_start_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(ServerError) as caught, serve(SERVICE, missing, tmp_path):
        pytest.fail("it started")

    message = str(caught.value)
    assert message.startswith(f"headlight did not start: --checkpoint: {missing}: ")
    assert "\n" not in message


def test_a_server_that_ends_early_is_an_error(checkpoint_folder: Path, tmp_path: Path) -> None:
    def ask_a_dead_one() -> None:
        with serve(SERVICE, checkpoint_folder, tmp_path) as server:
            os.killpg(server.processes.first, signal.SIGKILL)
            os.waitid(os.P_PID, server.processes.first, os.WEXITED | os.WNOWAIT)
            predict_once(server.port, ["a good film"])

    with pytest.raises(ServerError, match=r"^headlight ended while it was measured: "):
        ask_a_dead_one()


def test_a_fault_of_the_block_ends_the_server_too(checkpoint_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), serve(SERVICE, checkpoint_folder, tmp_path) as server:
        raise KeyboardInterrupt

    with pytest.raises(ProcessLookupError):
        os.killpg(server.processes.first, 0)


@on_linux
def test_a_worker_in_a_session_of_its_own_is_paused_and_ended_too(tmp_path: Path) -> None:
    apart = Program("apart", QUICK, ("--label", "good", "--apart"))

    with serve(apart, tmp_path, tmp_path) as server:
        assert_it_answers_when_it_is_woken(server)

    with pytest.raises(AnswerError, match="no connection"):
        predict_once(server.port, ["a good film"])


@pytest.fixture
def _shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others take the processors too, a server that computes has only a part of one."""
    monkeypatch.setattr(servers, "_BUSY", 0.05)


@on_linux
@pytest.mark.usefixtures("_shared")
def test_a_server_settles_when_it_has_nothing_left_to_compute(tmp_path: Path) -> None:
    # For two sentences: the first one of the start, and the one that waits for its turn.
    computing = Program("computing", QUICK, ("--label", "good", "--computes-on", "1.0"))

    with serve(computing, tmp_path, tmp_path) as server:
        server.settle()

        assert server.processes.processor_seconds() >= 2.0


@on_linux
@pytest.mark.usefixtures("_shared")
def test_a_server_that_never_settles_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_SETTLE_PATIENCE", 0.5)
    computing = Program("computing", QUICK, ("--label", "good", "--computes-on", "1000"))

    with (
        pytest.raises(AnswerError, match=r"^the server still computes 0\.5 s after it was asked"),
        serve(computing, tmp_path, tmp_path) as server,
    ):
        server.settle()


def test_on_a_gpu_the_choice_of_gpus_is_kept() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "1", "HEADLIGHT_DEVICE": "cpu"}

    assert servers.environment(inherited, sees_gpu=True) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "HF_HUB_OFFLINE": "1",
    }
    assert "CUDA_VISIBLE_DEVICES" not in servers.environment({}, sees_gpu=True)


def test_no_server_sees_a_gpu() -> None:
    asked = servers.environment({"CUDA_VISIBLE_DEVICES": "0", "HEADLIGHT_PORT": "1", "PATH": "/"})

    assert asked == {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PATH": "/"}

"""Servers that start, that do not start, and that end with everything they started."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import servers
from benchmarks.client import predict_once
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.servers import Program, serve

QUICK = "tests.benchmarks.quick_server"
SERVICE = Program("headlight", "service", ("--dtype", "float32", "--threads", "1"))


def test_a_server_answers_while_it_is_awake_until_the_block_ends(
    checkpoint_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_API_KEYS", "left-out")
    with serve(SERVICE, checkpoint_folder, tmp_path) as server, ThreadPoolExecutor(1) as client:
        assert server.start_seconds > 0
        assert 50_000_000 < server.processes.memory_bytes() < 5_000_000_000
        server.pause()
        waiting = client.submit(predict_once, server.port, ["a good film"])
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        with server.awake():
            assert b"probabilities" in waiting.result()

    with pytest.raises(AnswerError, match="no answer from port"):
        predict_once(server.port, ["a good film"])
    with pytest.raises(ProcessLookupError):
        os.killpg(server.processes.leader, 0)


def test_a_server_that_does_not_start_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(BenchmarkError) as caught, serve(SERVICE, missing, tmp_path):
        pytest.fail("it started")

    message = str(caught.value)
    assert message.startswith(f"headlight did not start: --checkpoint: {missing}: ")
    assert "\n" not in message


def test_a_server_that_ends_early_is_an_error(tmp_path: Path) -> None:
    def ask_a_dead_server() -> None:
        with serve(Program("quick", QUICK), tmp_path, tmp_path) as server:
            os.killpg(server.processes.leader, signal.SIGKILL)
            os.waitid(os.P_PID, server.processes.leader, os.WEXITED | os.WNOWAIT)
            predict_once(server.port, ["a good film"])

    with pytest.raises(BenchmarkError, match=r"^quick ended while it was measured: "):
        ask_a_dead_server()


@pytest.mark.parametrize("seconds", [0.3, 1000.0])
def test_a_server_settles_when_it_has_nothing_left_to_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    # Where others use the processors too, a server that computes has only a part of one.
    monkeypatch.setattr(servers, "_BUSY", 0.05)
    computing = Program("computing", QUICK, ("--computes-on", str(seconds)))

    with serve(computing, tmp_path, tmp_path) as server:
        if seconds > 100:
            monkeypatch.setattr(servers, "_SETTLE_SECONDS", 0.5)
            with pytest.raises(AnswerError, match=r"^the server still computes 0\.5 s after its"):
                server.settle()
        else:
            server.settle()
            # Two sentences: the first one of the start, and that of `settle`.
            assert server.processes.processor_seconds() >= 0.6


def test_no_settings_reach_a_server_and_no_gpu_unless_it_is_measured() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "1", "HEADLIGHT_PORT": "1", "OTEL_X": "1", "PATH": "/"}

    hidden = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PATH": "/"}
    assert servers.environment(inherited) == hidden
    assert servers.environment(inherited, sees_gpu=True) == {**hidden, "CUDA_VISIBLE_DEVICES": "1"}

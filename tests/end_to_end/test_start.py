"""The start: settings and options, and the type that `auto` chooses for a checkpoint."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from unittest import mock

import pytest

from model.backends import device
from model.backends.kernels import instruction_sets
from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import save_precision
from service import command
from service.http import server
from tests.builders import precision, precision_set, tiny_checkpoint
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.servers import RunningService, environment, local_service, service, wait_until


def refuse(checkpoint: Path, *options: str, **settings: str) -> str:
    """Standard error of a start that is refused."""
    stderr = io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(settings), clear=True),
        mock.patch.object(command, "share_one_heap"),
        redirect_stderr(stderr),
    ):
        assert command.run(["--checkpoint", str(checkpoint), *options]) == 1
    return stderr.getvalue()


def test_every_fault_is_in_one_message(tmp_path: Path) -> None:
    stderr = refuse(
        tmp_path / "nothing",
        "--drain-seconds=-1",
        HEADLIGHT_DEVICE="gpu",
        HEADLIGHT_API_KEYS="s\u00e9cret",
        HEADLIGHT_PROT="1",
        OTEL_EXPORTER_OTLP_ENDPOINT="secret:4317",
    )
    assert stderr == (
        "headlight-serve: 6 settings are wrong:\n"
        f"  --checkpoint: {tmp_path / 'nothing'}: does not exist: give the path of a checkpoint "
        "folder\n"
        "  --drain-seconds: must be at least 0, got '-1'\n"
        "  HEADLIGHT_API_KEYS: key number 1 holds a character that is not visible ASCII, or a "
        "comma\n"
        "  HEADLIGHT_DEVICE: must be auto, cpu, cuda or cuda:N (cuda is the GPU), got 'gpu'\n"
        "  HEADLIGHT_PROT: unknown setting; did you mean HEADLIGHT_PORT?\n"
        "  OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL, such as http://collector:4318\n"
    )
    assert "cret" not in stderr


def test_a_port_that_is_taken(checkpoint_folder: Path, running: RunningService) -> None:
    stderr = refuse(checkpoint_folder, "--port", str(running.port))
    assert stderr == (
        f"headlight-serve: cannot listen on 127.0.0.1 port {running.port}: Address already in "
        "use; choose others with HEADLIGHT_HOST and --port\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is read from /proc")
def test_the_start_takes_no_more_processor_time_than_torch(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    """Twice that of `import torch` at most, which it does without."""
    measure = "import os, torch; print(sum(os.times()[:2]))"
    command = [sys.executable, "-c", measure]
    imported = float(subprocess.check_output(command, env=environment()))
    with service(checkpoint_folder, tmp_path) as running:
        stat = Path(f"/proc/{running.process.pid}/stat").read_text(encoding="ascii")
        ticks = sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    assert ticks / os.sysconf("SC_CLK_TCK") < 2 * imported


def messages(running: RunningService) -> list[str]:
    return [json.loads(line)["message"] for line in running.log.read_text("utf-8").splitlines()]


def test_the_address_of_the_page_comes_once_the_model_is_ready(
    checkpoint_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SECONDS_BETWEEN_LINES", 0.05)
    (tmp_path / "load").write_text("hold 0")
    changes = patches(tmp_path)
    with local_service(checkpoint_folder, tmp_path, changes=changes, ready=False) as running:
        wait_until(lambda: messages(running).count("the model loads") > 1)
        assert running.get("/health/ready").status_code == 503
        (tmp_path / "load").unlink()
        wait_until(lambda: messages(running)[-1] == f"the page is at {running.url}/")
        first, *loading, ready, _ = messages(running)
        assert first == f"listening at {running.url}/ while the model loads"
        assert set(loading) == {"the model loads", "request"}
        assert ready == "model ready"


def test_the_model_and_the_log_say_why(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    checkpoint = open_checkpoint(folder)
    record = precision(precision_set(lost=9), weights=checkpoint.weights_sha256)
    save_precision(checkpoint, record)
    # As if the processor had no bfloat16.
    changes = mock.patch.object(device, "processor_features", frozenset)
    reason = (
        "is fastest in int8, but int8 was not within 0.2 points of float32 "
        "(-0.90 over 1,000 rows); next is float32"
    )
    options = ("--dtype", "auto", "--device", "cpu")
    with (
        local_service(folder, tmp_path, *options, changes=changes) as running,
        running.client() as client,
    ):
        model = client.get("/model").json()
        assert (model["dtype"], model["dtype_reason"]) == (
            "float32",
            f"auto: this processor {reason}",
        )
        lines = [json.loads(line) for line in running.log.read_text("utf-8").splitlines()]
        (ready,) = [line for line in lines if line["message"] == "model ready"]
        assert ready["dtype_reason"] == model["dtype_reason"]
        assert ready["engine"] == model["engine"]
        assert model["engine"].startswith("kernels (" if instruction_sets() else "eager")
        answer = client.post("/predict", json={"sentences": ["good"]})
        assert answer.status_code == 200
        assert client.get("/attention?sentence=good").status_code == 200

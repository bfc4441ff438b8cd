"""The type that `auto` chooses for a checkpoint with a record, and what the service says of it."""

import json
from pathlib import Path

import pytest
import torch

from model.backends.device import computes_int8
from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import save_precision
from tests.builders import precision, precision_set, tiny_checkpoint
from tests.end_to_end.servers import service

# A service on a processor that has these features alone.
WITH_FEATURES = """
import sys
import torch
torch.cpu.get_capabilities = lambda: dict.fromkeys({features}, True)
from service.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
needs_int8 = pytest.mark.skipif(
    not computes_int8(torch.device("cpu")), reason="this processor has no AVX-512 VNNI"
)


@pytest.mark.parametrize(
    ("lost", "features", "dtype", "reason"),
    [
        pytest.param(
            1,
            ["avx512_vnni"],
            "int8",
            "has no bfloat16, and int8 was measured within 0.2 points of float32 "
            "(-0.10 over 1,000 rows)",
            marks=needs_int8,
        ),
        (
            9,
            ["avx512_vnni"],
            "float32",
            "has no bfloat16, and int8 was not within 0.2 points of float32 "
            "(-0.90 over 1,000 rows)",
        ),
        (
            None,
            ["avx512_vnni"],
            "float32",
            "has no bfloat16, and the checkpoint has no record of int8",
        ),
        (1, [], "float32", "has neither bfloat16 nor int8"),
    ],
)
def test_the_model_and_the_log_say_why(
    tmp_path: Path, lost: int | None, features: list[str], dtype: str, reason: str
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    if lost is not None:
        checkpoint = open_checkpoint(folder)
        weights = checkpoint.weights_sha256
        save_precision(checkpoint, precision(precision_set(lost=lost), weights=weights))
    program = ("-c", WITH_FEATURES.format(features=features))
    with (
        service(folder, tmp_path, "--dtype", "auto", "--device", "cpu", program=program) as running,
        running.client() as client,
    ):
        told = client.get("/model").json()
        assert (told["dtype"], told["dtype_reason"]) == (dtype, f"auto: this processor {reason}")
        lines = [json.loads(line) for line in running.log.read_text("utf-8").splitlines()]
        (ready,) = [line for line in lines if line["message"] == "model ready"]
        assert ready["dtype_reason"] == told["dtype_reason"]
        assert ready["engine"] in {"kernels", "onednn", "modules"}
        answer = client.post("/predict", json={"sentences": ["good"]})
        assert answer.status_code == 200
        assert client.get("/attention?sentence=good").status_code == 200

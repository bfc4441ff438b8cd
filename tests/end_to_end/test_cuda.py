"""The service on a real GPU."""

from pathlib import Path

import httpx
import pytest
import torch

from tests.end_to_end.servers import service

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", ["auto", "float32", "float16"])
def test_a_served_request(checkpoint_folder: Path, tmp_path: Path, dtype: str) -> None:
    options = ("--device", "cuda", "--dtype", dtype)
    with service(checkpoint_folder, tmp_path, *options) as running:
        with httpx.Client(base_url=running.url, timeout=60) as client:
            model = client.get("/model").json()
            assert model["device"] == "cuda:0"
            assert model["dtype"] in {"bfloat16", "float16", "float32"}
            sentences = ["good film", "bad " * 20, "the plot is good"]
            answer = client.post("/predict", json={"sentences": sentences})
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["predictions"]) == 3
            attention = client.get("/attention", params={"sentence": "good film", "head": 1})
            assert attention.status_code == 200, attention.text
            rows = attention.json()["attention"][0][0]
            assert [sum(row) for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-5)
            attributed = client.post("/attributions", json={"sentence": "good film"})
            assert attributed.status_code == 200, attributed.text
            first = (answer, attention, attributed)
            assert max(each.elapsed.total_seconds() for each in first) < 0.1
        assert running.errors() == []

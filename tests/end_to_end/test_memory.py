"""The memory of a replica of the default model, ready and after requests; torch comes last."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from model.backends.kernels import choose_set
from tests.end_to_end.routes import ROUTES, send
from tests.end_to_end.servers import ROOT, RunningService, service

SENTENCE = "The camera finds beauty in the plainest rooms, but nobody in the cast can act. "
MOST_READY_MB, MOST_MB, MOST_WITH_GRADIENTS_MB = 180, 230, 620
# What forty refused bodies of 2 MB may leave. Parsed, one is 50 MB.
REFUSED, MOST_LEFT_MB = 40, 100
BODY = b'{"sentences":[%s]}' % b",".join([b"{}"] * 660_000)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]


def resident(running: RunningService) -> float:
    """Megabytes of memory that the process holds, files that it shares with others included."""
    rollup = Path(f"/proc/{running.process.pid}/smaps_rollup").read_text(encoding="ascii")
    return int(rollup.split("\nRss:")[1].split()[0]) * 1024 / 1e6


def has_torch(running: RunningService) -> bool:
    return "libtorch" in Path(f"/proc/{running.process.pid}/maps").read_text(encoding="utf-8")


def test_the_default_model_stays_within_its_memory(tmp_path: Path) -> None:
    if choose_set("float32") is None:
        pytest.skip("without kernels torch computes")
    default = ROOT / "checkpoints" / "default"
    with service(default, tmp_path, "--dtype", "auto") as running, running.client() as client:
        ready = resident(running)
        for route in ROUTES.values():
            if route.path not in ("/attributions", "/importance"):
                named = replace(route, path=route.path.replace("tiny", "default"))
                assert send(client, named, SENTENCE).status_code == 200
        left_out = {"sentence": SENTENCE, "method": "leave_out", "level": "word"}
        step = {"sentence": SENTENCE, "layer": 5, "head": 3, "query": 2}
        masked = {"sentences": [SENTENCE], "head_mask": [{"layer": 1}], "granularity": "sentence"}
        for path, body in (
            ("/attributions", left_out),
            ("/attention/steps", step),
            ("/predict", masked),
            ("/attention", {"sentence": SENTENCE, "thumbnail": 16}),
        ):
            assert client.post(path, json=body).status_code == 200, path
        assert client.get("/model").json()["methods"] == ["leave_out"]
        for words in range(1, 16):
            text = " ".join(SENTENCE.split()[:words])
            assert client.post("/predict", json={"sentences": [text]}).status_code == 200
            assert client.post("/attention", json={"sentence": text}).status_code == 200
        for count in (2, 4, 8, 16, 32):
            texts = [f"{SENTENCE}{number}" for number in range(count)]
            assert client.post("/predict", json={"sentences": texts}).status_code == 200
        for times in (5, 10, 20):
            texts = [SENTENCE * times]
            assert client.post("/predict", json={"sentences": texts}).status_code == 200
        without = resident(running)
        assert not has_torch(running)
        answer = client.post("/attributions", json={"sentence": SENTENCE})
        assert answer.status_code == 200
        assert has_torch(running)
        assert "importance" in client.get("/model").json()["methods"]
        after = resident(running)
        headers = {"content-type": "application/json"}
        for _ in range(REFUSED):
            assert client.post("/predict", content=BODY, headers=headers).status_code == 422
        left = resident(running) - after

    assert ready < MOST_READY_MB
    assert without < MOST_MB
    assert after < MOST_WITH_GRADIENTS_MB
    assert left < MOST_LEFT_MB

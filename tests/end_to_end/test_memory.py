"""The resident memory of a replica of the default model, when it is ready and after requests."""

import sys
from pathlib import Path

import pytest

from tests.end_to_end.servers import ROOT, RunningService, service

SENTENCE = "The camera finds beauty in the plainest rooms, but nobody in the cast can act. "
# A processor with AMX packs the weights twice, which takes 40 MB. torch alone takes 230 MB.
MOST_READY_MB = 500
MOST_MB = 670
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


def test_the_default_model_stays_within_its_memory(tmp_path: Path) -> None:
    default = ROOT / "checkpoints" / "default"
    with service(default, tmp_path, "--dtype", "auto") as running, running.client() as client:
        ready = resident(running)
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
        answer = client.post("/attributions", json={"sentence": SENTENCE})
        assert answer.status_code == 200
        after = resident(running)
        headers = {"content-type": "application/json"}
        for _ in range(REFUSED):
            assert client.post("/predict", content=BODY, headers=headers).status_code == 422
        left = resident(running) - after

    assert ready < MOST_READY_MB
    assert after < MOST_MB
    assert left < MOST_LEFT_MB

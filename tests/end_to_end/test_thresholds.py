"""`thresholds` of `GET /model`: the record of a checkpoint as shares, by the client too."""

from pathlib import Path

from headlight_client import Client, Threshold, Thresholds
from tests.builders import tiny_checkpoint, tiny_manifest, tiny_thresholds
from tests.end_to_end.servers import service


def test_the_record_is_told_as_shares(tmp_path: Path) -> None:
    manifest = tiny_manifest(thresholds=tiny_thresholds())
    folder = tiny_checkpoint(tmp_path / "tiny", manifest=manifest)

    with service(folder, tmp_path) as running, running.client() as client:
        told = client.get("/model").json()["thresholds"]
        with Client(running.url) as python:
            read = python.model().thresholds

    assert told == {
        "sets": ["dev"],
        "rows": 1000,
        "by_threshold": [
            {
                "threshold": 0.5,
                "rows": 1000,
                "share": 1.0,
                "accuracy": 0.8,
                "precision": {"negative": 0.7, "positive": 0.9},
                "recall": {"negative": 0.875, "positive": 0.75},
            },
            {
                "threshold": 0.9,
                "rows": 200,
                "share": 0.2,
                "accuracy": 0.75,
                "precision": {"negative": None, "positive": 0.75},
                "recall": {"negative": 0.0, "positive": 0.25},
            },
        ],
    }
    assert read == Thresholds(
        sets=("dev",),
        rows=1000,
        by_threshold=tuple(Threshold(**left) for left in told["by_threshold"]),
    )

"""Serves the BentoML peer: adaptive batching as in its manual, float32."""

import argparse
import os
import sys

import bentoml
import torch
from transformers import pipeline

_CHECKPOINT = "PEER_CHECKPOINT"


@bentoml.service(workers=1, traffic={"timeout": 60})
class Sentiment:
    """Classifies sentences of several requests in one call of `transformers.pipeline`."""

    def __init__(self) -> None:
        self.classifier = pipeline(
            "text-classification", model=os.environ[_CHECKPOINT], truncation=True
        )

    @bentoml.api(  # type: ignore[untyped-decorator]
        batchable=True, max_batch_size=64, max_latency_ms=60_000
    )
    def predict(self, sentences: list[str]) -> list[dict[str, object]]:
        """Returns a label and a score for each sentence."""
        with torch.inference_mode():
            return list(self.classifier(sentences, batch_size=len(sentences)))


def main() -> None:
    """Serves a checkpoint until a signal ends it."""
    parser = argparse.ArgumentParser(description="BentoML with adaptive batching.")
    parser.add_argument("--checkpoint", required=True, help="the folder to serve")
    parser.add_argument("--port", required=True, help="to listen on")
    given = parser.parse_args()
    os.environ[_CHECKPOINT] = given.checkpoint
    command = [sys.executable, "-m", "bentoml", "serve", f"{__spec__.name}:Sentiment"]
    arguments = [*command, "--host", "127.0.0.1", "--port", given.port]
    os.execv(sys.executable, arguments)  # noqa: S606 - the server named above


if __name__ == "__main__":
    main()

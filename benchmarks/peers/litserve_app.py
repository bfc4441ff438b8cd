"""Serves the LitServe peer: dynamic batching as in its manual, float32 or a 16-bit type."""

import argparse
from collections.abc import Sequence
from typing import Any

import litserve
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

_MAX_LENGTH = 512


class SentimentAPI(litserve.LitAPI):  # type: ignore[misc]
    """Classifies several requests in one forward pass."""

    def __init__(self, checkpoint: str, dtype: torch.dtype, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.checkpoint = checkpoint
        self.dtype = dtype

    def setup(self, device: str) -> None:
        """Loads the model in the worker."""
        self.tokenizer = AutoTokenizer.from_pretrained(self.checkpoint)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            self.checkpoint, dtype=self.dtype
        )
        self.model.to(device).eval()
        self.labels = self.model.config.id2label

    def decode_request(self, request: dict[str, list[str]]) -> list[str]:
        """Returns the sentences of a request."""
        return request["sentences"]

    def batch(self, inputs: list[list[str]]) -> list[list[str]]:
        """Keeps requests separate until `predict` reads them."""
        return inputs

    def predict(self, requests: list[list[str]]) -> list[list[dict[str, Any]]]:
        """Classifies all sentences of all requests in one pass."""
        sentences = [sentence for request in requests for sentence in request]
        encoded = self.tokenizer(
            sentences, padding=True, truncation=True, max_length=_MAX_LENGTH, return_tensors="pt"
        ).to(self.model.device)
        with torch.inference_mode():
            rows = self.model(**encoded).logits.float().softmax(dim=-1)
        scores, labels = rows.max(dim=-1)
        answers = iter(
            {"label": self.labels[label], "score": score}
            for label, score in zip(labels.tolist(), scores.tolist(), strict=True)
        )
        return [[next(answers) for _ in request] for request in requests]

    def unbatch(self, outputs: Sequence[Any]) -> Sequence[Any]:
        """Returns one answer for each request."""
        return outputs

    def encode_response(self, output: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the answer to a request."""
        return {"predictions": output}


def main() -> None:
    """Serves a checkpoint until a signal ends it."""
    parser = argparse.ArgumentParser(description="LitServe with dynamic batching.")
    parser.add_argument("--checkpoint", required=True, help="folder to serve")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    api = SentimentAPI(
        options.checkpoint,
        getattr(torch, options.dtype),
        max_batch_size=64,
        batch_timeout=0.005,
        api_path="/predict",
    )
    server = litserve.LitServer(api, accelerator=options.device, devices=1, workers_per_device=1)
    server.run(host="127.0.0.1", port=options.port, generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main()

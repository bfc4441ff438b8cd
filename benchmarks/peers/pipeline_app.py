"""Serves the pipeline peer: `transformers.pipeline` in a FastAPI handler, on plain uvicorn."""

import argparse
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline


class PredictRequest(BaseModel):
    """The body of `POST /predict`."""

    sentences: list[str]


class AttentionRequest(BaseModel):
    """The body of `POST /attention`."""

    sentence: str


def create_app(checkpoint: Path, *, device: str = "cpu", batch_size: int = 1) -> FastAPI:
    """Loads the model and builds the app; a pass has up to `batch_size` sentences of a request."""
    classifier = pipeline(
        "text-classification",
        model=str(checkpoint),
        truncation=True,
        device=device,
        batch_size=batch_size,
    )
    app = FastAPI()

    # Not async: FastAPI then runs it on a thread and the event loop stays free, as its manual says.
    @app.post("/predict")
    def predict(request: PredictRequest) -> list[dict[str, object]]:
        return list(classifier(request.sentences))

    # The usual way to get attention from transformers: the eager implementation, lists of floats.
    model = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, attn_implementation="eager"
    )
    model.to(device).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)

    @app.post("/attention")
    def attention(request: AttentionRequest) -> dict[str, object]:
        encoded = tokenizer(request.sentence, truncation=True, return_tensors="pt").to(device)
        with torch.inference_mode():
            output = model(**encoded, output_attentions=True)
        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
        weights = [layer[0].tolist() for layer in output.attentions]
        return {"tokens": tokens, "attention": weights}

    return app


def main() -> None:
    """Serves a checkpoint until a signal ends it."""
    parser = argparse.ArgumentParser(description="A handler for transformers.pipeline.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder to serve")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batch-size", type=int, default=1)
    options = parser.parse_args()
    app = create_app(options.checkpoint, device=options.device, batch_size=options.batch_size)
    uvicorn.run(app, port=options.port)


if __name__ == "__main__":
    main()

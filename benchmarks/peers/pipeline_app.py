"""The peer: a FastAPI handler round `transformers.pipeline`, and uvicorn as it comes."""

import argparse
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline


class PredictRequest(BaseModel):
    """What `POST /predict` takes."""

    sentences: list[str]


class AttentionRequest(BaseModel):
    """What `POST /attention` takes."""

    sentence: str


class Prediction(BaseModel):
    """What it answers for each sentence."""

    label: str
    score: float


def create_app(checkpoint: Path) -> FastAPI:
    """Loads the model and puts a handler round it.

    Args:
        checkpoint: a folder in the Hugging Face layout.
    """
    classifier = pipeline("text-classification", model=str(checkpoint), truncation=True)
    app = FastAPI()

    # Not async: FastAPI runs it on a thread, so that the event loop stays free, as its manual says.
    @app.post("/predict")
    def predict(request: PredictRequest) -> list[Prediction]:
        return [Prediction.model_validate(found) for found in classifier(request.sentences)]

    # As people ask transformers for attention: the eager implementation, and lists of floats.
    model = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, attn_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)

    @app.post("/attention")
    def attention(request: AttentionRequest) -> dict[str, object]:
        encoded = tokenizer(request.sentence, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            output = model(**encoded, output_attentions=True)
        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
        weights = [layer[0].tolist() for layer in output.attentions]
        return {"tokens": tokens, "attention": weights}

    return app


def main() -> None:
    """Serves a checkpoint until a signal ends it."""
    parser = argparse.ArgumentParser(description="A handler round transformers.pipeline.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="the folder to serve")
    parser.add_argument("--port", type=int, required=True, help="to listen on")
    given = parser.parse_args()
    uvicorn.run(create_app(given.checkpoint), port=given.port)


if __name__ == "__main__":
    main()

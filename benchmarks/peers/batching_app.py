"""Serves an engine as an expert would by hand: FastAPI, uvicorn, tokenizers, batches by tokens."""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
from tokenizers import Tokenizer

from benchmarks.peers.batching import Batcher, Engine, Logits

# Found by trying on two cores; docs/benchmarks-appendix.md has the figures.
MAX_BATCH_TOKENS = 512


class PredictRequest(BaseModel):
    """The body of `POST /predict`."""

    sentences: list[str]


def open_tokenizer(checkpoint: Path) -> Tokenizer:
    """Opens the tokenizer of a checkpoint; it cuts what is too long and pads nothing.

    Args:
        checkpoint: a folder in the Hugging Face layout.
    """
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_config(checkpoint)["max_position_embeddings"])
    return tokenizer


def create_app(checkpoint: Path, engine: Engine, *, max_batch_tokens: int) -> FastAPI:
    """Builds the app.

    Args:
        checkpoint: a folder in the Hugging Face layout.
        engine: that computes it.
        max_batch_tokens: of a pass.
    """
    tokenizer = open_tokenizer(checkpoint)
    names = [label for _, label in sorted(_config(checkpoint)["id2label"].items(), key=_number)]
    batcher = Batcher(engine, max_batch_tokens=max_batch_tokens)
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: PredictRequest) -> Response:
        encoded = tokenizer.encode_batch_fast(request.sentences)
        rows = await batcher.logits([each.ids for each in encoded])
        return Response(orjson.dumps(answers(rows, names)), media_type="application/json")

    return app


def answers(rows: Sequence[Logits], names: Sequence[str]) -> list[dict[str, object]]:
    """Returns the most probable label of each text and its probability.

    Args:
        rows: the logits of each text, [C].
        names: of the labels, C.
    """
    found: list[dict[str, object]] = []
    for row in rows:
        place = int(row.argmax())
        score = 1 / float(np.exp(row - row[place]).sum())
        found.append({"label": names[place], "score": score})
    return found


def cores() -> int:
    """Counts the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def serve(description: str, engine: Callable[[Path, argparse.Namespace], Engine]) -> None:
    """Serves a checkpoint until a signal ends it.

    Args:
        description: of the server.
        engine: opens a checkpoint, with the options of the command line.
    """
    given = parser(description).parse_args()
    app = create_app(
        given.checkpoint,
        engine(given.checkpoint, given),
        max_batch_tokens=given.max_batch_tokens,
    )
    uvicorn.run(app, port=given.port, log_level="warning", access_log=False)


def parser(description: str) -> argparse.ArgumentParser:
    """Builds the parser of the command line; what is tuned are its options."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--checkpoint", type=Path, required=True, help="the folder to serve")
    options.add_argument("--port", type=int, required=True, help="to listen on")
    options.add_argument("--precision", choices=("bf16", "int8"), default="int8")
    options.add_argument("--lanes", type=int, default=cores(), help="passes at once")
    options.add_argument("--max-batch-tokens", type=int, default=MAX_BATCH_TOKENS)
    return options


def _config(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    return found


def _number(item: tuple[str, str]) -> int:
    return int(item[0])

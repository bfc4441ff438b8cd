"""Serves an engine as an expert would by hand: FastAPI, uvicorn, tokenizers, batches by tokens."""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
from tokenizers import Tokenizer

from benchmarks.passes import batches

# The fastest of those tried on two cores.
MAX_BATCH_TOKENS = 512

Ids = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class Engine(Protocol):
    """Computes batches on several streams at once. B texts of up to T tokens, C labels."""

    streams: int

    def run(self, ids: Ids, mask: Ids, *, stream: int, use_all_cores: bool) -> Logits:
        """Computes logits [B, C] of padded ids [B, T] on an idle stream; tokens have mask 1."""


@dataclass(slots=True, eq=False)
class _Text:
    ids: Sequence[int]
    logits: asyncio.Future[Logits]


def padded(texts: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Pads texts to the longest of them; returns ids and mask, [B, T]."""
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask


class Batcher:
    """Batches waiting texts by length, and starts a batch whenever a stream is idle."""

    def __init__(self, engine: Engine, *, max_batch_tokens: int) -> None:
        self._engine = engine
        self._max_batch_tokens = max_batch_tokens
        self._waiting: list[_Text] = []  # oldest first
        self._idle = list(range(engine.streams))
        self._threads = ThreadPoolExecutor(engine.streams)

    async def logits(self, texts: Sequence[Sequence[int]]) -> list[Logits]:
        """Computes the texts of a request; returns the logits of each, [C]."""
        loop = asyncio.get_running_loop()
        waiting = [_Text(ids, loop.create_future()) for ids in texts]
        self._waiting += waiting
        self._start()
        return await asyncio.gather(*(text.logits for text in waiting))

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._waiting:
            batch = self._take()
            stream = self._idle.pop()
            nothing_else = len(self._idle) == self._engine.streams - 1 and not self._waiting
            use_all_cores = nothing_else and len(batch) == 1
            running = loop.run_in_executor(self._threads, self._run, batch, stream, use_all_cores)
            running.add_done_callback(partial(self._finish, batch, stream))

    def _take(self) -> list[_Text]:
        """Takes the batch with the oldest text out of all waiting texts, sorted by length."""
        tokens = sum(len(text.ids) for text in self._waiting)
        # Other idle streams get their share.
        limit = min(self._max_batch_tokens, -(-tokens // len(self._idle)))
        oldest = self._waiting[0]
        candidates = batches(self._waiting, limit, length=lambda text: len(text.ids))
        batch = next(candidate for candidate in candidates if oldest in candidate)
        taken = set(batch)
        self._waiting = [text for text in self._waiting if text not in taken]
        return batch

    def _run(self, batch: Sequence[_Text], stream: int, use_all_cores: bool) -> Logits:
        ids, mask = padded([text.ids for text in batch])
        return self._engine.run(ids, mask, stream=stream, use_all_cores=use_all_cores)

    def _finish(self, batch: Sequence[_Text], stream: int, done: asyncio.Future[Logits]) -> None:
        self._idle.append(stream)
        error = done.exception()
        for row, text in enumerate(batch):
            if text.logits.done():  # nobody waits for it any more
                continue
            if error is None:
                text.logits.set_result(done.result()[row])
            else:
                text.logits.set_exception(error)
        self._start()


class PredictRequest(BaseModel):
    """The body of `POST /predict`."""

    sentences: list[str]


def create_app(checkpoint: Path, engine: Engine, *, max_batch_tokens: int) -> FastAPI:
    """Builds the app for a checkpoint folder in the Hugging Face layout."""
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(config["max_position_embeddings"])
    names = [config["id2label"][key] for key in sorted(config["id2label"], key=int)]
    batcher = Batcher(engine, max_batch_tokens=max_batch_tokens)
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: PredictRequest) -> Response:
        encoded = tokenizer.encode_batch_fast(request.sentences)
        rows = await batcher.logits([each.ids for each in encoded])
        return Response(orjson.dumps(answers(rows, names)), media_type="application/json")

    return app


def answers(rows: Sequence[Logits], names: Sequence[str]) -> list[dict[str, object]]:
    """Returns the most probable label of each text and its probability."""
    best = [int(row.argmax()) for row in rows]
    return [
        {"label": names[label], "score": 1 / float(np.exp(row - row[label]).sum())}
        for row, label in zip(rows, best, strict=True)
    ]


def cores() -> int:
    """Counts the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def serve(description: str, open_engine: Callable[[Path, argparse.Namespace], Engine]) -> None:
    """Serves a checkpoint until a signal ends it; `open_engine` gets the command-line options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder to serve")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument("--precision", choices=("bf16", "int8"), default="int8")
    parser.add_argument("--streams", type=int, default=cores(), help="batches at once")
    parser.add_argument("--max-batch-tokens", type=int, default=MAX_BATCH_TOKENS)
    options = parser.parse_args()
    engine = open_engine(options.checkpoint, options)
    app = create_app(options.checkpoint, engine, max_batch_tokens=options.max_batch_tokens)
    uvicorn.run(app, port=options.port, log_level="warning", access_log=False)

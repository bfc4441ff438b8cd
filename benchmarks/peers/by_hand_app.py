"""Serves a checkpoint as an expert would by hand: FastAPI, tokenizers, batches by tokens.

ONNX Runtime computes on a processor, transformers in float16 on a GPU.
"""

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
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

# The fastest of those tried on two cores; on a GPU a pass of 1,024 short texts.
MAX_BATCH_TOKENS = {"cpu": 512, "cuda": 32_768}
_EXPORTED = Path(sys.prefix) / "exported"
_INPUTS = ["input_ids", "attention_mask"]

Ids = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class Engine(Protocol):
    """Computes batches on several streams at once. B texts of up to T tokens, C labels."""

    streams: int

    def run(self, ids: Ids, mask: Ids, *, use_all_cores: bool) -> Logits:
        """Computes logits [B, C] of padded ids [B, T]; tokens have mask 1."""


@dataclass(slots=True, eq=False)
class _Text:
    ids: Sequence[int]
    logits: asyncio.Future[Logits]


class Batcher:
    """Batches waiting texts by length, and starts a batch whenever a stream is idle."""

    def __init__(self, engine: Engine, *, max_batch_tokens: int) -> None:
        self._engine = engine
        self._max_batch_tokens = max_batch_tokens
        self._waiting: list[_Text] = []  # oldest first
        self._idle = engine.streams
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
            self._idle -= 1
            nothing_else = self._idle == self._engine.streams - 1 and not self._waiting
            use_all_cores = nothing_else and len(batch) == 1
            running = loop.run_in_executor(self._threads, self._run, batch, use_all_cores)
            running.add_done_callback(partial(self._finish, batch))

    def _take(self) -> list[_Text]:
        """Takes the batch with the oldest text out of all waiting texts, sorted by length."""
        tokens = sum(len(text.ids) for text in self._waiting)
        # Other idle streams get their share.
        limit = min(self._max_batch_tokens, -(-tokens // self._idle))
        batches: list[list[_Text]] = []
        for text in sorted(self._waiting, key=lambda text: len(text.ids)):
            if batches and len(text.ids) * (len(batches[-1]) + 1) <= limit:
                batches[-1].append(text)
            else:
                batches.append([text])
        batch = next(each for each in batches if self._waiting[0] in each)
        taken = set(batch)
        self._waiting = [text for text in self._waiting if text not in taken]
        return batch

    def _run(self, batch: Sequence[_Text], use_all_cores: bool) -> Logits:
        ids, mask = padded([text.ids for text in batch])
        return self._engine.run(ids, mask, use_all_cores=use_all_cores)

    def _finish(self, batch: Sequence[_Text], done: asyncio.Future[Logits]) -> None:
        self._idle += 1
        error = done.exception()
        for row, text in enumerate(batch):
            if text.logits.done():  # nobody waits for it any more
                continue
            if error is None:
                text.logits.set_result(done.result()[row])
            else:
                text.logits.set_exception(error)
        self._start()


def padded(texts: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Pads texts to the longest of them; returns ids and mask, [B, T]."""
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask


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
        best = [int(row.argmax()) for row in rows]
        answers = [
            {"label": names[label], "score": 1 / float(np.exp(row - row[label]).sum())}
            for row, label in zip(rows, best, strict=True)
        ]
        return Response(orjson.dumps(answers), media_type="application/json")

    return app


class TransformersEngine:
    """Computes in float16 on a GPU, without cuDNN's attention, which plans for each new shape."""

    streams = 2  # one pass is prepared while the other computes

    def __init__(self, checkpoint: Path, device: str) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification

        torch.backends.cuda.enable_cudnn_sdp(False)
        dtype = torch.float16 if device == "cuda" else torch.float32
        network = AutoModelForSequenceClassification.from_pretrained(checkpoint)
        self._network, self._torch, self._device = network.to(device, dtype).eval(), torch, device

    def run(self, ids: Ids, mask: Ids, *, use_all_cores: bool) -> Logits:
        """Computes a batch; see `Engine`."""
        del use_all_cores
        with self._torch.inference_mode():
            inputs = [self._torch.from_numpy(each).to(self._device) for each in (ids, mask)]
            logits = self._network(**dict(zip(_INPUTS, inputs, strict=True))).logits
            return np.asarray(logits.float().cpu())


class OnnxRuntimeEngine:
    """Computes each batch on its share of the cores, and a single text on all of them."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        cores = len(os.sched_getaffinity(0))

        def session(threads: int) -> Any:  # noqa: ANN401 - the package has no types
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            # Threads spin within a pass, where they wait for each other, and not after it.
            options.add_session_config_entry("session.intra_op.allow_spinning", "1")
            options.add_session_config_entry("session.force_spinning_stop", "1")
            return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        self.streams = cores
        self._of_a_stream, self._of_all_cores = session(1), session(cores)

    def run(self, ids: Ids, mask: Ids, *, use_all_cores: bool) -> Logits:
        """Computes a batch; see `Engine`."""
        session = self._of_all_cores if use_all_cores else self._of_a_stream
        logits: Logits
        (logits,) = session.run(None, dict(zip(_INPUTS, (ids, mask), strict=True)))
        return logits


def read_network(checkpoint: Path) -> Any:  # noqa: ANN401 - torch is imported only for an export
    """Reads the network of a checkpoint: float32 logits of ids and a mask.

    The last layer computes only the first token, which is all that the classifier reads. That
    saves a seventh of the work. B batch, T tokens, D hidden size, H heads, C labels.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AutoModelForSequenceClassification

    class Network(torch.nn.Module):
        def __init__(self, classifier: torch.nn.Module) -> None:
            super().__init__()
            self.classifier = classifier

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            bert: Any = self.classifier.bert
            states = bert.embeddings(input_ids)  # [B, T, D]
            # Finite, so that sums stay finite.
            bias = (1.0 - attention_mask.float())[:, None, None, :] * -1e9  # [B, 1, 1, T]
            *_, last = bert.encoder.layer
            for layer in bert.encoder.layer:
                asking = states[:, :1] if layer is last else states
                attention = layer.attention.self
                size = (attention.num_attention_heads, -1)
                context = scaled_dot_product_attention(
                    attention.query(asking).unflatten(-1, size).transpose(1, 2),  # [B, H, T, D / H]
                    attention.key(states).unflatten(-1, size).transpose(1, 2),
                    attention.value(states).unflatten(-1, size).transpose(1, 2),
                    attn_mask=bias,
                )
                context = context.transpose(1, 2).flatten(2)  # [B, T, D]
                states = layer.attention.output(context, asking)
                states = layer.output(layer.intermediate(states), states)
            classify: Any = self.classifier.classifier
            logits: torch.Tensor = classify(bert.pooler(states))  # [B, C]
            return logits

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32)
    return Network(model).eval()


def export(checkpoint: Path, precision: str, file: Path) -> None:
    """Writes the network of a checkpoint for ONNX Runtime, in `int8` or `fp32`."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the tracing exporter
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        float32 = Path(folder) / "float32.onnx"
        axes = {name: {0: "texts", 1: "tokens"} for name in _INPUTS}
        torch.onnx.export(
            read_network(checkpoint),
            (torch.ones_like(mask), mask),
            str(float32),
            input_names=_INPUTS,
            output_names=["logits"],
            dynamic_axes={**axes, "logits": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )
        if precision == "fp32":
            float32.replace(file)
        else:
            quantize_dynamic(float32, file, per_channel=True, weight_type=QuantType.QInt8)


def exported(checkpoint: Path, precision: str) -> Path:
    """Returns the file of a checkpoint; exports it the first time, where torch takes no memory."""
    digest = hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()[:16]
    file = _EXPORTED / digest / f"{precision}.onnx"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            process.submit(export, checkpoint, precision, unfinished).result()
        unfinished.replace(file)
    return file


def main() -> None:
    """Serves a checkpoint until a signal ends it."""
    parser = argparse.ArgumentParser(description="A server by hand, with batches by tokens.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder to serve")
    parser.add_argument("--port", type=int, help="port to listen on")
    parser.add_argument("--engine", choices=("fp32", "int8", "transformers"), required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    engine: Engine
    if options.engine == "transformers":
        engine = TransformersEngine(options.checkpoint, options.device)
    else:
        engine = OnnxRuntimeEngine(exported(options.checkpoint, options.engine))
    most = MAX_BATCH_TOKENS[options.device]
    app = create_app(options.checkpoint, engine, max_batch_tokens=most)
    uvicorn.run(app, port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()

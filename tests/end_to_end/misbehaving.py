"""The service round a predictor that fails, waits and counts as files in a folder say.

`patches(FOLDER)` lets a service of this process misbehave; `python -m tests.end_to_end.misbehaving
FOLDER OPTIONS` runs one. The files in the folder:

- `load`: what the loading waits for (seconds), or `fail`
- `pass`: the same for each forward pass; or `hold`: passes wait until it is taken away; `hold N`:
  those of N texts or more do; `bad N`: a pass fails if one of its texts has the token N; `exit`: a
  pass raises what is no Exception
- `computed`, `begun`: get a line with the number of texts for each pass that was computed, and for
  each fused one that began
- `lost`: the stage at which the device is lost: `predict`, `explain`, `gradients` or `probe`
- `poison`: the word whose embedding is too large to compute with, read at the start
- `tokenizer`: while it is there at the start, the tokenizer panics at 40 times the letter x
- `watchdog`: while it is there at the start, a pass may take one second
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, partialmethod
from pathlib import Path
from unittest import mock

import numpy as np
from tokenizers import Regex, pre_tokenizers

import service.app
from model import AttentionOptions, Checkpoint, Encoding, Predictor
from model.backends.base import Backend, Processor
from model.backends.cuda import CudaBackend
from model.checkpoint.weights import MappedWeights
from model.loading import load_on
from service.__main__ import main
from service.queue import engine

# Seconds after which a pass goes on all the same, so that a test that failed lets go of it.
_LONGEST_HOLD = 60.0
_READ = Checkpoint.load_weights


def count(file: Path, texts: int) -> None:
    with file.open("a", encoding="ascii") as lines:
        lines.write(f"{texts}\n")


def lose(folder: Path, stage: str) -> None:
    """Loses the device at a stage, with the words of CUDA."""
    if read(folder / "lost") == stage:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Exit(BaseException):
    """What is no Exception, such as a panic in Rust."""


def misbehave(order: Path, texts: Sequence[Encoding] = ()) -> None:
    """Fails or waits as a file says; does nothing if there is none."""
    until = time.monotonic() + _LONGEST_HOLD
    # A file that is empty is being written.
    while ((text := read(order)) == "" or _holds(text, len(texts))) and time.monotonic() < until:
        time.sleep(0.01)
    word, _, number = (text or "hold").partition(" ")
    if word == "exit":
        raise Exit
    if word == "fail" or (word == "bad" and any(int(number) in each.input_ids for each in texts)):
        raise RuntimeError("made to fail")
    if word not in ("hold", "bad"):
        time.sleep(float(word))


def _holds(text: str | None, texts: int) -> bool:
    word, _, number = (text or "").partition(" ")
    return word == "hold" and texts >= int(number or 1)


def read(order: Path) -> str | None:
    """What a file says, if there is one."""
    try:
        return order.read_text(encoding="ascii")
    except FileNotFoundError:
        return None


def precede(part: object, name: str, before: Callable[..., None]) -> None:
    """Lets something happen before each call of a method of one object."""
    real = getattr(part, name)

    def call(*args: object, **named: object) -> object:
        before(*args, **named)
        return real(*args, **named)

    setattr(part, name, call)


def load_misbehaving(folder: Path, checkpoint: Checkpoint, backend: Backend) -> Predictor:
    """Loads a real predictor whose parts do as the files say before they compute."""
    misbehave(folder / "load")
    poisoned = partialmethod(_read_poisoned, folder / "poison")
    with mock.patch.object(Checkpoint, "load_weights", poisoned):
        predictor = load_on(checkpoint, backend)
    order = folder / "pass"

    def fused(encodings: Sequence[Encoding]) -> None:
        count(folder / "begun", len(encodings))
        misbehave(order, encodings)
        count(folder / "computed", len(encodings))

    def explicit(questions: Sequence[AttentionOptions]) -> None:
        misbehave(order, [question.encoding for question in questions])
        count(folder / "computed", len(questions))

    def run(_: object, selection: object = None) -> None:
        lose(folder, "predict" if selection is None else "explain")

    def gradient(encoding: Encoding, *_: object, **__: object) -> None:
        lose(folder, "gradients")
        misbehave(order, [encoding])
        count(folder / "computed", 1)

    precede(predictor, "_predict", fused)
    precede(predictor, "_explain", explicit)
    precede(predictor.gradients, "_batch", gradient)
    precede(predictor.inspector, "_project", gradient)
    precede(predictor, "probe", lambda *_: lose(folder, "probe"))
    precede(predictor._runner, "run", run)
    if (folder / "tokenizer").exists():
        rules = predictor._tokenizer._backend
        split = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
        rules.pre_tokenizer = pre_tokenizers.Sequence([rules.pre_tokenizer, split])
    return predictor


def _read_poisoned(checkpoint: Checkpoint, order: Path) -> MappedWeights:
    """Reads the weights; the embedding of a word is too large to compute with."""
    weights = _READ(checkpoint)
    if not (word := read(order)):
        return weights
    tokens = weights["embeddings.tokens.weight"].astype(np.float32)
    # Not all features: the norm of equal numbers is finite, however large they are.
    tokens[checkpoint.tokenizer.token_id(word), ::2] = 1e30
    weights["embeddings.tokens.weight"] = tokens
    return weights


@contextmanager
def patches(folder: Path) -> Iterator[None]:
    """Lets services of this process that start meanwhile do as the files in a folder say."""
    with (
        mock.patch.object(service.app, "load_on", partial(load_misbehaving, folder)),
        mock.patch.object(Processor, "is_fatal", CudaBackend.is_fatal),
        mock.patch.object(engine, "_PROBE_SECONDS", 0.1),
    ):
        yield


if __name__ == "__main__":
    if (Path(sys.argv[1]) / "watchdog").exists():
        service.app.WATCHDOG_SECONDS = 1.0
    with patches(Path(sys.argv[1])):
        sys.exit(main(sys.argv[2:]))

"""The service round a predictor that fails, sleeps and counts as files in a folder tell it to.

Run as `python -m tests.end_to_end.misbehaving FOLDER`, then the options of the service. In the
folder, `load` holds what the loading waits for (seconds) or `fail`; `pass` the same for each
forward pass, or `hold`, with which passes wait until it is taken away, or `hold N`, with which
those of N texts or more do, or `room N`, which lets a pass of more than N texts run out of memory;
`gradient` the same for passes with gradients, before what `pass` says; `computed` gets a line with
the number of texts for each pass that was computed.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

import service.app
from model import (
    Batch,
    Checkpoint,
    Encoding,
    Explanation,
    Gradients,
    Prediction,
    Predictor,
    Question,
)
from model.backends.base import Backend
from model.loading import load
from service.__main__ import main

# Seconds after which a pass goes on all the same, so that a test that failed lets go of it.
_LONGEST_HOLD = 60.0


class MisbehavingPredictor(Predictor):
    """A real predictor that does as it is told first."""

    folder: Path

    def _predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Counts, and then what the real one does."""
        misbehave(self.folder / "pass", texts=len(encodings))
        count(self.folder, len(encodings))
        return super()._predict(encodings)

    def _explain(self, questions: Sequence[Question]) -> list[Explanation]:
        """Counts, and then what the real one does."""
        misbehave(self.folder / "pass", texts=len(questions))
        count(self.folder, len(questions))
        return super()._explain(questions)


class MisbehavingGradients(Gradients):
    """Real gradients that do as they are told first; a pass counts as one text."""

    folder: Path

    def _batch(self, encoding: Encoding, size: int) -> Batch:
        """Counts, and then what the real one does; every pass asks for one."""
        misbehave(self.folder / "gradient")
        misbehave(self.folder / "pass")
        count(self.folder, 1)
        return super()._batch(encoding, size)


def count(folder: Path, texts: int) -> None:
    """Notes a pass."""
    with (folder / "computed").open("a", encoding="ascii") as file:
        file.write(f"{texts}\n")


def misbehave(order: Path, *, texts: int = 1) -> None:
    """Fails or waits as a file says; does nothing if there is none."""
    until = time.monotonic() + _LONGEST_HOLD
    while _holds(text := read(order), texts) and time.monotonic() < until:
        time.sleep(0.01)
    if text is not None and not text.startswith("hold"):
        if text == "fail":
            raise RuntimeError("told to fail")
        if text.startswith("room "):
            if texts > int(text.removeprefix("room ")):
                raise torch.OutOfMemoryError("told to run out of memory")
            return
        time.sleep(float(text))


def _holds(text: str | None, texts: int) -> bool:
    if text is None or not text.startswith("hold"):
        return False
    return texts >= int(text.removeprefix("hold").strip() or 1)


def read(order: Path) -> str | None:
    """What a file says, if there is one."""
    try:
        return order.read_text(encoding="ascii")
    except FileNotFoundError:
        return None


def load_misbehaving(checkpoint: Checkpoint, backend: Backend) -> Predictor:
    """Loads a real predictor and changes its class."""
    misbehave(folder / "load")
    predictor = load(checkpoint, backend)
    predictor.__class__ = MisbehavingPredictor
    assert isinstance(predictor, MisbehavingPredictor)
    predictor.folder = folder
    predictor.gradients.__class__ = MisbehavingGradients
    assert isinstance(predictor.gradients, MisbehavingGradients)
    predictor.gradients.folder = folder
    return predictor


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with mock.patch.object(service.app, "load", load_misbehaving):
        sys.exit(main(sys.argv[2:]))

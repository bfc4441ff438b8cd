"""The service round a predictor that fails, sleeps and counts as files in a folder tell it to.

Run as `python -m tests.end_to_end.misbehaving FOLDER`, then the options of the service. In the
folder, `load` holds what the loading waits for (seconds) or `fail`; `pass` the same for each
forward pass; `computed` gets a line with the number of texts for each pass that was computed.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

import service.app
from model import Checkpoint, Encoding, Explanation, Prediction, Predictor, load_predictor
from service.__main__ import main


class MisbehavingPredictor(Predictor):
    """A real predictor that does as it is told first."""

    folder: Path

    def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Counts, and then what the real one does."""
        misbehave(self.folder / "pass")
        self._count(len(encodings))
        return super().predict(encodings)

    def explain(
        self,
        encoding: Encoding,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Explanation:
        """Counts, and then what the real one does."""
        misbehave(self.folder / "pass")
        self._count(1)
        return super().explain(encoding, layers=layers, heads=heads)

    def _count(self, texts: int) -> None:
        with (self.folder / "computed").open("a", encoding="ascii") as file:
            file.write(f"{texts}\n")


def misbehave(order: Path) -> None:
    """Fails or sleeps as a file says; does nothing if there is none."""
    if order.exists():
        text = order.read_text(encoding="ascii")
        if text == "fail":
            raise RuntimeError("told to fail")
        time.sleep(float(text))


def load(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Predictor:
    """Loads a real predictor and changes its class."""
    misbehave(folder / "load")
    predictor = load_predictor(checkpoint, device=device, dtype=dtype)
    predictor.__class__ = MisbehavingPredictor
    assert isinstance(predictor, MisbehavingPredictor)
    predictor.folder = folder
    return predictor


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with mock.patch.object(service.app, "load_predictor", load):
        sys.exit(main(sys.argv[2:]))

"""Asks a teacher for probabilities of texts, and keeps its answers in a file.

Hinton et al. 2015, "Distilling the knowledge in a neural network".

Legend: N texts, C classes.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import safe_open
from scipy.special import softmax
from torch import nn

from model.atomic import write_whole
from model.cli.signals import Interruption
from model.tokenization.tokenizer import Tokenizer
from training.device import Accelerator
from training.measure.inference import predict_logits

_TEXTS_AT_ONCE = 16_384  # the most answers that are lost when a run is stopped
_KEYS, _VALUES, _WEIGHTS = "keys", "probabilities", "weights"


class Teacher:
    """A network that labels texts, each of them once. Its file holds digests, not texts.

    Args:
        weights: the digest of the weights; a file of answers of others is ignored.
    """

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        *,
        answers: Path,
        weights: str,
        accelerator: Accelerator,
        stop: Callable[[], int | None],
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._path = answers
        self._weights = weights
        self._accelerator = accelerator
        self._stop = stop
        self._known: dict[int, NDArray[np.float32]] = {}
        if answers.is_file():
            with safe_open(answers, "numpy") as file:
                if (file.metadata() or {}).get(_WEIGHTS) == weights:
                    keys, values = file.get_tensor(_KEYS), file.get_tensor(_VALUES)
                    self._known.update(zip(keys.tolist(), values, strict=True))

    def fits(self, text: str) -> bool:
        """Returns whether the teacher can read the whole text."""
        return not self._tokenizer.encode(text).truncated

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the probabilities of texts, at least one [N, C]."""
        fresh = [text for text in dict.fromkeys(texts) if _key(text) not in self._known]
        for start in range(0, len(fresh), _TEXTS_AT_ONCE):
            signal = self._stop()
            if signal is not None:
                raise Interruption(signal, f"text {start} of {len(fresh)}")
            some = fresh[start : start + _TEXTS_AT_ONCE]
            values = self._compute(some, f"teacher, from {start:,} of {len(fresh):,}")
            self._known.update(zip(map(_key, some), values, strict=True))
            self._write()
        return np.stack([self._known[_key(text)] for text in texts])

    def _compute(self, texts: Sequence[str], label: str) -> NDArray[np.float32]:
        self._network.eval()
        with self._accelerator.autocast():
            logits = predict_logits(
                self._network,
                [self._tokenizer.encode(text) for text in texts],
                pad_token_id=self._tokenizer.pad_token_id,
                device=self._accelerator.device,
                label=label,
            )
        values: NDArray[np.float32] = softmax(logits.astype(np.float64), axis=1).astype(np.float32)
        return values  # [N, C]

    def _write(self) -> None:
        content: dict[str, NDArray[np.generic]] = {
            _KEYS: np.fromiter(self._known, np.int64, len(self._known)),
            _VALUES: np.stack(list(self._known.values())),
        }
        write_whole(self._path, safetensors.numpy.save(content, {_WEIGHTS: self._weights}))


def _key(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)

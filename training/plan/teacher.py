"""Asks a teacher for probabilities of texts, and keeps its answers on disk.

Hinton et al. 2015, "Distilling the knowledge in a neural network".

Legend: N texts, C classes.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.special import softmax
from torch import nn

from model.files import write_whole
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.tokenizer import Tokenizer
from training.device import Accelerator
from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import InterruptedRunError
from training.measure.inference import predict_together
from training.plan.mpnet import MPNetClassifier, load_mpnet
from training.plan.plan import TeacherPlan

_TEXTS_AT_ONCE = 1024  # the most answers that are lost when a run is stopped
_KEYS, _VALUES, _TEACHER = "keys", "probabilities", "teacher"


def load_teacher(
    folder: Path, plan: TeacherPlan, *, num_labels: int
) -> tuple[MPNetClassifier, Tokenizer]:
    """Loads the pretrained network that the teacher begins with."""
    recipe = plan.recipe
    network = load_mpnet(
        folder,
        num_labels=num_labels,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        seed=recipe.seed,
    )
    try_tokenizer(folder)
    return network, load_tokenizer(folder, max_length=recipe.max_length)


class TeacherLabels:
    """The answers of one teacher, by digests of texts. Texts are not written.

    A file with the fingerprint of another teacher is ignored. Only the first process reads and
    writes it.
    """

    def __init__(self, path: Path, teacher: str, ranks: Ranks = SINGLE_PROCESS) -> None:
        self._path = path
        self._teacher = teacher
        self._known: dict[int, NDArray[np.float32]] = {}
        self._ranks = ranks
        if path.is_file() and ranks.is_first:
            self._read(path)
        self._share()

    def __contains__(self, text: str) -> bool:
        return _key(text) in self._known

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the known probabilities of texts [N, C]."""
        return np.stack([self._known[_key(text)] for text in texts])

    def add(self, texts: Sequence[str], probabilities: NDArray[np.float32]) -> None:
        """Adds answers, and writes them to disk."""
        self._known.update(zip(map(_key, texts), probabilities, strict=True))
        if not self._ranks.is_first:
            return
        content: dict[str, NDArray[np.generic]] = {
            _KEYS: np.fromiter(self._known, np.int64, len(self._known)),
            _VALUES: np.stack(list(self._known.values())),
        }
        write_whole(self._path, safetensors.numpy.save(content, {_TEACHER: self._teacher}))

    def _read(self, path: Path) -> None:
        try:
            with safe_open(path, "numpy") as file:
                if (file.metadata() or {}).get(_TEACHER) != self._teacher:
                    return
                keys, values = file.get_tensor(_KEYS), file.get_tensor(_VALUES)
        except SafetensorError:
            return  # damaged: the teacher is asked again
        self._known.update(zip(keys.tolist(), values, strict=True))

    def _share(self) -> None:
        """Gives what the first process has read to all."""
        if self._ranks.count == 1 or not self._ranks.share_object(bool(self._known)):
            return
        tensors = None
        if self._ranks.is_first:
            tensors = {
                _KEYS: torch.tensor(list(self._known)),
                _VALUES: torch.from_numpy(np.stack(list(self._known.values()))),
            }
        shared = self._ranks.share_tensors(tensors)
        values = shared[_VALUES].numpy()
        self._known = dict(zip(shared[_KEYS].tolist(), values, strict=True))


class Teacher:
    """A network that labels texts: the trained teacher, or the network of a stage itself."""

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        labels: TeacherLabels,
        *,
        num_labels: int,
        temperature: float = 1.0,
        accelerator: Accelerator,
        stop: Callable[[], int | None],
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        self._ranks = ranks
        self._network = network
        self._tokenizer = tokenizer
        self._labels = labels
        self._num_labels = num_labels
        self._temperature = temperature
        self._accelerator = accelerator
        self._stop = stop

    def fits(self, text: str) -> bool:
        """Tells whether the teacher can read the whole text."""
        return not self._tokenizer.encode(text).truncated

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the probabilities of texts [N, C]; each text is computed once in a run."""
        if not texts:
            return np.zeros((0, self._num_labels), np.float32)
        fresh = [text for text in dict.fromkeys(texts) if text not in self._labels]
        for start in range(0, len(fresh), _TEXTS_AT_ONCE):
            signal = self._stop()
            if signal is not None:
                raise InterruptedRunError(signal, start, len(fresh), of="text")
            some = fresh[start : start + _TEXTS_AT_ONCE]
            self._labels.add(
                some, self._compute(some, f"teacher, from {start:,} of {len(fresh):,}")
            )
        return self._labels.of(texts)

    def _compute(self, texts: Sequence[str], label: str) -> NDArray[np.float32]:
        self._network.eval()
        with self._accelerator.autocast():
            logits = predict_together(
                self._network,
                [self._tokenizer.encode(text) for text in texts],
                pad_token_id=self._tokenizer.pad_token_id,
                device=self._accelerator.device,
                ranks=self._ranks,
                label=label,
            )
        scaled = logits.astype(np.float64) / self._temperature
        values: NDArray[np.float32] = softmax(scaled, axis=1).astype(np.float32)
        return values  # [N, C]


def _key(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)

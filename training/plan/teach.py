"""Who teaches a stage: the fitted teacher of a plan or the network itself, asked for probabilities.

Hinton et al. 2015, "Distilling the knowledge in a neural network".

Legend: N texts, C classes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn

from model.tokenizer import Tokenizer, load_tokenizer
from training.errors import InterruptedRunError
from training.measure.inference import predict_logits
from training.plan.mpnet import MPNetClassifier, load_mpnet
from training.plan.plan import TeacherPlan
from training.plan.teacher_labels import TeacherLabels

# So many texts are lost at most when a run is stopped.
_TEXTS_AT_ONCE = 1024
_CLASSES = 2


def start_teacher(folder: Path, teacher: TeacherPlan) -> tuple[MPNetClassifier, Tokenizer]:
    """Reads the pretrained network that the teacher begins as.

    Args:
        folder: in the layout of transformers.
        teacher: of the plan.

    Raises:
        CheckpointError: a file is missing, or the network is another one.
    """
    recipe = teacher.recipe
    network = load_mpnet(
        folder,
        num_labels=_CLASSES,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        seed=recipe.seed,
    )
    return network, load_tokenizer(folder, max_length=recipe.max_length)


class Teacher:
    """Answers for a network that is done learning, or is yet to go on.

    Args:
        network: on `device`; set to evaluation mode when it is asked.
        tokenizer: of the same folder.
        labels: what it said before.
        device: where the network runs.
        bfloat16: whether matrix products are computed in it.
        stop: asked before each piece of work; the number of a signal ends the run.
    """

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        labels: TeacherLabels,
        *,
        device: torch.device,
        bfloat16: bool,
        stop: Callable[[], int | None],
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._labels = labels
        self._device = device
        self._bfloat16 = bfloat16
        self._stop = stop

    def fits(self, text: str) -> bool:
        """Whether the teacher reads a text whole."""
        return not self._tokenizer.encode(text).truncated

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the teacher thinks of texts; each different one is computed once in a run.

        Args:
            texts: N of them.

        Returns:
            [N, C].

        Raises:
            InterruptedRunError: `stop` said so; what was computed is on disk.
        """
        if not texts:
            return np.zeros((0, _CLASSES), np.float32)
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
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            logits = predict_logits(
                self._network,
                [self._tokenizer.encode(text) for text in texts],
                pad_token_id=self._tokenizer.pad_token_id,
                device=self._device,
                label=label,
            )
        values: NDArray[np.float32] = softmax(logits.astype(np.float64), axis=1).astype(np.float32)
        return values  # [N, C]

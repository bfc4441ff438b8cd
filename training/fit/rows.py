"""Encodes rows, loads them in batches, and measures a network on them.

Legend: N rows, B rows of a batch, C classes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor, nn

from model.batch import Batch, collate
from model.tokenizer import Encoding, Tokenizer
from training.data.dataset import Dataset
from training.machine import Accelerator
from training.measure.inference import predict_logits


@dataclass(frozen=True, slots=True)
class Rows:
    """Encoded texts and their classes.

    Args:
        encodings: of the texts.
        label_ids: the class of each.
        targets: probabilities of the classes to learn, float32 [N, C]; None: learn the classes.
    """

    encodings: Sequence[Encoding]
    label_ids: Sequence[int]
    targets: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Loss and accuracy on some rows, in evaluation mode.

    Args:
        loss: mean negative log-likelihood, in nats.
        accuracy: share of right rows.
    """

    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """What a step reads, on the device.

    Args:
        inputs: B texts.
        label_ids: their classes, int64 [B].
        targets: what to learn: the classes, or probabilities of them, float32 [B, C].
    """

    inputs: Batch
    label_ids: Tensor
    targets: Tensor


def encode_rows(tokenizer: Tokenizer, dataset: Dataset) -> Rows:
    """Encodes every text of a dataset.

    Args:
        tokenizer: of the network that reads them.
        dataset: N rows.
    """
    return Rows([tokenizer.encode(text) for text in dataset.texts], dataset.label_ids)


def load_batches(
    rows: Rows, batches: Iterable[Sequence[int]], *, pad_token_id: int, accelerator: Accelerator
) -> Iterator[TrainingBatch]:
    """Loads batches one ahead, so that a GPU computes during the next copy.

    Args:
        rows: N of them.
        batches: indices of the rows of each batch.
        pad_token_id: the id that pads a batch.
        accelerator: where the batches go.

    Yields:
        The batches, in their order.
    """
    ahead = None
    for places in batches:
        following = _load(rows, places, pad_token_id, accelerator)
        if ahead is not None:
            yield ahead
        ahead = following
    if ahead is not None:
        yield ahead


def _load(
    rows: Rows, places: Sequence[int], pad_token_id: int, accelerator: Accelerator
) -> TrainingBatch:
    inputs = collate(
        [rows.encodings[place] for place in places],
        pad_token_id=pad_token_id,
        device=accelerator.device,
    )
    label_ids = accelerator.send(torch.tensor([rows.label_ids[place] for place in places]))
    if rows.targets is None:
        return TrainingBatch(inputs, label_ids, label_ids)
    targets = accelerator.send(torch.from_numpy(rows.targets[list(places)]))
    return TrainingBatch(inputs, label_ids, targets)


def measure_rows(
    network: nn.Module, rows: Rows, *, pad_token_id: int, accelerator: Accelerator
) -> EvalResult:
    """Measures a network on rows.

    Args:
        network: on the device; left in evaluation mode.
        rows: N of them, at least one.
        pad_token_id: the id that pads a batch.
        accelerator: where the batches go.
    """
    network.eval()
    with accelerator.autocast():
        logits = predict_logits(
            network, rows.encodings, pad_token_id=pad_token_id, device=accelerator.device
        )
    logits = logits.astype(np.float64)  # [N, C]
    truth = np.array(rows.label_ids)
    losses = -log_softmax(logits, axis=1)[np.arange(len(truth)), truth]
    return EvalResult(
        loss=float(losses.mean()), accuracy=float((logits.argmax(axis=1) == truth).mean())
    )

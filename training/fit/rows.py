"""Encoded texts with their classes, and how well a network does on them.

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
    """Encoded texts with their classes.

    Args:
        encodings: of the texts.
        label_ids: the class of each.
        targets: probabilities of the classes to be learnt instead, float32 [N, C]; None: the
            classes themselves.
    """

    encodings: Sequence[Encoding]
    label_ids: Sequence[int]
    targets: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class EvalResult:
    """How well a network does on some rows, in evaluation mode.

    Args:
        loss: mean negative log-likelihood, in nats.
        accuracy: share of the rows that are right.
    """

    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """What a step reads, on the device.

    Args:
        inputs: B texts.
        label_ids: their classes, int64 [B].
        targets: what is to be learnt: the classes, or their probabilities, float32 [B, C].
    """

    inputs: Batch
    label_ids: Tensor
    targets: Tensor


def encode_rows(tokenizer: Tokenizer, dataset: Dataset) -> Rows:
    """Encodes every text of a dataset.

    Args:
        tokenizer: of the network that is to read them.
        dataset: N rows.
    """
    return Rows([tokenizer.encode(text) for text in dataset.texts], dataset.label_ids)


def load_batches(
    rows: Rows, batches: Iterable[Sequence[int]], *, pad_token_id: int, accelerator: Accelerator
) -> Iterator[TrainingBatch]:
    """Makes batches of rows, always one before it is asked for: its copy passes computing by.

    Args:
        rows: N of them.
        batches: places of the rows of each.
        pad_token_id: the id that pads a batch.
        accelerator: where they go.

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
    """Runs a network over rows.

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

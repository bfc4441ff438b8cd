"""Encoded texts with their classes, and how well a network does on them.

Legend: N rows, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import nn

from model.tokenizer import Encoding, Tokenizer
from training.data.data import Dataset
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


def encode_rows(tokenizer: Tokenizer, dataset: Dataset) -> Rows:
    """Encodes every text of a dataset.

    Args:
        tokenizer: of the network that is to read them.
        dataset: N rows.
    """
    return Rows([tokenizer.encode(text) for text in dataset.texts], dataset.label_ids)


def measure_rows(
    network: nn.Module, rows: Rows, *, pad_token_id: int, device: torch.device, bfloat16: bool
) -> EvalResult:
    """Runs a network over rows.

    Args:
        network: on `device`; left in evaluation mode.
        rows: N of them, at least one.
        pad_token_id: the id that pads a batch.
        device: where the batches go.
        bfloat16: whether matrix products are computed in it.
    """
    network.eval()
    with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
        logits = predict_logits(network, rows.encodings, pad_token_id=pad_token_id, device=device)
    logits = logits.astype(np.float64)  # [N, C]
    truth = np.array(rows.label_ids)
    losses = -log_softmax(logits, axis=1)[np.arange(len(truth)), truth]
    return EvalResult(
        loss=float(losses.mean()), accuracy=float((logits.argmax(axis=1) == truth).mean())
    )

"""Computes logits or probabilities of N texts in C classes, in batches of similar length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from model.backends.eager import collate
from model.cli.progress import progress
from model.predictor import Predictor
from model.tokenization.tokenizer import Tokenizer, count_unknown
from model.types import Classifier, Encoding
from training.data.batches import batches_by_length, choose_batch_tokens
from training.distributed import Ranks


@dataclass(frozen=True, slots=True)
class Probabilities:
    """What a predictor says of many texts."""

    values: NDArray[np.float64]  # calibrated [N, C]
    token_counts: NDArray[np.int64]  # that were read [N]
    truncated: int
    unknown_tokens: int


def encode_all(encoder: Predictor | Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """Encodes texts together; raises the error of the first that cannot be encoded."""
    found = list(encoder.encode_many(texts))
    if errors := [each for each in found if isinstance(each, Exception)]:
        raise errors[0]
    return [each for each in found if isinstance(each, Encoding)]


def predict_probabilities(
    predictor: Predictor,
    texts: Sequence[str],
    *,
    max_batch_tokens: int | None = None,
    label: str = "predict",
) -> Probabilities:
    """Classifies texts exactly as the service does, calibration included, in their order."""
    window = choose_batch_tokens(predictor.info.device)  # of texts, so that memory stays small
    values = np.zeros((len(texts), len(predictor.info.labels)))  # [N, C]
    token_counts = np.zeros(len(texts), dtype=np.int64)  # [N]
    truncated = unknown_tokens = 0
    with progress(len(texts), label) as advance:
        for start in range(0, len(texts), window):
            encodings = encode_all(predictor, texts[start : start + window])
            truncated += sum(encoding.truncated for encoding in encodings)
            unknown_tokens += count_unknown(encodings, predictor.unknown_id)
            lengths = [len(encoding.input_ids) for encoding in encodings]
            token_counts[start : start + window] = lengths
            for batch in batches_by_length(lengths, max_batch_tokens=max_batch_tokens or window):
                predictions = predictor.predict([encodings[index] for index in batch])
                rows = [start + index for index in batch]
                values[rows] = [list(each.probabilities.values()) for each in predictions]
                advance(len(batch), "")
    return Probabilities(values, token_counts, truncated, unknown_tokens)


def predict_logits(
    network: Classifier,
    encodings: Sequence[Encoding],
    *,
    pad_token_id: int,
    device: torch.device,
    label: str = "predict",
) -> NDArray[np.float32]:
    """Runs a network in evaluation mode over N texts, at least one; returns logits [N, C]."""
    lengths = [len(encoding.input_ids) for encoding in encodings]
    most = choose_batch_tokens(device.type)
    logits: dict[int, NDArray[np.float32]] = {}
    with torch.inference_mode(), progress(len(encodings), label) as advance:
        for batch in batches_by_length(lengths, max_batch_tokens=most):
            collated = collate(
                [encodings[index] for index in batch], pad_token_id=pad_token_id, device=device
            )
            logits.update(zip(batch, network(collated).logits.cpu().numpy(), strict=True))
            advance(len(batch), "")
    return np.stack([logits[index] for index in range(len(encodings))])  # [N, C]


def predict_together(
    network: Classifier,
    encodings: Sequence[Encoding],
    *,
    pad_token_id: int,
    device: torch.device,
    ranks: Ranks,
) -> NDArray[np.float32]:
    """Runs a network over N texts, each process over some; returns all logits [N, C] in each."""
    # A process without a text of its own computes the first one, to know the number of classes.
    own = encodings[ranks.number :: ranks.count]
    logits = predict_logits(network, own or encodings[:1], pad_token_id=pad_token_id, device=device)
    if ranks.count == 1:
        return logits
    values = np.zeros((len(encodings), logits.shape[1]))  # [N, C]
    values[ranks.number :: ranks.count] = logits[: len(own)]
    return ranks.sum(values).astype(np.float32)

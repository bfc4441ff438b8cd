"""Calibrates and measures the best weights of a run, and writes the checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from model.checkpoint.manifest import Manifest
from model.checkpoint.records import Metric, Precision
from model.checkpoint.saving import save_checkpoint
from model.network.labels import PAIR, has_pair
from model.tokenization.language import is_not_english
from model.tokenization.tokenizer import count_unknown
from model.types import Encoding
from training.data.dataset import Dataset
from training.fit.initial import InitialModel
from training.measure.counts import count_baseline, count_thresholds
from training.measure.inference import Probabilities, encode_all, predict_logits
from training.measure.metrics import Figures, fit_temperature, measure

_LEAST_GAIN = 1e-4  # of log-loss, in nats
_MOST_OTHER = 0.01  # of the rows


@dataclass(frozen=True, slots=True)
class Exported:
    """The record of a checkpoint that was written, the figures of every set, and of int8."""

    manifest: Manifest
    figures: Mapping[str, Figures]
    int8: Precision | None = None


def write_checkpoint(
    output: Path,
    start: InitialModel,
    *,
    seed: int,
    language: str | None,
    record: Mapping[str, Any],
    training: Dataset,
    validation: Dataset,
    evaluated: Mapping[str, Dataset],
    device: torch.device,
    dtype: torch.dtype,
) -> Exported:
    """Calibrates on the validation rows, measures in float32, and saves.

    The network of `start` holds the best weights, on `device` and in evaluation mode.
    """
    with torch.no_grad():  # to the values that a reader of the checkpoint will see
        for parameter in start.network.parameters():
            parameter.copy_(parameter.to(dtype))
    encodings = encode_all(start.tokenizer, validation.texts)
    logits, label_ids = _compute(start, encodings, device, "validation"), _ids(validation)
    temperature = fit_temperature(logits, label_ids)
    probabilities = softmax(logits / temperature, axis=1)  # [N, C]
    figures = {"validation": measure(probabilities, label_ids)}
    for name, dataset in evaluated.items():
        others = encode_all(start.tokenizer, dataset.texts)
        calibrated = softmax(_compute(start, others, device, name) / temperature, axis=1)
        figures[name] = measure(calibrated, _ids(dataset))
    answers = Probabilities(
        probabilities,
        np.array([len(encoding.input_ids) for encoding in encodings]),
        truncated=sum(encoding.truncated for encoding in encodings),
        unknown_tokens=count_unknown(encodings, start.tokenizer.unknown_id),
    )
    counted = {"labels": training.labels, "sets": ["validation"]}
    manifest = Manifest(
        labels=training.labels,
        temperature=temperature,
        pair_temperature=fit_pair(logits, label_ids, training.labels, temperature),
        language=language,
        max_length=start.tokenizer.max_length,
        training_data=training.sources,
        seed=seed,
        recipe={**record, **start.origin},
        metrics=tuple(
            Metric.model_validate({**asdict(found), "name": name}, extra="ignore")
            for name, found in figures.items()
        ),
        baseline=count_baseline(answers, **counted),
        thresholds=count_thresholds(probabilities, label_ids, **counted),
    )
    save_checkpoint(
        output,
        network=start.network,
        config=start.config,
        tokenizer=start.tokenizer,
        manifest=manifest,
        dtype=dtype,
    )
    return Exported(manifest, figures)


def _compute(
    start: InitialModel, encodings: Sequence[Encoding], device: torch.device, name: str
) -> NDArray[np.float64]:
    """Returns the logits of texts, computed in float32 [N, C]."""
    pad_token_id = start.tokenizer.pad_token_id
    logits = predict_logits(
        start.network, encodings, pad_token_id=pad_token_id, device=device, label=name
    )
    return logits.astype(np.float64)


def _ids(dataset: Dataset) -> NDArray[np.int64]:
    return np.array(dataset.label_ids, np.int64)


def fit_pair(
    logits: NDArray[np.floating],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    temperature: float,
) -> float | None:
    """Finds the temperature of a choice between `negative` and `positive`, by logits [N, C].

    None if there are no other labels, or the log-loss on their rows is hardly lower.
    """
    if not has_pair(labels):
        return None
    pair = [labels.index(label) for label in PAIR]
    rows = np.isin(label_ids, pair)
    if not rows.any():
        return None
    logits, truth = logits[rows][:, pair], (label_ids[rows] == pair[1]).astype(np.int64)
    found = fit_temperature(logits, truth)
    before, now = (measure(softmax(logits / t, axis=1), truth) for t in (temperature, found))
    return found if before.log_loss - now.log_loss > _LEAST_GAIN else None


def language_of(start: InitialModel, training: Dataset) -> str | None:
    """Returns the language that first weights read, unless the rows are in another."""
    others = sum(map(is_not_english, training.texts))
    return start.language if others <= _MOST_OTHER * len(training) else None

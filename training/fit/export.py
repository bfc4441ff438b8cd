"""Calibrates and measures the best weights of a run, and writes the checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from model.checkpoint.baseline import count_baseline
from model.checkpoint.manifest import Manifest, Metric
from model.checkpoint.saving import save_checkpoint
from model.checkpoint.thresholds import count_thresholds
from model.network.architecture import Network
from model.tokenization.tokenizer import Encoding, count_unknown
from training.data.dataset import Dataset
from training.fit.initial import InitialModel
from training.measure.inference import predict_logits
from training.measure.metrics import Figures, fit_temperature, measure


@dataclass(frozen=True, slots=True)
class Exported:
    """What is known of a checkpoint that was written.

    Args:
        manifest: its record.
    """

    manifest: Manifest
    figures: Mapping[str, Figures]


def write_checkpoint(
    output: Path,
    start: InitialModel,
    *,
    seed: int,
    record: Mapping[str, Any],
    training: Dataset,
    validation: Dataset,
    evaluated: Mapping[str, Dataset],
    device: torch.device,
    dtype: torch.dtype,
) -> Exported:
    """Calibrates, measures in float32, and saves.

    Args:
        output: the checkpoint folder.
        start: its network holds the best weights, on `device` and in evaluation mode.
        seed: the seed of the run.
        record: the recipe or the plan of the run, for `headlight.json`.
        training: the training rows.
        validation: rows that the temperature is fitted on.
        evaluated: other rows to measure, by the names of their sets.
        device: the device of the network.
        dtype: the type of the stored weights.

    Returns:
        The manifest of the checkpoint, and all figures.

    Raises:
        OSError: the folder could not be written.
    """
    _round(start.network, dtype)
    encodings = _encode(start, validation)
    logits = _logits(start, encodings, device, "validation")
    temperature, figures = _measure(start, logits, validation, evaluated, device=device)
    probabilities = _calibrate(logits, temperature)
    baseline = count_baseline(
        probabilities,
        np.array([len(encoding.input_ids) for encoding in encodings]),
        labels=training.labels,
        sets=["validation"],
        truncated=sum(encoding.truncated for encoding in encodings),
        unknown_tokens=count_unknown(encodings, start.tokenizer.unknown_id),
    )
    thresholds = count_thresholds(
        probabilities,
        np.array(validation.label_ids),
        labels=training.labels,
        sets=["validation"],
    )
    manifest = Manifest(
        labels=training.labels,
        temperature=temperature,
        max_length=start.tokenizer.max_length,
        training_data=training.sources,
        seed=seed,
        recipe={**record, **start.origin},
        metrics=tuple(_metric(name, found) for name, found in figures.items()),
        baseline=baseline,
        thresholds=thresholds,
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


def measure_network(
    start: InitialModel,
    validation: Dataset,
    evaluated: Mapping[str, Dataset],
    *,
    device: torch.device,
) -> tuple[float, dict[str, Figures]]:
    """Fits the temperature on the validation rows, and measures in float32.

    Args:
        start: its network holds the best weights, on `device` and in evaluation mode.
        validation: rows that the temperature is fitted on.
        evaluated: other rows to measure, by the names of their sets.
        device: the device of the network.

    Returns:
        The temperature, and the figures of every set; `validation` is the first.
    """
    logits = _logits(start, _encode(start, validation), device, "validation")
    return _measure(start, logits, validation, evaluated, device=device)


def _measure(
    start: InitialModel,
    logits: NDArray[np.float32],
    validation: Dataset,
    evaluated: Mapping[str, Dataset],
    *,
    device: torch.device,
) -> tuple[float, dict[str, Figures]]:
    temperature = fit_temperature(logits, np.array(validation.label_ids))
    figures = {"validation": _figures(validation, logits, temperature)}
    for name, dataset in evaluated.items():
        logits = _logits(start, _encode(start, dataset), device, name)
        figures[name] = _figures(dataset, logits, temperature)
    return temperature, figures


def _figures(dataset: Dataset, logits: NDArray[np.float32], temperature: float) -> Figures:
    return measure(_calibrate(logits, temperature), np.array(dataset.label_ids))


def _round(network: Network, dtype: torch.dtype) -> None:
    """Rounds the weights to the values that a reader of the checkpoint will see."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.to(dtype))


def _encode(start: InitialModel, dataset: Dataset) -> list[Encoding]:
    return [start.tokenizer.encode(text) for text in dataset.texts]


def _logits(
    start: InitialModel, encodings: Sequence[Encoding], device: torch.device, label: str
) -> NDArray[np.float32]:
    return predict_logits(
        start.network,
        encodings,
        pad_token_id=start.tokenizer.pad_token_id,
        device=device,
        label=label,
    )  # [N, C]


def _calibrate(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    probabilities: NDArray[np.float64] = softmax(logits.astype(np.float64) / temperature, axis=1)
    return probabilities  # [N, C]


def _metric(name: str, figures: Figures) -> Metric:
    return Metric(
        name=name,
        rows=figures.rows,
        accuracy=figures.accuracy,
        interval=figures.interval,
        log_loss=figures.log_loss,
        ece=figures.ece,
    )

"""Measures a predictor on labelled files of N texts, and makes records of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from model.backends.cpu_kernels import can_run
from model.checkpoint import records
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import save_precision
from model.cli.progress import silent
from model.loading import load_predictor
from model.network.config import EncoderConfig
from model.predictor import ModelInfo, Predictor
from training.data.dataset import Dataset
from training.data.hub import name_of
from training.device import processor
from training.errors import RecipeError
from training.measure.counts import count_baseline, count_thresholds
from training.measure.inference import Probabilities, predict_probabilities
from training.measure.metrics import choose_among, expected_calibration_error, measure
from training.measure.plots import Scores
from training.measure.report import FileReport, length_reports

Columns = Mapping[str, NDArray[Any]]


class Measured(NamedTuple):
    """What was measured of one file; `label_ids` are the true classes [N]."""

    report: FileReport
    scores: Scores
    answers: Probabilities
    label_ids: NDArray[np.integer]


def evaluate(
    predictor: Predictor, dataset: Dataset, *, path: str, max_batch_tokens: int | None = None
) -> Measured:
    """Measures a predictor on the rows of one file, which `path` names in the report.

    With only some of the model's labels, the probabilities are those of a choice among these.
    """
    answers = predict_probabilities(
        predictor, dataset.texts, max_batch_tokens=max_batch_tokens, label=path
    )
    info = predictor.info
    temperature = info.temperature
    if tuple(dataset.labels) != tuple(info.labels):
        temperature = info.choice(dataset.labels).temperature
        chosen = [info.labels.index(label) for label in dataset.labels]
        power = info.temperature / temperature
        answers = replace(answers, values=choose_among(answers.values, chosen, power=power))
    truth = np.array(dataset.label_ids)
    figures = measure(answers.values, truth)
    correct = answers.values.argmax(axis=1) == truth
    raw = choose_among(answers.values, power=temperature)  # as without a temperature
    left = count_thresholds(answers.values, truth, labels=dataset.labels, sets=["texts"])
    report: FileReport = {
        "file": path,
        "sha256": dataset.sources[0].sha256,
        "rows": figures.rows,
        "truncated": answers.truncated,
        "accuracy": figures.accuracy,
        "accuracy_interval": list(figures.interval),
        "macro_f1": figures.macro_f1,
        "f1": dict(zip(dataset.labels, figures.f1, strict=True)),
        "log_loss": figures.log_loss,
        "ece": figures.ece,
        "ece_uncalibrated": expected_calibration_error(raw.max(axis=1), correct),
        "by_length": length_reports(answers.token_counts, correct),
        "confusion": [list(row) for row in figures.confusion],
        "by_threshold": left.reports(),
    }
    title = "/".join(Path(path).parts[-2:])
    scores = Scores(title, answers.values.max(axis=1), raw.max(axis=1), correct)
    return Measured(report, scores, answers, truth)


def answer_columns(
    datasets: Sequence[tuple[str, Dataset]], measured: Sequence[Measured]
) -> Columns:
    """Joins the rows of all files: N texts, their labels and C probabilities each."""
    names = datasets[0][1].labels
    labels = np.array(names, dtype=object)
    values = np.concatenate([each.answers.values for each in measured])  # [N, C]
    files = [path for path, dataset in datasets for _ in dataset.texts]
    texts = [text for _, dataset in datasets for text in dataset.texts]
    return {
        **({"file": np.array(files, dtype=object)} if len(datasets) > 1 else {}),
        "text": np.array(texts, dtype=object),
        "label": labels[np.concatenate([each.label_ids for each in measured])],
        "prediction": labels[values.argmax(axis=1)],
        "score": values.max(axis=1),
        **{f"probability_{name}": values[:, number] for number, name in enumerate(names)},
    }


def wrong_first(columns: Columns) -> tuple[list[int], Columns]:
    """Returns where the wrong rows stand, most certain first, and their columns."""
    wrong = np.flatnonzero(columns["label"] != columns["prediction"])
    order = wrong[np.argsort(-columns["score"][wrong], kind="stable")]
    return order.tolist(), {name: column[order] for name, column in columns.items()}


def count_answers(
    measured: Sequence[Measured], *, labels: Sequence[str], sets: Sequence[str]
) -> tuple[records.Baseline, records.Thresholds]:
    """Counts the texts of all files together, for the record of a checkpoint."""
    answers = [each.answers for each in measured]
    values = np.concatenate([each.values for each in answers])
    together = Probabilities(
        values,
        np.concatenate([each.token_counts for each in answers]),
        truncated=sum(each.truncated for each in answers),
        unknown_tokens=sum(each.unknown_tokens for each in answers),
    )
    label_ids = np.concatenate([each.label_ids for each in measured])
    baseline = count_baseline(together, labels=labels, sets=sets)
    return baseline, count_thresholds(values, label_ids, labels=labels, sets=sets)


def set_names(files: Iterable[Path]) -> list[str]:
    """Names the set of each file: its folder and its name, without endings."""
    names: list[str] = []
    for file in files:
        stem = file.name.partition(".")[0] or file.name
        name = "/".join((*file.parts[-2:-1], stem)).removeprefix("//")
        if (own := name_of(file)) != file.name:  # of the hub
            name = own.removesuffix(".parquet")
        if not name.isprintable() or len(name) > records.LONGEST_NAME:
            raise RecipeError(
                f"a set would be recorded as {name!r}, which has {len(name)} characters: must be "
                f"printable, with at most {records.LONGEST_NAME}; rename the file"
            )
        if name in names:
            raise RecipeError(
                f"two files would be recorded as {name}: give one of them another name or folder"
            )
        names.append(name)
    return names


def make_record(
    checkpoint: Checkpoint,
    names: Sequence[str],
    exact: Sequence[Measured],
    rounded: Sequence[Measured],
    info: ModelInfo,
) -> records.Precision:
    """Makes the record of a type."""
    return records.Precision.model_validate(
        {
            "dtype": info.dtype,
            "weights_sha256": checkpoint.weights_sha256,
            "processor": processor(),
            "torch": torch.__version__,
            "scheme": records.INT8_SCHEME if info.dtype == "int8" else 1,
            "sets": [_compare(*each) for each in zip(names, exact, rounded, strict=True)],
        }
    )


def record_int8(folder: Path, datasets: Mapping[str, Dataset]) -> records.Precision | None:
    """Measures int8 beside float32 on a processor, and writes the record into a checkpoint.

    None if int8 cannot be computed here, or not by this network.
    """
    checkpoint = open_checkpoint(folder)
    config = checkpoint.config
    if not isinstance(config, EncoderConfig) or not can_run(config, "int8"):
        return None
    exact, rounded = (
        load_predictor(checkpoint, device="cpu", dtype=dtype) for dtype in ("float32", "int8")
    )
    with silent():
        was, now = (
            [evaluate(predictor, rows, path=name) for name, rows in datasets.items()]
            for predictor in (exact, rounded)
        )
    record = make_record(checkpoint, list(datasets), was, now, rounded.info)
    save_precision(checkpoint, record)
    return record


def _compare(name: str, exact: Measured, rounded: Measured) -> records.PrecisionSet:
    exact_report, report = exact.report, rounded.report
    was, is_right = exact.scores.correct, rounded.scores.correct  # [N]
    return records.PrecisionSet(
        name=name,
        rows=report["rows"],
        accuracy=report["accuracy"],
        log_loss=report["log_loss"],
        float32_accuracy=exact_report["accuracy"],
        float32_log_loss=exact_report["log_loss"],
        lost=int((was & ~is_right).sum()),
        gained=int((is_right & ~was).sum()),
    )


def record_to_text(record: records.Precision) -> str:
    """Formats a record for people, with what `auto` makes of it, in lines that are each ended."""
    width = max(len(one.name) for one in record.sets)
    lines = [f"{record.dtype} beside float32"]
    lines += [
        f"  {one.name:<{width}}  {one.accuracy:.2%} ({one.float32_accuracy:.2%}) of {one.rows:,}, "
        f"log-loss {one.log_loss:.4f} ({one.float32_log_loss:.4f}), "
        f"{one.lost:,} lost, {one.gained:,} gained"
        for one in record.sets
    ]
    if record.dtype == "int8":
        verdict = records.judge(record.dtype, [record])
        may = "may" if verdict.allowed else "does not"
        lines.append(f"  auto {may} choose it: {verdict.reason}")
    return "\n".join(lines) + "\n"

"""`headlight-train evaluate`: from a checkpoint and labelled files to figures of what is served."""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from model.backends.device import choose_device, choose_dtype
from model.backends.threads import choose_threads
from model.checkpoint import open_checkpoint
from model.files import write_whole
from model.loading import load_predictor
from model.predictor import ModelInfo, Predictor
from training.cli.shared_options import columns_of
from training.data.batches import MAX_BATCH_TOKENS
from training.data.dataset import Dataset, read_dataset
from training.errors import DataError, RecipeError
from training.measure.inference import predict_probabilities
from training.measure.metrics import expected_calibration_error, measure, uncalibrated
from training.measure.plots import check_suffix
from training.measure.probe import Probe, probe
from training.measure.reliability import Scores, plot_reliability
from training.measure.report import FileReport, length_reports, probes_to_text, to_json, to_text

_STANDARD_OUTPUT = "-"
_TWO = 2
# Of the texts that --probe disturbs.
_MOST_TEXTS, _MOST_WORDS = 500, 40


class ProbeReport(TypedDict):
    """How the model did in one test of `--probe`."""

    test: str
    name: str
    rows: int
    passed: int
    shift: float | None
    lean: float | None


class EvaluationReport(TypedDict):
    """What `--json` writes; the names and the order are stable."""

    checkpoint: dict[str, str]
    labels: list[str]
    temperature: float
    device: str
    dtype: str
    files: list[FileReport]
    probes: list[ProbeReport]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was found on one file.

    Args:
        report: its figures.
        scores: what the figures are made of.
    """

    report: FileReport
    scores: Scores


def run(arguments: argparse.Namespace) -> int:
    """Measures a checkpoint on each file and prints the figures.

    All files are read before the model is loaded, so that a bad row is found at once.

    Args:
        arguments: as the parser of `evaluate_options.add_arguments` gives them.

    Returns:
        0.

    Raises:
        DataError: a file cannot be used, or the JSON cannot be written.
        model.errors.ModelError: the checkpoint or the device cannot be used.
    """
    if arguments.json not in (None, _STANDARD_OUTPUT):
        _check_writable(Path(arguments.json), "--json")
    if arguments.plot is not None:
        _check_writable(arguments.plot, "--plot")
        check_suffix(arguments.plot)
    torch.set_num_threads(choose_threads(arguments.threads or 0))
    device = choose_device(arguments.device)
    checkpoint = open_checkpoint(arguments.checkpoint)
    columns = columns_of(arguments)
    datasets = [
        read_dataset([path], columns=columns, labels=checkpoint.config.labels)
        for path in arguments.files
    ]
    if arguments.probe and len(checkpoint.config.labels) != _TWO:
        raise RecipeError(
            f"--probe asks for two classes, negative and positive, the checkpoint has "
            f"{len(checkpoint.config.labels)}: leave it out"
        )
    dtype = choose_dtype(arguments.dtype, device)
    predictor = load_predictor(checkpoint, device=device, dtype=dtype)
    readable = sys.stderr if arguments.json == _STANDARD_OUTPUT else sys.stdout
    found = []
    for path, dataset in zip(arguments.files, datasets, strict=True):
        evaluation = evaluate(
            predictor, dataset, path=str(path), max_batch_tokens=arguments.max_batch_tokens
        )
        found.append(evaluation)
        readable.write(to_text(evaluation.report))
        readable.flush()
    probes = _probe(predictor, datasets) if arguments.probe else []
    readable.write(probes_to_text(probes))
    if arguments.plot is not None:
        plot_reliability([evaluation.scores for evaluation in found], arguments.plot)
    if arguments.json is not None:
        reports = [evaluation.report for evaluation in found]
        _write_json(arguments.json, _summarise(predictor.info, reports, probes))
    return 0


def _probe(predictor: Predictor, datasets: Sequence[Dataset]) -> list[Probe]:
    """Asks the model, and its texts disturbed: the shorter ones, in which a change weighs."""
    texts = [text for dataset in datasets for text in dataset.texts]
    short = [text for text in texts if len(text.split()) <= _MOST_WORDS]
    rng = random.Random(0)  # noqa: S311 - not for secrets

    def answers(asked: Sequence[str]) -> NDArray[np.float64]:
        if not asked:
            return np.zeros(0)
        return predict_probabilities(predictor, asked, label="probe").values[:, 1]

    return probe(answers, rng.sample(short, min(len(short), _MOST_TEXTS)))


def evaluate(
    predictor: Predictor,
    dataset: Dataset,
    *,
    path: str,
    max_batch_tokens: int = MAX_BATCH_TOKENS,
) -> Evaluation:
    """Measures a predictor on the rows of one file.

    Args:
        predictor: the loaded model.
        dataset: read with the model's labels from one file.
        path: of the file, for the report.
        max_batch_tokens: the most tokens in a batch, padding counted.
    """
    answers = predict_probabilities(
        predictor, dataset.texts, max_batch_tokens=max_batch_tokens, label=path
    )
    figures = measure(answers.values, np.array(dataset.label_ids))
    truth = np.array(dataset.label_ids)
    correct = answers.values.argmax(axis=1) == truth
    raw = uncalibrated(answers.values, predictor.info.temperature)
    report = to_json(
        path,
        dataset.sources[0],
        figures,
        labels=dataset.labels,
        truncated=answers.truncated,
        ece_uncalibrated=expected_calibration_error(raw.max(axis=1), correct),
        by_length=length_reports(answers.token_counts, correct),
    )
    title = "/".join(Path(path).parts[-2:])
    return Evaluation(report, Scores(title, answers.values.max(axis=1), raw.max(axis=1), correct))


def _summarise(
    info: ModelInfo, reports: Sequence[FileReport], probes: Sequence[Probe]
) -> EvaluationReport:
    return {
        "checkpoint": {"name": info.name, "version": info.version},
        "labels": list(info.labels),
        "temperature": info.temperature,
        "device": info.device,
        "dtype": info.dtype,
        "files": list(reports),
        "probes": [
            {
                "test": item.test,
                "name": item.name,
                "rows": item.rows,
                "passed": item.passed,
                "shift": item.shift,
                "lean": item.lean,
            }
            for item in probes
        ],
    }


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        raise DataError(path, f"is a folder: {option} needs the path of a file")
    if not path.parent.is_dir():
        raise DataError(path, f"cannot be written: the folder {path.parent} does not exist")


def _write_json(target: str, report: EvaluationReport) -> None:
    content = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if target == _STANDARD_OUTPUT:
        sys.stdout.write(content)
        return
    path = Path(target)
    try:
        write_whole(path, content.encode())
    except OSError as error:
        raise DataError(path, f"cannot be written: {error.strerror}") from error

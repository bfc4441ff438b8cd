"""Runs `headlight-train evaluate`: measures a checkpoint, reports, and records."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from model.atomic import write_whole
from model.backends.device import choose_dtype
from model.backends.threads import choose_threads
from model.checkpoint.location import local_folder
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import check_recordable, save_baseline, save_precision
from model.cli.progress import standard_output
from model.errors import ConfigurationError
from model.files import to_bytes
from model.loading import load_predictor
from model.predictor import ModelInfo
from training.cli.evaluate_answers import check_targets, targets, write_answers
from training.cli.evaluate_options import pair_lines, read_sources
from training.data.hub import local_files
from training.device import find_device
from training.errors import DataError, RecipeError, TrainingError
from training.measure import evaluate
from training.measure.plots import check_suffix, plot_reliability
from training.measure.report import summarise, to_text

_STANDARD_OUTPUT = "-"


def run(arguments: argparse.Namespace) -> int:
    """Measures a checkpoint on each file, prints the figures, and records them if asked to.

    All files are read before the model is loaded, so that a bad row is found at once.
    """
    _check_outputs(arguments)
    torch.set_num_threads(choose_threads(arguments.threads or 0))
    device = str(find_device(_device_name(arguments)))
    checkpoint = open_checkpoint(local_folder(arguments.checkpoint), trial=True)
    arguments.files = local_files(arguments.files)
    try:
        dtype = choose_dtype(arguments.dtype, device, checkpoint.manifest.precision)
    except ConfigurationError as error:
        raise ConfigurationError(f"--dtype: {error}") from error
    names = []
    if arguments.record_dtype is not None or arguments.record_baseline:
        check_recordable(checkpoint.path)
        names = evaluate.set_names(arguments.files)
    datasets = read_sources(arguments, checkpoint.config.labels)
    predictor = load_predictor(checkpoint, device=device, dtype=dtype)
    if arguments.labels is None:
        _show(pair_lines(datasets, checkpoint.config.labels), arguments)
    measured = []
    most = arguments.max_batch_tokens
    for path, dataset in datasets:
        measured.append(evaluate.evaluate(predictor, dataset, path=path, max_batch_tokens=most))
        _show(to_text(measured[-1].report), arguments)
    _show(write_answers(arguments, datasets, measured), arguments)
    if arguments.plot is not None:
        plot_reliability([each.scores for each in measured], arguments.plot)
    if arguments.json is not None:
        reports = [each.report for each in measured]
        _write_json(arguments.json, summarise(predictor.info, reports))
    rounded = None
    if arguments.record_dtype is not None:
        other = load_predictor(
            checkpoint, device=device, dtype=choose_dtype(arguments.record_dtype, device)
        )
        answers = [
            evaluate.evaluate(other, rows, path=path, max_batch_tokens=most)
            for path, rows in datasets
        ]
        rounded = (answers, other.info)
    _show(_record(checkpoint, names, measured, rounded, arguments), arguments)
    return 0


def _show(text: str, arguments: argparse.Namespace) -> None:
    """Writes a text for people, beside JSON to standard error."""
    is_beside = arguments.json == _STANDARD_OUTPUT
    with nullcontext(sys.stderr) if is_beside else standard_output() as readable:
        readable.write(text)
        readable.flush()


def _check_outputs(arguments: argparse.Namespace) -> None:
    if arguments.json == _STANDARD_OUTPUT and sys.stdout is sys.stderr:  # see `prepare_process`
        raise TrainingError("--json -: standard output is closed: name a file")
    if arguments.json not in (None, _STANDARD_OUTPUT):
        _check_writable(Path(arguments.json), "--json")
    if arguments.plot is not None:
        _check_writable(arguments.plot, "--plot")
        check_suffix(arguments.plot)
    for option, path in targets(arguments):
        _check_writable(path, option)
    check_targets(arguments)


def _record(
    checkpoint: Checkpoint,
    names: Sequence[str],
    measured: Sequence[evaluate.Measured],
    rounded: tuple[Sequence[evaluate.Measured], ModelInfo] | None,
    arguments: argparse.Namespace,
) -> str:
    """Records what the options ask for; returns lines that say so, each ended."""
    lines = ""
    if rounded is not None:
        record = evaluate.make_record(checkpoint, names, measured, *rounded)
        save_precision(checkpoint, record)
        lines = evaluate.record_to_text(record)
        checkpoint = open_checkpoint(checkpoint.path)  # as it is now
    if arguments.record_baseline:
        baseline, thresholds = evaluate.count_answers(
            measured, labels=checkpoint.config.labels, sets=names
        )
        save_baseline(checkpoint, baseline, thresholds)
        lines += f"baseline and thresholds of {baseline.rows:,} texts recorded\n"
    return lines


def _device_name(arguments: argparse.Namespace) -> str:
    """Returns the device of the options; a record measures a processor, in float32 and its type."""
    name: str = arguments.device
    if arguments.record_dtype is None:
        return name
    if arguments.dtype != "float32":
        raise RecipeError(
            f"--record-dtype {arguments.record_dtype} measures in float32 first, and --dtype is "
            f"{arguments.dtype}: leave --dtype out"
        )
    if name not in ("auto", "cpu"):
        raise RecipeError(
            f"--record-dtype {arguments.record_dtype} measures on a processor, and --device is "
            f"{name}: use cpu, or leave it out"
        )
    try:
        choose_dtype(arguments.record_dtype, "cpu")
    except ConfigurationError as error:
        raise ConfigurationError(f"--record-dtype: {error}") from error
    return "cpu"


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        raise DataError(path, f"is a folder: {option} needs the path of a file")
    if not path.parent.is_dir():
        raise DataError(path, f"cannot be written: the folder {path.parent} does not exist")


def _write_json(target: str, report: Mapping[str, object]) -> None:
    if target == _STANDARD_OUTPUT:
        with standard_output() as output:
            # In any encoding; an escape of standard output itself could be no JSON.
            output.write(json.dumps(report, indent=2) + "\n")
            output.flush()
        return
    write_whole(Path(target), to_bytes(report))

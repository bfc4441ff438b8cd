"""Runs `headlight-train evaluate`: reads its options, measures the checkpoint, reports."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from model.arguments import positive
from model.backends.device import choose_device, choose_dtype
from model.backends.threads import choose_threads
from model.checkpoint import open_checkpoint
from model.files import write_whole
from model.loading import load_predictor
from training.cli.shared_options import add_columns, add_device, add_files, columns_of
from training.data.batches import MAX_BATCH_TOKENS
from training.data.dataset import read_dataset
from training.errors import DataError, RecipeError

_STANDARD_OUTPUT = "-"
_TWO = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    add_files(parser, "labelled text")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="the checkpoint folder"
    )
    add_columns(parser)
    parser.add_argument(
        "--max-batch-tokens",
        type=positive,
        default=MAX_BATCH_TOKENS,
        metavar="N",
        help="the most tokens in a batch, padding counted (default: %(default)s)",
    )
    add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "int8", "auto"),
        default="float32",
        help="what the network computes in; auto: bfloat16 where the processor has it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="also write the figures as JSON; - writes them to standard output, and the readable "
        "ones to standard error",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="also draw how far the scores can be trusted, as PNG or SVG",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask sentences of known label, and texts of the files with something changed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measures a checkpoint on each file and prints the figures.

    All files are read before the model is loaded, so that a bad row is found at once.

    Raises:
        DataError: a file cannot be used, or the JSON cannot be written.
        model.errors.ModelError: the checkpoint or the device cannot be used.
    """
    # Imported only now: they take seconds, and __main__ needs the options alone.
    from training.measure.evaluate import evaluate, run_probes
    from training.measure.plots import check_suffix
    from training.measure.reliability import plot_reliability
    from training.measure.report import probes_to_text, summarise, to_text

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
    reports, scores = [], []
    for path, dataset in zip(arguments.files, datasets, strict=True):
        report, score = evaluate(
            predictor, dataset, path=str(path), max_batch_tokens=arguments.max_batch_tokens
        )
        reports.append(report)
        scores.append(score)
        readable.write(to_text(report))
        readable.flush()
    probes = run_probes(predictor, datasets) if arguments.probe else []
    readable.write(probes_to_text(probes))
    if arguments.plot is not None:
        plot_reliability(scores, arguments.plot)
    if arguments.json is not None:
        _write_json(arguments.json, summarise(predictor.info, reports, probes))
    return 0


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        raise DataError(path, f"is a folder: {option} needs the path of a file")
    if not path.parent.is_dir():
        raise DataError(path, f"cannot be written: the folder {path.parent} does not exist")


def _write_json(target: str, report: Mapping[str, object]) -> None:
    content = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if target == _STANDARD_OUTPUT:
        sys.stdout.write(content)
        return
    path = Path(target)
    try:
        write_whole(path, content.encode())
    except OSError as error:
        raise DataError(path, f"cannot be written: {error.strerror}") from error

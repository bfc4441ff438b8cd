"""Defines the options of `headlight-train evaluate`, and reads the rows that they name."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from model.cli.arguments import positive
from training.cli.options import add_columns, add_device, add_files, add_labels, columns_of
from training.data.dataset import Dataset, read_dataset
from training.errors import RecipeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_files(parser, "labelled text", hub=True)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="the checkpoint folder, or hf:NAME@REVISION",
    )
    add_columns(parser)
    add_labels(
        parser,
        "the classes of the files, in the order of their numbers, if they know only some of the "
        "checkpoint's; the others are no answer then (default: those of the checkpoint)",
    )
    parser.add_argument(
        "--max-batch-tokens",
        type=positive,
        metavar="N",
        help="the most tokens in a batch, padding counted (default: 2048, or 32768 on a GPU)",
    )
    add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "int8", "auto"),
        default="float32",
        help="what the network computes in; auto: as the service chooses (default: %(default)s)",
    )
    parser.add_argument(
        "--record-dtype",
        choices=("int8", "bfloat16"),
        help="also measure this type on a processor, and record in headlight.json of the "
        "checkpoint how it does beside float32; the service's --dtype auto may then choose int8",
    )
    parser.add_argument(
        "--record-baseline",
        action="store_true",
        help="also record in headlight.json of the checkpoint what all these texts look like, how "
        "they are answered, so that texts in use can be compared with them, and what thresholds "
        "leave of the answers",
    )
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="also write the figures as JSON; - writes them to standard output, and the readable "
        "ones to standard error",
    )
    for option, text in (
        ("errors", "wrong rows, most certain first, to a new .csv, .tsv, .jsonl or .parquet"),
        ("predictions", "answers to all rows, in their order, as --errors does"),
    ):
        parser.add_argument(f"--{option}", type=Path, metavar="FILE", help=f"also write the {text}")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="also draw how far the scores can be trusted, as PNG or SVG",
    )


def read_sources(arguments: argparse.Namespace, labels: Sequence[str]) -> list[tuple[str, Dataset]]:
    """Reads each file; returns each with its path."""
    known = _known_classes(arguments.labels, labels)
    datasets = []
    for path in arguments.files:
        dataset = read_dataset(
            [path], columns=columns_of(arguments), labels=known, some=arguments.labels is None
        )
        _check_recorded(arguments, path, dataset, labels)
        datasets.append((str(path), dataset))
    return datasets


def pair_lines(datasets: Sequence[tuple[str, Dataset]], labels: Sequence[str]) -> str:
    """Says which files are measured among two of the checkpoint's classes, in lines."""
    return "".join(
        f"{path}: its labels 0 and 1 mean {' and '.join(dataset.labels)}, and the answers are "
        "those of a choice among these two\n"
        for path, dataset in datasets
        if len(dataset.labels) < len(labels)
    )


def _check_recorded(
    arguments: argparse.Namespace, path: Path, dataset: Dataset, labels: Sequence[str]
) -> None:
    """Refuses to record what only some of the classes say."""
    for option in ("record_dtype", "record_baseline"):
        if getattr(arguments, option) and tuple(dataset.labels) != tuple(labels):
            raise RecipeError(
                f"--{option.replace('_', '-')} is for all classes of the checkpoint, and the "
                f"classes of {path} are {', '.join(dataset.labels)}: leave it out"
            )


def _known_classes(wanted: Sequence[str] | None, labels: Sequence[str]) -> Sequence[str]:
    if wanted is None:
        return labels
    unknown = [name for name in wanted if name not in labels]
    if unknown:
        raise RecipeError(
            f"--labels {','.join(wanted)}: the checkpoint has no class {unknown[0]}; its classes "
            f"are {', '.join(labels)}"
        )
    if len(set(wanted)) < max(2, len(wanted)):
        raise RecipeError(f"--labels {','.join(wanted)}: give two or more different classes")
    return wanted

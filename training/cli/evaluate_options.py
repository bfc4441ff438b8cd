"""Defines the options of `headlight-train evaluate`, and reads the rows that they name."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from model.checkpoint.records import DataSource
from model.cli.arguments import positive
from model.files import digest
from training.cli.shared_options import add_columns, add_device, add_files, add_labels, columns_of
from training.data.batches import MAX_BATCH_TOKENS
from training.data.dataset import Dataset, read_dataset
from training.errors import RecipeError

HELD_OUT = "validation"  # the name of the rows that a plan holds out, in a record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_files(parser, "labelled text", optional=True, hub=True)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="the checkpoint folder, or hf:NAME@REVISION",
    )
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="PLAN",
        help="measure the rows that this plan of fit holds out, before the files",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder that the sources of the plan lie in"
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
        default=MAX_BATCH_TOKENS,
        metavar="N",
        help="the most tokens in a batch, padding counted (default: %(default)s)",
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
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask sentences of known label, and texts of the files with something changed",
    )


def check_sources(arguments: argparse.Namespace) -> None:
    """Rejects options that name nothing to measure, or half of what is needed."""
    if (arguments.plan is None) != (arguments.data is None):
        raise RecipeError("--plan and --data go together: give both, or none")
    if not arguments.files and arguments.plan is None:
        raise RecipeError("nothing to measure: give a FILE, or --plan with --data")
    if arguments.labels is None:
        return
    for option in ("plan", "record_dtype", "record_baseline"):
        if getattr(arguments, option):
            raise RecipeError(
                f"--{option.replace('_', '-')} is for all classes of the checkpoint, and --labels "
                f"names {', '.join(arguments.labels)}: leave one of the two out"
            )


def read_sources(arguments: argparse.Namespace, labels: Sequence[str]) -> list[tuple[str, Dataset]]:
    """Reads the rows that a plan holds out, if any, and each file; returns each with its path."""
    known = _known_classes(arguments.labels, labels)
    datasets = []
    if arguments.plan is not None:
        held_out = _read_held_out(arguments.plan, arguments.data, labels)
        datasets.append((str(arguments.plan), held_out))
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
        if getattr(arguments, option) and len(dataset.labels) < len(labels):
            raise RecipeError(
                f"--{option.replace('_', '-')} is for all classes of the checkpoint, and the "
                f"labels of {path} are those of {' and '.join(dataset.labels)} only: leave it out"
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


def _read_held_out(path: Path, data: Path, labels: Sequence[str]) -> Dataset:
    """Reads the rows that a plan holds out; the plan itself stands for their sources."""
    # Imported only now: plans import what computes.
    from training.plan.data import read_plan_data
    from training.plan.plan import load_plan

    plan = load_plan(path)
    if tuple(plan.labels) != tuple(labels):
        raise RecipeError(
            f"--plan: {path} has the classes {', '.join(plan.labels)}, and the checkpoint "
            f"{', '.join(labels)}: name the plan that made it"
        )
    held_out = read_plan_data(plan, data).held_out
    source = DataSource(file=path.name, rows=len(held_out), sha256=digest(path))
    return replace(held_out, sources=(source,))

"""Reads what `headlight-train evaluate` measures: files, and the rows that a plan holds out."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from model.checkpoint.manifest import DataSource
from model.files import digest
from training.cli.shared_options import add_files, columns_of
from training.data.dataset import Dataset, read_dataset
from training.errors import RecipeError

#: the name of the rows that a plan holds out, in a record
HELD_OUT = "validation"


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Adds the files."""
    add_files(parser, "labelled text", optional=True, hub=True)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a plan and its data."""
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="PLAN",
        help="measure the rows that this plan of fit holds out, before the files",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder that the sources of the plan lie in"
    )


def check_sources(arguments: argparse.Namespace) -> None:
    """Refuses options that name nothing to measure, or half of what is needed.

    Raises:
        RecipeError: there is neither a file nor a plan, or a plan without its data, or classes
            are chosen for what needs all of them.
    """
    if (arguments.plan is None) != (arguments.data is None):
        raise RecipeError("--plan and --data go together: give both, or none")
    if not arguments.files and arguments.plan is None:
        raise RecipeError("nothing to measure: give a FILE, or --plan with --data")
    if arguments.labels is not None:
        for option in ("plan", "record_dtype", "record_baseline"):
            if getattr(arguments, option):
                raise RecipeError(
                    f"--{option.replace('_', '-')} is for all classes of the checkpoint, and "
                    f"--labels names {', '.join(arguments.labels)}: leave one of the two out"
                )


def read_sources(arguments: argparse.Namespace, labels: Sequence[str]) -> list[tuple[str, Dataset]]:
    """Reads the rows that a plan holds out, if one is named, and each file.

    Args:
        arguments: of the command; its files are local ones.
        labels: the classes of the checkpoint.

    Returns:
        Each with its path.

    Raises:
        DataError: a file cannot be used.
        RecipeError: the plan cannot be used or has other classes, or the option names classes
            that the checkpoint lacks.
    """
    columns = columns_of(arguments)
    known = _known(arguments.labels, labels)
    datasets = []
    if arguments.plan is not None:
        held_out = _read_held_out(arguments.plan, arguments.data, labels)
        datasets.append((str(arguments.plan), held_out))
    for path in arguments.files:
        datasets.append((str(path), read_dataset([path], columns=columns, labels=known)))
    return datasets


def _known(wanted: Sequence[str] | None, labels: Sequence[str]) -> Sequence[str]:
    """Returns the classes that the files know."""
    if wanted is None:
        return labels
    strange = [name for name in wanted if name not in labels]
    if strange:
        raise RecipeError(
            f"--labels {','.join(wanted)}: the checkpoint has no class {strange[0]}; its classes "
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
            f"{', '.join(labels)}: take the plan that it was made by"
        )
    held_out = read_plan_data(plan, data).held_out
    source = DataSource(file=path.name, rows=len(held_out), sha256=digest(path))
    return replace(held_out, sources=(source,))

"""Reads what `headlight-train evaluate` measures: files, and the rows that a plan holds out."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from model.checkpoint.manifest import DataSource
from model.files import digest
from training.cli.options import columns_of
from training.data.dataset import Dataset, read_dataset
from training.errors import RecipeError

HELD_OUT = "validation"  # the name of the rows that a plan holds out, in a record


def check_sources(arguments: argparse.Namespace) -> None:
    """Rejects options that name nothing to measure, or half of what is needed.

    Raises:
        RecipeError: there is neither a file nor a plan, or a plan without its data, or `--labels`
            names classes for what needs all of them.
    """
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
    """Reads the rows that a plan holds out, if the user names one, and each file.

    Returns:
        Each dataset with its path.

    Raises:
        DataError: a file cannot be used.
        RecipeError: the plan cannot be used or has other classes, or `--labels` names classes
            that the checkpoint lacks.
    """
    known = _known_classes(arguments.labels, labels)
    datasets = []
    if arguments.plan is not None:
        held_out = _read_held_out(arguments.plan, arguments.data, labels)
        datasets.append((str(arguments.plan), held_out))
    for path in arguments.files:
        dataset = read_dataset([path], columns=columns_of(arguments), labels=known)
        datasets.append((str(path), dataset))
    return datasets


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

"""Defines the options of `headlight-train search`, and reads the values that it tries."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from model.cli.arguments import positive, whole
from training.cli.recipe_options import (
    RECIPE_OPTIONS,
    add_class_weights,
    add_recipe_arguments,
    add_start_arguments,
    given_of,
)
from training.cli.shared_options import add_columns, add_device, add_files, add_labels, add_log_to

# The rows and their division must be the same in all trials.
_FIXED = ("validation_share", "seed", "class_weights")
_TRIED = tuple(name for name, _, _ in RECIPE_OPTIONS if name not in _FIXED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    parser.epilog = (
        "Options with N,N try each of their values. Without them, 0.3, 1 and 3 times the preset's "
        "learning rate are tried, each with its epochs and twice as many."
    )
    add_files(parser, "labelled text to learn from", hub=True)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="where the results go"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a search that is there already"
    )
    parser.add_argument(
        "--trials",
        type=positive,
        metavar="N",
        help="combinations of the values to try, drawn by chance (default: all)",
    )
    parser.add_argument(
        "--folds",
        type=whole,
        metavar="K",
        help="rank by the mean of K folds, with K networks for each trial (default: one split)",
    )
    add_start_arguments(parser)
    add_columns(parser)
    add_labels(parser)
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        metavar="FILE",
        help="labelled text to rank the trials by; may be repeated",
    )
    add_recipe_arguments(parser, several=_TRIED)
    add_class_weights(parser)
    add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of matrix products; auto: bfloat16 where the processor has it (default: auto)",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the interrupted search of this output"
    )
    add_log_to(parser)


def tried_of(arguments: argparse.Namespace) -> dict[str, tuple[float, ...]]:
    """Returns the values of every field that was typed with one or more of them."""
    return {name: getattr(arguments, name) for name in given_of(arguments, _TRIED)}


def fixed_of(arguments: argparse.Namespace) -> Mapping[str, object]:
    """Returns the fields of the recipe that are the same in all trials, as they were typed."""
    return given_of(arguments, _FIXED)

"""Defines the options of `headlight-train fit` and checks them: recipe, run folder, plan."""

import argparse
from pathlib import Path

import torch

from model.checkpoint.saving import check_place
from model.cli.arguments import positive, whole
from training.cli.recipe_options import (
    RECIPE_FIELDS,
    add_class_weights,
    add_recipe_arguments,
    add_start_arguments,
    given_of,
    option_of,
)
from training.cli.shared_options import add_columns, add_device, add_files, add_labels, add_log_to
from training.errors import RecipeError

STORE_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
_FEWEST_FOLDS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    add_files(parser, "labelled text to learn from", optional=True, hub=True)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="the checkpoint to write"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a checkpoint or an interrupted run that is there already",
    )
    add_start_arguments(parser)
    _add_plan_arguments(parser)
    _add_data_arguments(parser)
    add_recipe_arguments(parser)
    _add_run_arguments(parser)


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="several stages over sources of their own, instead of files and a preset",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder that the sources of a plan lie in"
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        metavar="DIR",
        help="the pretrained MPNet folder of a plan's teacher",
    )
    parser.add_argument(
        "--expert",
        type=Path,
        metavar="DIR",
        help="the finished checkpoint of a plan's expert",
    )


def _add_data_arguments(parser: argparse.ArgumentParser) -> None:
    add_columns(parser)
    add_labels(parser)
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        metavar="FILE",
        help="labelled text to choose the best epoch and the temperature by; may be repeated",
    )
    parser.add_argument(
        "--evaluate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to measure in the end, for the record alone; may be repeated",
    )


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-dtype",
        choices=tuple(STORE_DTYPES),
        default="float32",
        help="what the weights are stored in (default: %(default)s)",
    )
    add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of matrix products; auto: bfloat16 where the processor has it (default: auto)",
    )
    add_class_weights(parser)
    parser.add_argument(
        "--rank-timeout",
        type=positive,
        default=600,
        metavar="SECONDS",
        help="how long processes of torchrun wait for each other (default: %(default)s)",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="where history, plot and the state of the run go (default: the output with .run)",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the interrupted run of this output"
    )
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="keep the state of a run that has ended, for --extend; four times its weights or less",
    )
    parser.add_argument(
        "--extend",
        type=positive,
        metavar="EPOCHS",
        help="train the ended run of this output for more epochs, and replace its checkpoint",
    )
    parser.add_argument(
        "--folds",
        type=whole,
        metavar="K",
        help="before the checkpoint is trained, train and measure K networks, each on the rows "
        "outside one of K folds",
    )
    add_log_to(parser)


def refuse_beside_plan(arguments: argparse.Namespace) -> None:
    """Refuses options that a plan sets itself.

    Raises:
        RecipeError: one of these options is given.
    """
    if arguments.files:
        raise RecipeError(
            f"--plan names its files itself: leave out {arguments.files[0]}, or leave out --plan"
        )
    if arguments.extend is not None:
        raise RecipeError(
            "--extend is for one run, and a --plan has several: leave one of them out"
        )
    if arguments.log_to:
        raise RecipeError("--log-to is for one run, and a --plan has several: leave it out")
    own = ["preset", "validation", "labels", *RECIPE_FIELDS]
    given = [option_of(name) for name in given_of(arguments, own)]
    if given:
        raise RecipeError(
            f"the plan decides what {' and '.join(given)} would: change it there, or leave out "
            "--plan"
        )


def check_one_run(arguments: argparse.Namespace, *, processes: int) -> None:
    """Refuses options of one run that do not fit together.

    Args:
        arguments: of the command line, without a plan.
        processes: that run the command.

    Raises:
        RecipeError: they do not.
    """
    if not arguments.files:
        raise RecipeError("name at least one FILE to learn from, or a --plan")
    unused = [
        f"--{name}"
        for name in ("data", "teacher", "expert")
        if getattr(arguments, name) is not None
    ]
    if unused:
        raise RecipeError(f"{unused[0]} is for a --plan: leave it out, or give one")
    check_folds(arguments, processes=processes)


_WITHOUT_FOLDS = {
    "plan": "trains one network for all of its sources",
    "validation": "names the rows to validate by, and folds are made of the rows that are there",
    "extend": "goes on with one run",
}


def check_folds(arguments: argparse.Namespace, *, processes: int) -> None:
    """Refuses folds that make no sense, or not beside other options.

    Args:
        arguments: of the command line.
        processes: that run the command.

    Raises:
        RecipeError: they do not.
    """
    if arguments.folds is None:
        return
    if arguments.folds < _FEWEST_FOLDS:
        raise RecipeError(f"--folds must be at least {_FEWEST_FOLDS}, got {arguments.folds}")
    for name, reason in _WITHOUT_FOLDS.items():
        if getattr(arguments, name, None) is not None:
            raise RecipeError(f"--{name} {reason}: leave it out, or leave out --folds")
    if processes > 1:
        raise RecipeError(
            f"--folds trains one network after the other in one process, and torchrun has started "
            f"{processes}: start this command without torchrun, or leave out --folds"
        )


def place_run(arguments: argparse.Namespace) -> Path:
    """Chooses the folder of the run, and refuses to replace a checkpoint without `--overwrite`.

    Returns:
        The folder of the run: history, plot and state.

    Raises:
        RecipeError: something is there already, or the folder of the run lies in the checkpoint.
        model.errors.CheckpointError: something else than a checkpoint is there.
    """
    output: Path = arguments.output
    check_place(output)
    if output.exists() and any(output.iterdir()) and not arguments.overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")
    place = output.resolve()
    run_dir: Path = arguments.run_dir or place.with_name(f"{place.name}.run")
    if place in (run_dir.resolve(), *run_dir.resolve().parents):
        raise RecipeError(
            f"--run-dir {run_dir} lies in the checkpoint {output}, which is written as a whole: "
            "choose a folder elsewhere"
        )
    return run_dir

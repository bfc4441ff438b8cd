"""Defines the options of `headlight-train fit` and `search`, and checks those of `fit`."""

import argparse
from pathlib import Path

import torch

from model.checkpoint.saving import check_place
from model.cli.arguments import positive, whole
from training.cli.shared_options import (
    RECIPE_FIELDS,
    TRIED_FIELDS,
    add_class_weights,
    add_columns,
    add_device,
    add_dtype,
    add_files,
    add_labels,
    add_log_to,
    add_output,
    add_recipe_arguments,
    add_save_every,
    add_start_arguments,
    add_validation,
    check_folds,
    option_name,
    typed_options,
)
from training.errors import RecipeError

STORE_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `headlight-train fit`."""
    add_files(parser, "labelled text to learn from", optional=True, hub=True)
    add_output(parser, "the checkpoint to write", "a checkpoint or an interrupted run")
    add_start_arguments(parser)
    _add_plan_arguments(parser)
    _add_data_arguments(parser)
    add_recipe_arguments(parser)
    _add_run_arguments(parser)


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        ("--plan", "FILE", "several stages over sources of their own, not files and a preset"),
        ("--data", "DIR", "the folder that the sources of a plan lie in"),
        ("--teacher", "DIR", "the pretrained MPNet folder of a plan's teacher"),
        ("--expert", "DIR", "the finished checkpoint of a plan's expert"),
    ):
        parser.add_argument(option, type=Path, metavar=metavar, help=text)


def _add_data_arguments(parser: argparse.ArgumentParser) -> None:
    add_columns(parser)
    add_labels(parser)
    add_validation(parser, "choose the best epoch and the temperature by")
    parser.add_argument(
        "--evaluate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to measure in the end, only for the record; may be repeated",
    )


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-dtype",
        choices=tuple(STORE_DTYPES),
        default="float32",
        help="what the weights are stored in (default: %(default)s)",
    )
    add_device(parser)
    add_dtype(parser)
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
    add_save_every(parser)
    parser.add_argument(
        "--resume", action="store_true", help="resume the interrupted run of this output"
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


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `headlight-train search`."""
    parser.epilog = (
        "Options with N,N try each of their values. Without them, 0.3, 1 and 3 times the preset's "
        "learning rate are tried, each with its epochs and twice as many."
    )
    add_files(parser, "labelled text to learn from", hub=True)
    add_output(parser, "where the results go", "a search")
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
    add_validation(parser, "rank the trials by")
    add_recipe_arguments(parser, several=TRIED_FIELDS)
    add_class_weights(parser)
    add_device(parser)
    add_dtype(parser)
    add_save_every(parser)
    parser.add_argument(
        "--resume", action="store_true", help="resume the interrupted search of this output"
    )
    add_log_to(parser)


def reject_plan_options(arguments: argparse.Namespace) -> None:
    """Rejects options that a plan sets itself."""
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
    typed = [option_name(name) for name in typed_options(arguments, own)]
    if typed:
        raise RecipeError(
            f"the plan decides what {' and '.join(typed)} would: change it there, or leave out "
            "--plan"
        )


def check_one_run(arguments: argparse.Namespace, *, processes: int) -> None:
    """Rejects options of a run without a plan that do not fit together."""
    if not arguments.files:
        raise RecipeError("name at least one FILE to learn from, or a --plan")
    for name in ("data", "teacher", "expert"):
        if getattr(arguments, name) is not None:
            raise RecipeError(f"--{name} is for a --plan: leave it out, or give one")
    check_folds(arguments, processes=processes)


def choose_run_dir(arguments: argparse.Namespace) -> Path:
    """Returns the folder of history, plot and state; keeps a checkpoint without `--overwrite`."""
    output: Path = arguments.output
    arguments.overwrite = arguments.overwrite or arguments.extend is not None
    check_place(output)
    if output.exists() and any(output.iterdir()) and not arguments.overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")
    resolved = output.resolve()
    run_dir: Path = arguments.run_dir or resolved.with_name(f"{resolved.name}.run")
    if resolved in (run_dir.resolve(), *run_dir.resolve().parents):
        raise RecipeError(
            f"--run-dir {run_dir} lies in the checkpoint {output}, which is written as a whole: "
            "choose a folder elsewhere"
        )
    return run_dir

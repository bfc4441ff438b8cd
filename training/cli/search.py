"""Runs `headlight-train search`: tries values of a recipe, and prints the best ones."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.cli.arguments import positive, whole
from model.cli.progress import say
from training.cli.options import (
    RECIPE_OPTIONS,
    add_class_weights,
    add_columns,
    add_device,
    add_dtype,
    add_files,
    add_labels,
    add_log_to,
    add_recipe_arguments,
    add_save_every,
    add_start_arguments,
    changed_command,
    check_folds,
    columns_of,
    option_name,
    preset_of,
    typed_options,
)
from training.errors import TrainingError
from training.fit.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    from training.search import SearchRows, TrialResult, Values

# The rows and their division must be the same in all trials.
_FIXED = ("validation_share", "seed", "class_weights")
_TRIED = tuple(name for name, _, _ in RECIPE_OPTIONS if name not in _FIXED)
_NOT_OF_FIT = ("--output", "--trials", "--folds", "--log-to", "--save-every")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
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
    add_dtype(parser)
    add_save_every(parser)
    parser.add_argument(
        "--resume", action="store_true", help="resume the interrupted search of this output"
    )
    add_log_to(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tries combinations of values, ranks them, and prints the command for the best.

    Raises:
        TrainingError: data or options cannot be used, every trial diverged, or a signal came.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    # Imported only now: they take seconds, and __main__ needs only the options.
    from model.checkpoint.hub_folder import local_folder
    from training.cross_validation import TrainingContext
    from training.device import choose_accelerator
    from training.fit.run_fingerprint import run_fingerprint
    from training.search import prepare_folder, run_search, trial_line
    from training.signals import noted_signals
    from training.tracking.logs import check_installed

    check_folds(arguments, processes=1)
    check_installed(arguments.log_to)
    base, tried, combinations = _combinations(arguments)
    prepare_folder(arguments.output, is_resumed=arguments.resume, overwrite=arguments.overwrite)
    pretrained = None if arguments.init_from is None else local_folder(arguments.init_from)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype
    )
    rows = _read_rows(arguments, base)
    count = len(combinations)
    _say_beginning(rows, count)
    with noted_signals() as stop:
        context = TrainingContext(
            accelerator=accelerator,
            init_from=pretrained,
            save_every=arguments.save_every,
            stop=stop,
            name=arguments.output.resolve().name,
            targets=tuple(arguments.log_to),
        )
        data = {"training": rows.training, "validation": rows.validation}
        results = run_search(
            combinations,
            rows,
            fingerprint={
                **run_fingerprint(base, context.origin, accelerator, data),
                "values": [dict(values) for values, _ in combinations],
                "folds": arguments.folds,
            },
            folder=arguments.output,
            context=context,
            report=lambda trial: say(f"trial {trial.trial} of {count}: {trial_line(trial)}"),
        )
    _say_end(arguments, results, tried)
    return 0


def _combinations(
    arguments: argparse.Namespace,
) -> "tuple[Recipe, Mapping[str, Sequence[float]], list[tuple[Values, Recipe]]]":
    """Returns the recipe that all trials change, the values of each field, and every recipe.

    All of them are checked before the first one is trained.
    """
    from training.search import choose_values, default_values

    preset, fixed = preset_of(arguments), typed_options(arguments, _FIXED)
    typed: dict[str, Sequence[float]] = {
        name: getattr(arguments, name) for name in typed_options(arguments, _TRIED)
    }
    values = {**default_values(load_recipe(preset, fixed)), **typed}
    tried = {name: several for name, several in values.items() if len(several) > 1}
    fixed |= {name: several[0] for name, several in values.items() if name not in tried}
    base = load_recipe(preset, fixed)
    chosen = choose_values(tried, trials=arguments.trials, seed=base.seed)
    return base, tried, [(each, load_recipe(preset, {**fixed, **each})) for each in chosen]


def _read_rows(arguments: argparse.Namespace, base: Recipe) -> "SearchRows":
    from training.data.dataset import read_dataset
    from training.data.hub import local_files
    from training.data.validation_split import read_training, split_validation
    from training.search import SearchRows

    columns = columns_of(arguments)
    rows = read_training(local_files(arguments.files), columns=columns, labels=arguments.labels)
    if arguments.validation:
        files = local_files(arguments.validation)
        validation = read_dataset(files, columns=columns, labels=rows.labels)
        return SearchRows(rows, rows, validation, None)
    training, validation = split_validation(
        rows, which=base.hold_out, share=base.validation_share, seed=base.seed
    )
    return SearchRows(rows, training, validation, arguments.folds)


def _say_beginning(rows: "SearchRows", trials: int) -> None:
    from training.measure.summary import row_warnings, rows_line

    if rows.folds is None:
        say(rows_line(rows.training, "learn from"))
        say(rows_line(rows.validation, "validate on"))
        for warning in row_warnings(rows.training, rows.validation, {}):
            say(f"warning: {warning}")
        say(f"{trials} trials, ranked by validation loss")
    else:
        say(rows_line(rows.all, f"divide into {rows.folds} folds"))
        say(f"{trials} trials of {rows.folds} folds, ranked by the mean of their log-loss")


def _say_end(
    arguments: argparse.Namespace,
    results: "Sequence[TrialResult]",
    tried: Mapping[str, Sequence[float]],
) -> None:
    from training.search import RESULTS, ranked, results_table, trial_line, warnings_of

    best = ranked(results)[0]
    say(results_table(results))
    say(f"results: {arguments.output / RESULTS}")
    if best.loss is None:
        raise TrainingError("every trial has diverged: try a lower --learning-rate")
    say(f"best: trial {best.trial}, {trial_line(best)}")
    for warning in warnings_of(results, best, tried):
        say(f"warning: {warning}")
    values = [(option_name(name), str(value)) for name, value in best.values.items()]
    command = changed_command(
        arguments.typed,
        command="fit",
        without={*_NOT_OF_FIT, *(option_name(name) for name in tried)},
        added=[
            *(word for pair in values for word in pair),
            *("--output", str(arguments.output / "best")),
        ],
    )
    say(f"To train it, type:\n  {command}")

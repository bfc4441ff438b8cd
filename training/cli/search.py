"""Runs `headlight-train search`: tries values of a recipe, and says which are best."""

import argparse
from collections.abc import Mapping, Sequence

from model.checkpoint.hub_folder import local_folder
from model.cli.progress import say
from training.cli.advice import changed_command
from training.cli.fit_options import check_folds
from training.cli.recipe_options import option_of, preset_of
from training.cli.search_options import fixed_of, tried_of
from training.cli.shared_options import columns_of
from training.data.dataset import read_dataset
from training.data.hub import local_files
from training.data.splits import hold_out_rows, read_training
from training.device import choose_accelerator
from training.errors import TrainingError
from training.fit.recipe import Recipe, load_recipe
from training.fit.run_fingerprint import identity_of
from training.measure.cautions import row_cautions
from training.measure.summary import rows_line
from training.signals import noted_signals
from training.tracking.opening import check_installed
from training.trials.candidate import TrainingContext
from training.trials.search import (
    RESULTS,
    SearchRows,
    Trial,
    prepare_folder,
    ranked,
    run_search,
)
from training.trials.space import Values, choose_values, default_values
from training.trials.table import best_line, cautions, table_lines, trial_line

_OF_A_SEARCH = ("--output", "--trials", "--folds", "--log-to", "--save-every")


def run(arguments: argparse.Namespace) -> int:
    """Tries combinations of values, ranks them, and prints the command for the best.

    Raises:
        TrainingError: data or options cannot be used, every trial diverged, or a signal came.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    check_folds(arguments, processes=1)
    check_installed(arguments.log_to)
    base, tried, recipes = _recipes(arguments)
    prepare_folder(arguments.output, is_resumed=arguments.resume, overwrite=arguments.overwrite)
    files = local_files(arguments.files)
    pretrained = None if arguments.init_from is None else local_folder(arguments.init_from)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype
    )
    columns = columns_of(arguments)
    everything = read_training(files, columns=columns, labels=arguments.labels)
    if arguments.validation:
        validation = read_dataset(
            local_files(arguments.validation), columns=columns, labels=everything.labels
        )
        rows = SearchRows(everything, everything, validation, None)
    else:
        training, validation = hold_out_rows(
            everything, which=base.hold_out, share=base.validation_share, seed=base.seed
        )
        rows = SearchRows(everything, training, validation, arguments.folds)
    _say_beginning(rows, len(recipes))
    with noted_signals() as stop:
        bench = TrainingContext(
            accelerator=accelerator,
            init_from=pretrained,
            save_every=arguments.save_every,
            stop=stop,
            name=arguments.output.resolve().name,
            targets=tuple(arguments.log_to),
        )
        datasets = {"training": rows.training, "validation": rows.validation}
        trials = run_search(
            recipes,
            rows,
            identity={
                **identity_of(base, bench.origin, accelerator, datasets),
                "values": [dict(values) for values, _ in recipes],
                "folds": arguments.folds,
            },
            folder=arguments.output,
            bench=bench,
            tell=lambda trial: say(trial_line(trial, len(recipes))),
        )
    _say_end(arguments, trials, tried)
    return 0


def _recipes(
    arguments: argparse.Namespace,
) -> tuple[Recipe, Mapping[str, Sequence[float]], list[tuple[Values, Recipe]]]:
    """Returns the recipe that all trials change, the values of each field, and every recipe.

    All of them are checked before the first one is trained.
    """
    preset, fixed = preset_of(arguments), fixed_of(arguments)
    given = {**default_values(load_recipe(preset, fixed)), **tried_of(arguments)}
    tried = {name: values for name, values in given.items() if len(values) > 1}
    fixed = {**fixed, **{name: values[0] for name, values in given.items() if name not in tried}}
    base = load_recipe(preset, fixed)
    chosen = choose_values(tried, trials=arguments.trials, seed=base.seed)
    return base, tried, [(values, load_recipe(preset, {**fixed, **values})) for values in chosen]


def _say_beginning(rows: SearchRows, trials: int) -> None:
    if rows.folds is None:
        say(rows_line(rows.training, "learn from"))
        say(rows_line(rows.validation, "validate on"))
        for caution in row_cautions(rows.training, rows.validation, {}):
            say(f"warning: {caution}")
        say(f"{trials} trials, ranked by validation loss")
    else:
        say(rows_line(rows.all, f"divide into {rows.folds} folds"))
        say(f"{trials} trials of {rows.folds} folds, ranked by the mean of their log-loss")


def _say_end(
    arguments: argparse.Namespace, trials: Sequence[Trial], tried: Mapping[str, Sequence[float]]
) -> None:
    best = ranked(trials)[0]
    for line in table_lines(trials):
        say(line)
    say(f"results: {arguments.output / RESULTS}")
    if best.loss is None:
        raise TrainingError("every trial has diverged: try a lower --learning-rate")
    say(best_line(best))
    for caution in cautions(trials, best, tried):
        say(f"warning: {caution}")
    command = changed_command(
        arguments.typed,
        command="fit",
        without={*_OF_A_SEARCH, *(option_of(name) for name in tried)},
        added=[
            *(
                word
                for name, value in best.values.items()
                for word in (option_of(name), str(value))
            ),
            *("--output", str(arguments.output / "best")),
        ],
    )
    say(f"To train it, type:\n  {command}")

"""Runs `headlight-train search`: tries values of a recipe, and prints the best ones."""

import argparse
from collections.abc import Mapping, Sequence

from model.cli.progress import say
from training.cli.fit_report import say_rows
from training.cli.run_lock import locked
from training.cli.run_setup import context_of, read_rows
from training.cli.shared_options import (
    FIXED_FIELDS,
    TRIED_FIELDS,
    changed_command,
    check_folds,
    option_name,
    preset_of,
    typed_options,
)
from training.errors import TrainingError
from training.fit.initial import origin_of_weights
from training.fit.recipe import Recipe, load_recipe
from training.fit.run_fingerprint import run_fingerprint
from training.measure.summary import rows_line
from training.search import (
    RESULTS,
    SearchRows,
    TrialResult,
    Values,
    choose_values,
    default_values,
    prepare_folder,
    ranked,
    results_table,
    run_search,
    trial_line,
    warnings_of,
)
from training.signals import noted_signals
from training.tracking.logs import check_installed

_NOT_OF_FIT = ("--output", "--trials", "--folds", "--log-to", "--save-every")


def run(arguments: argparse.Namespace) -> int:
    """Tries combinations of values, ranks them, and prints the command for the best."""
    check_folds(arguments, processes=1)
    check_installed(arguments.log_to)
    with locked(arguments.output):
        return _search(arguments)


def _search(arguments: argparse.Namespace) -> int:
    base, tried, combinations = _combinations(arguments)
    prepare_folder(arguments.output, is_resumed=arguments.resume, overwrite=arguments.overwrite)
    rows = SearchRows(*read_rows(arguments, base), arguments.folds)
    count = len(combinations)
    if rows.folds is None:
        say_rows(rows.training, rows.validation, {})
        say(f"{count} trials, ranked by validation loss")
    else:
        say(rows_line(rows.all, f"divide into {rows.folds} folds"))
        say(f"{count} trials of {rows.folds} folds, ranked by the mean of their log-loss")
    with noted_signals() as stop:
        context = context_of(arguments, arguments.output, stop=stop)
        origin = origin_of_weights(context.init_from)
        data = {"training": rows.training, "validation": rows.validation}
        results = run_search(
            combinations,
            rows,
            fingerprint={
                **run_fingerprint(base, origin, context.accelerator, data, context.init_from),
                "values": [dict(values) for values, _ in combinations],
                "folds": arguments.folds,
            },
            context=context,
            report=lambda trial: say(f"trial {trial.trial} of {count}: {trial_line(trial)}"),
        )
    _say_end(arguments, results, tried)
    return 0


def _combinations(
    arguments: argparse.Namespace,
) -> tuple[Recipe, Mapping[str, Sequence[float]], list[tuple[Values, Recipe]]]:
    """Returns the recipe that all trials change, the values of each field, and every recipe.

    All of them are checked before the first one is trained.
    """
    preset, fixed = preset_of(arguments), typed_options(arguments, FIXED_FIELDS)
    typed: dict[str, Sequence[float]] = {
        name: getattr(arguments, name) for name in typed_options(arguments, TRIED_FIELDS)
    }
    values = {**default_values(load_recipe(preset, fixed)), **typed}
    tried = {name: several for name, several in values.items() if len(several) > 1}
    fixed |= {name: several[0] for name, several in values.items() if name not in tried}
    base = load_recipe(preset, fixed)
    chosen = choose_values(tried, trials=arguments.trials, seed=base.seed)
    return base, tried, [(each, load_recipe(preset, {**fixed, **each})) for each in chosen]


def _say_end(
    arguments: argparse.Namespace,
    results: Sequence[TrialResult],
    tried: Mapping[str, Sequence[float]],
) -> None:
    best = ranked(results)[0]
    say(results_table(results))
    say(f"results: {arguments.output / RESULTS}")
    if best.loss is None:
        raise TrainingError("every trial has diverged: try a lower --learning-rate")
    say(f"best: trial {best.trial}, {trial_line(best)}")
    for warning in warnings_of(results, best):
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

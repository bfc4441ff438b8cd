"""Finds out what `headlight-train fit` continues: an interrupted or a finished run."""

import argparse
from pathlib import Path
from typing import Any

from training.cli.shared_options import recipe_of
from training.cross_validation import has_folds
from training.distributed import Ranks
from training.errors import RecipeError, ResumeError
from training.fit.recipe import Recipe
from training.fit.state import has_state, previous_run
from training.run import STATE


def choose_recipe(
    arguments: argparse.Namespace, run_dir: Path, ranks: Ranks
) -> tuple[Recipe, Recipe]:
    """Finds out whether a run is resumed, and with which recipe. Sets `arguments.resume`.

    Returns:
        The recipe of this run, and that of the run that left a state.
    """
    recipe, state = recipe_of(arguments), run_dir / STATE
    arguments.overwrite = arguments.overwrite or arguments.extend is not None
    if ranks.is_first:
        if ranks.restarts:
            # torchrun has restarted the processes after one was lost: the user types no --resume.
            arguments.resume = has_state(state) or _has_folds(arguments, state)
        _check_leftovers(arguments, state)
    arguments.resume = ranks.share_object(arguments.resume)
    if not arguments.resume and arguments.extend is None:
        return recipe, recipe
    return _extended_recipe(arguments, recipe, state, ranks)


def _has_folds(arguments: argparse.Namespace, state: Path) -> bool:
    return arguments.folds is not None and has_folds(state.parent)


def _check_leftovers(arguments: argparse.Namespace, state: Path) -> None:
    """Refuses to discard an interrupted run without `--overwrite`, before any work is done."""
    if arguments.resume and not (has_state(state) or _has_folds(arguments, state)):
        raise ResumeError(f"{state}: there is no interrupted run to resume; leave out --resume")
    if arguments.resume or arguments.overwrite:
        return
    if has_state(state):
        raise RecipeError(
            f"{state} holds the state of a run: resume it with --resume, continue it with --extend "
            "if it has ended, or discard it with --overwrite"
        )
    if _has_folds(arguments, state):
        raise RecipeError(
            f"{state.parent} holds folds of a run: resume it with --resume, or discard it with "
            "--overwrite"
        )


def _extended_recipe(
    arguments: argparse.Namespace, recipe: Recipe, state: Path, ranks: Ranks
) -> tuple[Recipe, Recipe]:
    """Adds epochs to a finished run, or finds the epochs that an interrupted run was given."""
    previous = previous_run(state) if ranks.is_first else None
    if ranks.is_first and previous is None and arguments.extend is not None:
        raise ResumeError(
            f"{state}: no state of a run is kept there: fit with --keep-state first, or begin with "
            "only the weights by --init-from"
        )
    known: Any = ranks.share_object(previous) or ({}, 0, 0)
    fingerprint, done, best = known
    epochs, restarts = fingerprint.get("epochs", recipe.epochs), fingerprint.get("restarts", [])
    then = recipe
    if restarts or arguments.extend is not None:
        then = recipe.model_copy(update={"epochs": epochs, "restarts": tuple(restarts)})
    since = max(best, *(each for each in restarts if each <= done), 0)
    is_over = done >= epochs or done - since >= recipe.patience
    if arguments.extend is None or (arguments.resume and not is_over):
        return then, then
    if not is_over:
        raise ResumeError(
            f"{state}: the run has finished {done} of {epochs} epochs: resume it with --resume "
            "before you add more"
        )
    arguments.resume = True
    longer = {"epochs": done + arguments.extend, "restarts": (*restarts, done)}
    return then.model_copy(update=longer), then

"""Finds out what `headlight-train fit` goes on with: an interrupted or a finished run."""

import argparse
from pathlib import Path
from typing import Any

from training.distributed import Ranks
from training.errors import RecipeError, ResumeError
from training.fit.recipe import Recipe
from training.fit.state import has_state, past_of_state
from training.trials.folds import has_folds


def is_left(arguments: argparse.Namespace, state: Path) -> bool:
    """Tells whether an interrupted run left its state or its folds."""
    return has_state(state) or _has_folds(arguments, state)


def _has_folds(arguments: argparse.Namespace, state: Path) -> bool:
    return arguments.folds is not None and has_folds(state.parent)


def check_left(arguments: argparse.Namespace, state: Path) -> None:
    """Refuses to discard an interrupted run without `--overwrite`, before any work is done.

    Args:
        arguments: of the command line.
        state: the folder where the run leaves its state; folds are left beside it.

    Raises:
        ResumeError: there is nothing to go on with.
        RecipeError: there is, and nobody said what to do with it.
    """
    folds_left = _has_folds(arguments, state)
    if arguments.resume and not is_left(arguments, state):
        raise ResumeError(f"{state}: there is no interrupted run to go on with; leave out --resume")
    if has_state(state) and not (arguments.resume or arguments.overwrite):
        raise RecipeError(
            f"{state} holds the state of a run: go on with it with --resume, or with --extend if "
            "it has ended, or give it up with --overwrite"
        )
    if folds_left and not (arguments.resume or arguments.overwrite):
        raise RecipeError(
            f"{state.parent} holds folds of a run: go on with it with --resume, or give it up with "
            "--overwrite"
        )


def lengthened(
    arguments: argparse.Namespace, recipe: Recipe, state: Path, ranks: Ranks
) -> tuple[Recipe, Recipe]:
    """Adds epochs to a finished run, or finds out that an interrupted run has such epochs.

    Args:
        arguments: of the command line; `resume` is set if the run is to be gone on with.
        recipe: of the command line.
        state: the folder of the state.
        ranks: the processes of the run.

    Returns:
        The recipe of this run, and that of the run that left the state.

    Raises:
        ResumeError: there is no state of a finished run.
    """
    if not arguments.resume and arguments.extend is None:
        return recipe, recipe
    past = past_of_state(state) if ranks.is_first else None
    if ranks.is_first and past is None and arguments.extend is not None:
        raise ResumeError(
            f"{state}: no state of a run is kept there: fit with --keep-state first, or begin with "
            "the weights alone by --init-from"
        )
    known: Any = ranks.share_object(past) or ({}, 0, 0)
    identity, done, best = known
    epochs, restarts = identity.get("epochs", recipe.epochs), identity.get("restarts", [])
    then = recipe
    if restarts or arguments.extend is not None:
        then = recipe.model_copy(update={"epochs": epochs, "restarts": tuple(restarts)})
    since = max(best, *(each for each in restarts if each <= done), 0)
    is_over = done >= epochs or done - since >= recipe.patience
    if arguments.extend is None or (arguments.resume and not is_over):
        return then, then
    if not is_over:
        raise ResumeError(
            f"{state}: the run has finished {done} of {epochs} epochs: go on with it with --resume "
            "before you add more"
        )
    arguments.resume = True
    longer = {"epochs": done + arguments.extend, "restarts": (*restarts, done)}
    return then.model_copy(update=longer), then

"""Trains one network, or one for each fold, for every combination of values, and ranks them."""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from model.files import write_whole
from training.data.dataset import Dataset
from training.errors import DivergedRunError, InterruptedRunError, RecipeError, ResumeError
from training.fit.recipe import Recipe
from training.fit.run_fingerprint import check_identity
from training.trials.candidate import TrainingContext, train_candidate
from training.trials.folds import run_folds
from training.trials.space import Values

RESULTS, IDENTITY = "search.jsonl", "search.json"
_TRIAL = "trial-"


@dataclass(frozen=True, slots=True)
class Trial:
    """What one combination of values has reached.

    Args:
        trial: its number, from 1.
        values: of the fields of the recipe that were tried.
        loss: validation loss of the best epoch, or the mean log-loss of the folds; None if the
            run has diverged.
        deviation: standard deviation of the log-loss over the folds; None without folds.
        accuracy: on the same rows; None if the run has diverged.
        macro_f1: likewise.
        epoch: whose weights were measured; None with folds.
        seconds: of training.
    """

    trial: int
    values: Values
    loss: float | None
    deviation: float | None
    accuracy: float | None
    macro_f1: float | None
    epoch: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The rows of a search.

    Args:
        all: rows of the files to learn from.
        training: those that are trained on, without folds.
        validation: those that rank the trials, without folds.
        folds: how many folds rank the trials instead; None: none.
    """

    all: Dataset
    training: Dataset
    validation: Dataset
    folds: int | None


def run_search(
    recipes: Sequence[tuple[Values, Recipe]],
    rows: SearchRows,
    *,
    identity: Mapping[str, Any],
    folder: Path,
    bench: TrainingContext,
    tell: Callable[[Trial], None],
) -> list[Trial]:
    """Tries every recipe. Trials that are done already are kept.

    Args:
        recipes: with the values that each of them tries.
        rows: to learn from and to rank by.
        identity: what a resumed search must share with this one.
        folder: of the results, and of the state of the trial in hand.
        bench: what the networks share.
        tell: called with each trial that is done, those of an interrupted search too.

    Returns:
        The trials in their order.

    Raises:
        InterruptedRunError: a signal came; the trials that are done and the state are in the
            folder.
        ResumeError: the folder holds the results of another search.
        TrainingError: rows or recipes cannot be used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = _read(folder, json.loads(json.dumps(identity)))
    for trial in done:
        tell(trial)
    for number, (values, recipe) in enumerate(recipes, start=1):
        if number <= len(done):
            continue
        try:
            trial = _run_trial(number, values, recipe, rows, folder, bench)
        except InterruptedRunError as error:
            raise InterruptedRunError(
                error.signal, len(done), len(recipes), of="trial", unsaved=error.unsaved
            ) from error
        done.append(trial)
        lines = [json.dumps(asdict(each)) + "\n" for each in done]
        write_whole(folder / RESULTS, "".join(lines).encode())
        shutil.rmtree(folder / f"{_TRIAL}{number}", ignore_errors=True)
        tell(trial)
        signal = bench.stop()
        if signal is not None and number < len(recipes):
            raise InterruptedRunError(signal, len(done), len(recipes), of="trial")
    return done


def _run_trial(
    number: int,
    values: Values,
    recipe: Recipe,
    rows: SearchRows,
    folder: Path,
    bench: TrainingContext,
) -> Trial:
    place, label = folder / f"{_TRIAL}{number}", f"{_TRIAL}{number}"
    try:
        if rows.folds is not None:
            return _run_folded(number, values, recipe, rows, place, bench)
        found = train_candidate(
            recipe, rows.training, rows.validation, {}, folder=place, label=label, bench=bench
        )
    except DivergedRunError:
        shutil.rmtree(place, ignore_errors=True)
        return Trial(number, values, None, None, None, None, None, 0.0)
    figures = found.figures["validation"]
    return Trial(
        trial=number,
        values=values,
        loss=found.loss,
        deviation=None,
        accuracy=figures.accuracy,
        macro_f1=figures.macro_f1,
        epoch=found.epoch,
        seconds=found.seconds,
    )


def _run_folded(
    number: int,
    values: Values,
    recipe: Recipe,
    rows: SearchRows,
    place: Path,
    bench: TrainingContext,
) -> Trial:
    folds = run_folds(
        recipe,
        rows.all,
        count=rows.folds or 0,
        folder=place,
        label=f"{_TRIAL}{number}-",
        bench=bench,
        tell=lambda _: None,
    )
    losses = [fold.log_loss for fold in folds]
    return Trial(
        trial=number,
        values=values,
        loss=mean(losses),
        deviation=stdev(losses),
        accuracy=mean(fold.accuracy for fold in folds),
        macro_f1=mean(fold.macro_f1 for fold in folds),
        epoch=None,
        seconds=sum(fold.seconds for fold in folds),
    )


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Sorts trials by their loss, the least first; those that diverged are last."""
    return sorted(trials, key=lambda trial: math.inf if trial.loss is None else trial.loss)


def _read(folder: Path, identity: Mapping[str, Any]) -> list[Trial]:
    place = folder / IDENTITY
    if not place.exists():
        write_whole(place, (json.dumps(identity, indent=2) + "\n").encode())
        return []
    try:
        then = json.loads(place.read_text(encoding="utf-8"))
        path = folder / RESULTS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        trials = [Trial(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise ResumeError(
            f"{folder}: the results cannot be read ({error}); start again with --overwrite instead "
            "of --resume"
        ) from error
    check_identity(place, then, identity)
    return trials


def prepare_folder(folder: Path, *, is_resumed: bool, overwrite: bool) -> None:
    """Refuses to mix a search with what lies in its folder.

    Args:
        folder: of the results.
        is_resumed: whether to go on with what is there.
        overwrite: whether to remove the search that is there.

    Raises:
        RecipeError: something is there.
        ResumeError: there is nothing to go on with.
    """
    is_search = (folder / IDENTITY).exists()
    if is_resumed and not is_search:
        raise ResumeError(f"{folder}: there is no search to go on with; leave out --resume")
    if is_resumed:
        return
    if is_search and not overwrite:
        raise RecipeError(
            f"{folder} holds a search: go on with it with --resume, or replace it with --overwrite"
        )
    if folder.exists() and not is_search and (not folder.is_dir() or any(folder.iterdir())):
        raise RecipeError(f"{folder} holds something else than a search: choose another --output")
    for name in (RESULTS, IDENTITY):
        (folder / name).unlink(missing_ok=True)
    for path in folder.glob(f"{_TRIAL}*"):
        shutil.rmtree(path, ignore_errors=True)

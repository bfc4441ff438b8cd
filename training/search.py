"""Searches values of a recipe: an Optuna study with one trial for each combination."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState
from sklearn.model_selection import ParameterGrid, ParameterSampler

from model.files import write_whole
from training.cross_validation import run_folds
from training.data.dataset import Dataset
from training.errors import DivergedRunError, InterruptedRunError, RecipeError, ResumeError
from training.fit.recipe import Recipe
from training.fit.run_fingerprint import check_fingerprint
from training.measure.report import plain_table
from training.run import TrainingContext, train_candidate

STUDY, RESULTS = "search.journal", "search.jsonl"
_FOLDER = "trial-"
_RATES, _EPOCHS = (0.3, 1.0, 3.0), (1, 2)

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What one combination of values has reached.

    Args:
        loss: validation loss of the best epoch, or the mean log-loss of the folds; None if the
            run diverged, as of the other figures.
        deviation: standard deviation of the log-loss over the folds; None without folds.
    """

    trial: int
    values: Values
    loss: float | None = None
    deviation: float | None = None
    accuracy: float | None = None
    macro_f1: float | None = None
    epoch: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchRows:
    """All rows of a search, and their division; folds rank the trials instead, if there are any."""

    all: Dataset
    training: Dataset
    validation: Dataset
    folds: int | None


def default_values(recipe: Recipe) -> dict[str, tuple[float, ...]]:
    """Returns what is tried by default: rates and epochs around those of the recipe."""
    return {
        "learning_rate": tuple(float(f"{recipe.learning_rate * factor:.2g}") for factor in _RATES),
        "epochs": tuple(recipe.epochs * factor for factor in _EPOCHS),
    }


def choose_values(
    tried: Mapping[str, Sequence[float]], *, trials: int | None, seed: int
) -> list[Values]:
    """Combines values: all combinations, or some by chance and none twice."""
    if not tried:
        raise RecipeError(
            "there is only one combination of values: give an option several values, such as "
            "--learning-rate 2e-5,5e-5, or use fit"
        )
    grid = ParameterGrid({name: list(values) for name, values in tried.items()})
    if trials is not None and trials > len(grid):
        raise RecipeError(
            f"--trials {trials} is more than the {len(grid)} combinations of the values: leave it "
            "out to try all of them, or give more values"
        )
    drawn = grid
    if trials is not None:
        drawn = ParameterSampler(grid.param_grid[0], trials, random_state=seed)
    # The fields of each combination in the order in which they were given.
    return [{name: values[name] for name in tried} for values in drawn]


def prepare_folder(folder: Path, *, is_resumed: bool, overwrite: bool) -> None:
    """Refuses to mix a search with other files in its folder, or to replace one unasked."""
    is_search = (folder / STUDY).exists()
    if is_resumed and not is_search:
        raise ResumeError(f"{folder}: there is no search to resume; leave out --resume")
    if is_resumed:
        return
    if is_search and not overwrite:
        raise RecipeError(
            f"{folder} holds a search: resume it with --resume, or replace it with --overwrite"
        )
    if folder.exists() and not is_search and (not folder.is_dir() or any(folder.iterdir())):
        raise RecipeError(f"{folder} holds something other than a search: choose another --output")
    for name in (RESULTS, STUDY):
        (folder / name).unlink(missing_ok=True)
    for path in folder.glob(f"{_FOLDER}*"):
        shutil.rmtree(path, ignore_errors=True)


def run_search(
    combinations: Sequence[tuple[Values, Recipe]],
    rows: SearchRows,
    *,
    fingerprint: Mapping[str, Any],
    context: TrainingContext,
    report: Callable[[TrialResult], None],
) -> list[TrialResult]:
    """Tries every recipe, and reports each trial; those of an interrupted search come first."""
    folder, total = context.run_dir, len(combinations)
    folder.mkdir(parents=True, exist_ok=True)
    study = _open_study(folder / STUDY, json.loads(json.dumps(fingerprint)))
    results = _finished(study)
    for result in results:
        report(result)
    # A trial that was interrupted is given again, with its number and so with its state.
    known = {trial.user_attrs["number"] for trial in study.get_trials(states=[TrialState.WAITING])}
    known |= {result.trial for result in results}
    for number, (values, _) in enumerate(combinations, start=1):
        if number not in known:
            study.enqueue_trial(dict(values), user_attrs={"number": number})

    choices = {
        name: list(dict.fromkeys(values[name] for values, _ in combinations))
        for name in combinations[0][0]
    }

    def objective(trial: Trial) -> float:
        number = trial.user_attrs["number"]
        values, recipe = combinations[number - 1]
        for name, tried in choices.items():
            trial.suggest_categorical(name, tried)
        result = TrialResult(number, values)
        try:
            result = _run_trial(result, recipe, rows, context)
        except DivergedRunError:
            pass  # ranked last
        except InterruptedRunError as error:
            raise error.within("trial", len(_finished(study)), total) from error
        trial.set_user_attr("result", asdict(result))
        return inf if result.loss is None else result.loss

    def keep(study: optuna.Study, trial: FrozenTrial) -> None:
        result, done = TrialResult(**trial.user_attrs["result"]), _finished(study)
        lines = [json.dumps(asdict(each)) + "\n" for each in done]
        write_whole(folder / RESULTS, "".join(lines).encode())
        shutil.rmtree(folder / f"{_FOLDER}{result.trial}", ignore_errors=True)
        report(result)
        signal = context.stop()
        if signal is not None and len(done) < total:
            raise InterruptedRunError(signal, len(done), total, of="trial")

    study.optimize(objective, n_trials=total - len(results), callbacks=[keep])
    return _finished(study)


def _open_study(path: Path, fingerprint: Mapping[str, Any]) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # an interruption has its own message
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(storage=storage, study_name="search", load_if_exists=True)
    except (ValueError, KeyError) as error:
        raise ResumeError(
            f"{path}: the search cannot be read ({error}); start again with --overwrite instead "
            "of --resume"
        ) from error
    check_fingerprint(path, study.user_attrs.get("fingerprint", fingerprint), fingerprint)
    study.set_user_attr("fingerprint", dict(fingerprint))
    return study


def _finished(study: optuna.Study) -> list[TrialResult]:
    trials = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    results = [TrialResult(**trial.user_attrs["result"]) for trial in trials]
    return sorted(results, key=lambda result: result.trial)


def _run_trial(
    result: TrialResult, recipe: Recipe, rows: SearchRows, context: TrainingContext
) -> TrialResult:
    label = f"{_FOLDER}{result.trial}"
    folder = context.run_dir / label
    if rows.folds is None:
        candidate = train_candidate(
            recipe, rows.training, rows.validation, {}, folder=folder, label=label, context=context
        )
        figures = candidate.figures["validation"]
        return replace(
            result,
            loss=candidate.loss,
            accuracy=figures.accuracy,
            macro_f1=figures.macro_f1,
            epoch=candidate.epoch,
            seconds=candidate.seconds,
        )
    folds = run_folds(
        recipe, rows.all, count=rows.folds, folder=folder, label=f"{label}-", context=context
    )
    losses = [fold.log_loss for fold in folds]
    return replace(
        result,
        loss=mean(losses),
        deviation=stdev(losses),
        accuracy=mean(fold.accuracy for fold in folds),
        macro_f1=mean(fold.macro_f1 for fold in folds),
        seconds=sum(fold.seconds for fold in folds),
    )


def ranked(results: Sequence[TrialResult]) -> list[TrialResult]:
    """Sorts trials by their loss, the least first; those that diverged are last."""
    return sorted(results, key=lambda trial: inf if trial.loss is None else trial.loss)


def trial_line(trial: TrialResult) -> str:
    """Returns the values and the figures of a trial in one line."""
    values = ", ".join(f"{readable(name)} {value:g}" for name, value in trial.values.items())
    if trial.loss is None:
        return f"{values}: the run diverged"
    return (
        f"{values}: {_loss_name(trial)} {_loss(trial)}, accuracy {trial.accuracy:.2%}, macro F1 "
        f"{trial.macro_f1:.4f}"
    )


def results_table(results: Sequence[TrialResult]) -> str:
    """Lists the trials in a table, the best first."""
    best, *_ = trials = ranked(results)
    head = [*map(readable, best.values), _loss_name(best), "accuracy", "macro F1", "epoch"]
    rows = [
        [
            str(trial.trial),
            *(f"{value:g}" for value in trial.values.values()),
            _loss(trial),
            "-" if trial.accuracy is None else f"{trial.accuracy:.2%}",
            "-" if trial.macro_f1 is None else f"{trial.macro_f1:.4f}",
            "-" if trial.epoch is None else str(trial.epoch),
            f"{trial.seconds:.0f}",
        ]
        for trial in trials
    ]
    return plain_table(rows, ["trial", *head, "seconds"])


def warnings_of(results: Sequence[TrialResult], best: TrialResult) -> list[str]:
    """Returns what the figures of the best trial hide, in sentences for people."""
    warnings = [
        f"the best of {len(results)} trials is chosen by the rows that measure it, so its figures "
        "are optimistic: measure it on rows that chose nothing, with --evaluate FILE"
    ]
    for name in best.values:
        values = {trial.values[name] for trial in results}
        if len(values) == 1:  # nothing lies beside it
            continue
        for end, side, way in (
            (min(values), "lowest", "lower"),
            (max(values), "highest", "higher"),
        ):
            if best.values[name] == end:
                warnings.append(
                    f"{readable(name)}: the best value, {end:g}, is the {side} that was tried: try "
                    f"{way} ones too"
                )
    return warnings


def readable(field: str) -> str:
    """Returns the name of a recipe's field as people read it."""
    return field.replace("_", " ")


def _loss_name(trial: TrialResult) -> str:
    return "validation loss" if trial.deviation is None else "log-loss of the folds"


def _loss(trial: TrialResult) -> str:
    if trial.loss is None:
        return "diverged"
    spread = "" if trial.deviation is None else f" ± {trial.deviation:.4f}"
    return f"{trial.loss:.4f}{spread}"

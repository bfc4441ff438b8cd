"""Cross-validates: trains and measures one network for each fold of the rows."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

from model.files import write_whole
from training.data.dataset import Dataset
from training.data.validation_split import split_folds, split_validation
from training.errors import InterruptedRunError, ResumeError
from training.fit.initial import origin_of_weights
from training.fit.recipe import Recipe
from training.fit.run_fingerprint import check_fingerprint, run_fingerprint
from training.run import TrainingContext, train_candidate

RECORD = "folds.json"
_FOLD, _SET = "fold-", "fold"


@dataclass(frozen=True, slots=True)
class Fold:
    """What a network reached on the rows of a fold, which it had not seen; log-loss in nats."""

    fold: int
    rows: int
    accuracy: float
    macro_f1: float
    log_loss: float
    epoch: int
    epochs: int
    seconds: float


def run_folds(
    recipe: Recipe,
    dataset: Dataset,
    *,
    count: int,
    folder: Path,
    label: str,
    context: TrainingContext,
    report: Callable[[Fold], None] = lambda _: None,
) -> list[Fold]:
    """Trains and measures one network for each fold; finished folds are kept.

    A share of the rows outside a fold is held out and chooses the epoch and the temperature, as
    in any run.

    Raises:
        InterruptedRunError: a signal came; finished folds and the state are in the folder.
        DataError: a class has too few rows.
        ResumeError: the folder holds the folds of another run.
        TrainingError: a run diverged, or cannot be done.
    """
    folds = split_folds(dataset, count=count, seed=recipe.seed)
    origin = origin_of_weights(context.init_from)
    data = {"training": dataset}
    fingerprint: dict[str, object] = {
        **run_fingerprint(recipe, origin, context.accelerator, data, context.init_from),
        "folds": count,
    }
    done = _read(folder / RECORD, fingerprint)
    for fold in done:
        report(fold)
    for number, (rest, inside) in enumerate(folds, start=1):
        if number <= len(done):
            continue
        try:
            fold = _run_fold(recipe, rest, inside, number, folder, label, context)
        except InterruptedRunError as error:
            raise error.within(_SET, len(done), count) from error
        done.append(fold)
        _write(folder / RECORD, fingerprint, done)
        shutil.rmtree(folder / f"{_FOLD}{number}", ignore_errors=True)
        report(fold)
        signal = context.stop()
        if signal is not None:
            raise InterruptedRunError(signal, len(done), count, of=_SET)
    return done


def _run_fold(
    recipe: Recipe,
    rest: Dataset,
    inside: Dataset,
    number: int,
    folder: Path,
    label: str,
    context: TrainingContext,
) -> Fold:
    training, validation = split_validation(
        rest, which=recipe.hold_out, share=recipe.validation_share, seed=recipe.seed
    )
    candidate = train_candidate(
        recipe,
        training,
        validation,
        {_SET: inside},
        folder=folder / f"{_FOLD}{number}",
        label=f"{label}{_FOLD}{number}",
        context=context,
    )
    figures = candidate.figures[_SET]
    return Fold(
        fold=number,
        rows=figures.rows,
        accuracy=figures.accuracy,
        macro_f1=figures.macro_f1,
        log_loss=figures.log_loss,
        epoch=candidate.epoch,
        epochs=candidate.epochs,
        seconds=candidate.seconds,
    )


def _read(path: Path, fingerprint: Mapping[str, object]) -> list[Fold]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        then, folds = content["identity"], [Fold(**fold) for fold in content["folds"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResumeError(
            f"{path}: cannot be read ({error}); start again with --overwrite instead of --resume"
        ) from error
    check_fingerprint(path, then, json.loads(json.dumps(fingerprint)))
    return folds


def _write(path: Path, fingerprint: Mapping[str, object], folds: Sequence[Fold]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"identity": fingerprint, "folds": [asdict(fold) for fold in folds]}
    write_whole(path, (json.dumps(content, indent=2) + "\n").encode())


def has_folds(folder: Path) -> bool:
    """Whether an interrupted run left folds or the state of one."""
    return (folder / RECORD).exists() or any(folder.glob(f"{_FOLD}*"))


def remove_folds(folder: Path) -> None:
    """Removes the folds of a run."""
    (folder / RECORD).unlink(missing_ok=True)
    for path in folder.glob(f"{_FOLD}*"):
        shutil.rmtree(path, ignore_errors=True)


def fold_line(fold: Fold, count: int) -> str:
    """Returns the figures of a fold in one line."""
    return (
        f"fold {fold.fold} of {count}: accuracy {fold.accuracy:.2%}, macro F1 "
        f"{fold.macro_f1:.4f}, log-loss {fold.log_loss:.4f} ({fold.rows:,} rows; epoch "
        f"{fold.epoch} of {fold.epochs}, {fold.seconds:.0f} s)"
    )


def folds_line(folds: Sequence[Fold]) -> str:
    """Returns mean and standard deviation (with n - 1) of the folds in one line."""
    accuracy, f1, loss = (
        [float(getattr(fold, name)) for fold in folds]
        for name in ("accuracy", "macro_f1", "log_loss")
    )
    return (
        f"{len(folds)} folds: accuracy {mean(accuracy):.2%} ± {stdev(accuracy):.2%}, macro F1 "
        f"{mean(f1):.4f} ± {stdev(f1):.4f}, log-loss {mean(loss):.4f} ± {stdev(loss):.4f} "
        "(mean and standard deviation)"
    )

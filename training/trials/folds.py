"""Trains one network for each fold of the rows, and measures it on that fold."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

from model.files import write_whole
from training.data.dataset import Dataset
from training.data.folds import split_folds
from training.data.splits import hold_out_rows
from training.errors import InterruptedRunError, ResumeError
from training.fit.recipe import Recipe
from training.fit.run_fingerprint import check_identity, identity_of
from training.trials.candidate import TrainingContext, train_candidate

RECORD = "folds.json"
_FOLD = "fold-"
_SET = "fold"


@dataclass(frozen=True, slots=True)
class Fold:
    """What a network did on the rows of a fold, which it had not seen in any way.

    Args:
        fold: its number, from 1.
        rows: of the fold.
        accuracy: share of right rows.
        macro_f1: mean of the F1 scores of the classes.
        log_loss: mean negative log-likelihood, in nats, with the temperature of the run.
        epoch: whose weights were measured.
        epochs: that were trained.
        seconds: of training.
    """

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
    bench: TrainingContext,
    tell: Callable[[Fold], None],
) -> list[Fold]:
    """Trains and measures one network for each fold. Folds that are done already are kept.

    Each network is trained as by a run on the rows outside its fold: a share of them is held out
    and chooses the epoch and the temperature.

    Args:
        recipe: of every network.
        dataset: all rows.
        count: of the folds.
        folder: of the record, and of the state of the fold in hand.
        label: begins the names of the runs.
        bench: what the networks share.
        tell: called with each fold that is done, those of an interrupted run too.

    Raises:
        InterruptedRunError: a signal came; the folds that are done and the state are in the folder.
        DataError: a class has too few rows.
        ResumeError: the folder holds the folds of another run.
        TrainingError: a run diverged, or cannot be done.
    """
    folds = split_folds(dataset, count=count, seed=recipe.seed)
    identity = {
        **identity_of(recipe, bench.origin, bench.accelerator, {"training": dataset}),
        "folds": count,
    }
    done = _read(folder / RECORD, identity)
    for fold in done:
        tell(fold)
    for number, (rest, inside) in enumerate(folds, start=1):
        if number <= len(done):
            continue
        try:
            fold = _run_fold(recipe, rest, inside, number, folder, label, bench)
        except InterruptedRunError as error:
            raise InterruptedRunError(
                error.signal, len(done), count, of=_SET, unsaved=error.unsaved
            ) from error
        done.append(fold)
        _write(folder / RECORD, identity, done)
        shutil.rmtree(folder / f"{_FOLD}{number}", ignore_errors=True)
        tell(fold)
        signal = bench.stop()
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
    bench: TrainingContext,
) -> Fold:
    training, validation = hold_out_rows(
        rest, which=recipe.hold_out, share=recipe.validation_share, seed=recipe.seed
    )
    found = train_candidate(
        recipe,
        training,
        validation,
        {_SET: inside},
        folder=folder / f"{_FOLD}{number}",
        label=f"{label}{_FOLD}{number}",
        bench=bench,
    )
    figures = found.figures[_SET]
    return Fold(
        fold=number,
        rows=figures.rows,
        accuracy=figures.accuracy,
        macro_f1=figures.macro_f1,
        log_loss=figures.log_loss,
        epoch=found.epoch,
        epochs=found.epochs,
        seconds=found.seconds,
    )


def _read(path: Path, identity: dict[str, object]) -> list[Fold]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        then, folds = content["identity"], [Fold(**fold) for fold in content["folds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(
            f"{path}: cannot be read ({error}); start again with --overwrite instead of --resume"
        ) from error
    check_identity(path, then, json.loads(json.dumps(identity)))
    return folds


def _write(path: Path, identity: dict[str, object], folds: Sequence[Fold]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"identity": identity, "folds": [asdict(fold) for fold in folds]}
    write_whole(path, (json.dumps(content, indent=2) + "\n").encode())


def has_folds(folder: Path) -> bool:
    """Tells whether an interrupted run left folds or the state of one."""
    return (folder / RECORD).exists() or any(folder.glob(f"{_FOLD}*"))


def remove_folds(folder: Path) -> None:
    """Removes what a run of folds has left."""
    (folder / RECORD).unlink(missing_ok=True)
    for path in folder.glob(f"{_FOLD}*"):
        shutil.rmtree(path, ignore_errors=True)


def fold_line(fold: Fold, count: int) -> str:
    """Tells the figures of a fold."""
    return (
        f"fold {fold.fold} of {count}: accuracy {fold.accuracy:.2%}, macro F1 "
        f"{fold.macro_f1:.4f}, log-loss {fold.log_loss:.4f} ({fold.rows:,} rows; epoch "
        f"{fold.epoch} of {fold.epochs}, {fold.seconds:.0f} s)"
    )


def folds_line(folds: Sequence[Fold]) -> str:
    """Tells the mean of the folds, and their standard deviation (with n - 1)."""
    accuracy, f1, loss = (
        [float(getattr(fold, name)) for fold in folds]
        for name in ("accuracy", "macro_f1", "log_loss")
    )
    return (
        f"{len(folds)} folds: accuracy {mean(accuracy):.2%} ± {stdev(accuracy):.2%}, macro F1 "
        f"{mean(f1):.4f} ± {stdev(f1):.4f}, log-loss {mean(loss):.4f} ± {stdev(loss):.4f} "
        "(mean and standard deviation)"
    )

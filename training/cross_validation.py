"""Trains networks only for their figures: one, or one for each fold of the rows."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import torch

from model.files import write_whole
from training.data.dataset import Dataset
from training.data.validation_split import split_folds, split_validation
from training.device import Accelerator
from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import DivergedRunError, InterruptedRunError, ResumeError
from training.fit.checkpointing import check_state_space, demand_of
from training.fit.export import measure_network
from training.fit.initial import InitialModel, begin, describe_origin
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.run_fingerprint import check_fingerprint, run_fingerprint
from training.fit.state import has_state
from training.fit.trainer import Trainer
from training.measure.history import Measurement
from training.measure.metrics import Figures
from training.synth.augment import detokenize_share, perturb_all
from training.tracking.logs import Target, final_values, opened_logs, parameters_of

RECORD = "folds.json"
_STATE, _FOLD, _SET = "state", "fold-", "fold"


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """What all networks of a command share.

    Args:
        init_from: the folder of the first weights; None: random weights.
        save_every: steps between two states on disk.
        stop: called after each step; returns the number of a signal, or None.
        name: the name of the output, which begins the names of its runs in trackers.
        targets: the trackers of the runs.
    """

    accelerator: Accelerator
    init_from: Path | None
    save_every: int
    stop: Callable[[], int | None]
    name: str
    targets: Sequence[Target] = ()

    @property
    def origin(self) -> dict[str, str]:
        """Name and digest of the pretrained weights, if any."""
        return {} if self.init_from is None else describe_origin(self.init_from)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was measured of a network.

    Args:
        epoch: the epoch whose weights were measured.
        epochs: how many epochs were trained.
        loss: validation loss of that epoch, in nats, without a temperature.
        seconds: how long training took.
        figures: the figures of every measured set, by name; `validation` is one of them.
    """

    epoch: int
    epochs: int
    loss: float
    seconds: float
    figures: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Fold:
    """What a network reached on the rows of a fold, which it had not seen in any way.

    Args:
        fold: its number, from 1.
        log_loss: mean negative log-likelihood, in nats, with the temperature of the run.
        epoch: the epoch whose weights were measured.
        epochs: how many epochs were trained.
    """

    fold: int
    rows: int
    accuracy: float
    macro_f1: float
    log_loss: float
    epoch: int
    epochs: int
    seconds: float


def make_trainer(
    recipe: Recipe,
    start: InitialModel,
    training: Dataset,
    validation: Dataset,
    *,
    accelerator: Accelerator,
    state_dir: Path,
    label: str = "fit",
    ranks: Ranks = SINGLE_PROCESS,
) -> Trainer:
    """Encodes rows, perturbs them if the recipe asks for consistency, and makes their trainer."""
    perturbed = perturb_all(training.texts, seed=recipe.seed) if recipe.consistency else None
    return Trainer(
        start.network.to(accelerator.device),
        start.tokenizer,
        recipe,
        training=encode_rows(start.tokenizer, training, perturbed),
        validation=encode_rows(start.tokenizer, validation),
        accelerator=accelerator,
        state_dir=state_dir,
        fingerprint=run_fingerprint(
            recipe, start.origin, accelerator, {"training": training, "validation": validation}
        ),
        label=label,
        ranks=ranks,
    )


def detokenized(training: Dataset, recipe: Recipe) -> Dataset:
    """Rewrites the share of the texts in Penn Treebank style that the recipe names."""
    texts = detokenize_share(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    return replace(training, texts=texts)


def train_candidate(
    recipe: Recipe,
    training: Dataset,
    validation: Dataset,
    measured: Mapping[str, Dataset],
    *,
    folder: Path,
    label: str,
    context: TrainingContext,
) -> Candidate:
    """Trains a network, or resumes its interrupted run, and measures it.

    Args:
        recipe: how to train.
        training: rows to learn from.
        validation: rows that choose the epoch and the temperature.
        measured: other rows, which choose nothing, by the names of their sets.
        folder: where the state goes; it stays there until the caller has kept the figures.
        label: names the run in its progress and in trackers.
        context: what the run shares with others.

    Raises:
        InterruptedRunError: a signal came; the state is in the folder.
        DivergedRunError: the loss is no longer a number.
        TrainingError: rows, recipe or a state do not fit.
    """
    training = detokenized(training, recipe)
    accelerator = context.accelerator
    start = begin(recipe, context.init_from, training)
    state_dir = folder / _STATE
    trainer = make_trainer(
        recipe, start, training, validation, accelerator=accelerator, state_dir=state_dir,
        label=label,
    )  # fmt: skip
    if has_state(state_dir):
        trainer.resume()
    demand = demand_of(
        start.network,
        start.tokenizer,
        dtype=torch.float32,
        has_average=recipe.average_decay > 0.0,
        state_dir=state_dir,
        is_over=trainer.is_over,
    )
    check_state_space(demand, folder, advice="make room, or choose a folder on another disk")
    logged = 0
    with opened_logs(
        context.targets, f"{context.name}/{label}", folder=folder, first_step=trainer.step
    ) as log:

        def record(history: Sequence[Measurement]) -> None:
            nonlocal logged
            for measurement in history[logged:]:
                log.epoch(measurement)
            logged = len(history)

        log.begin(parameters_of(recipe, start.origin, training, validation))
        trainer.observe(log.step)
        try:
            history = trainer.run(save_every=context.save_every, stop=context.stop, record=record)
        except DivergedRunError:
            shutil.rmtree(folder, ignore_errors=True)  # a resumed run would diverge again
            raise
        temperature, figures = measure_network(
            start, validation, measured, device=accelerator.device
        )
        log.end(final_values(figures, temperature), step=trainer.step)
    best = min(history, key=lambda measurement: measurement.validation_loss)
    kept = best if recipe.keep == "best" else history[-1]
    return Candidate(kept.epoch, len(history), kept.validation_loss, history[-1].seconds, figures)


def run_folds(
    recipe: Recipe,
    dataset: Dataset,
    *,
    count: int,
    folder: Path,
    label: str,
    context: TrainingContext,
    report: Callable[[Fold], None],
) -> list[Fold]:
    """Trains and measures one network for each fold; finished folds are kept.

    A share of the rows outside a fold is held out and chooses the epoch and the temperature, as
    in any run.

    Args:
        recipe: how to train every network.
        dataset: all rows.
        count: how many folds.
        folder: where the record and the state of the current fold go.
        label: begins the names of the runs.
        context: what the networks share.
        report: called with each finished fold, also those of an interrupted run.

    Raises:
        InterruptedRunError: a signal came; finished folds and the state are in the folder.
        DataError: a class has too few rows.
        ResumeError: the folder holds the folds of another run.
        TrainingError: a run diverged, or cannot be done.
    """
    folds = split_folds(dataset, count=count, seed=recipe.seed)
    data = {"training": dataset}
    fingerprint: dict[str, object] = {
        **run_fingerprint(recipe, context.origin, context.accelerator, data),
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
            raise InterruptedRunError(
                error.signal, len(done), count, of=_SET, unsaved=error.unsaved
            ) from error
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
    found = train_candidate(
        recipe,
        training,
        validation,
        {_SET: inside},
        folder=folder / f"{_FOLD}{number}",
        label=f"{label}{_FOLD}{number}",
        context=context,
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


def _read(path: Path, fingerprint: Mapping[str, object]) -> list[Fold]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        then, folds = content["identity"], [Fold(**fold) for fold in content["folds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
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

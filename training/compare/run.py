"""Trains the variants of a comparison side by side, each with several seeds."""

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sklearn.metrics import accuracy_score, log_loss

from model.checkpoint.records import DataSource
from model.cli.progress import say
from training.compare.variants import BASELINE, VARIANTS
from training.data.dataset import Dataset
from training.device import Accelerator
from training.errors import RecipeError
from training.fit.recipe import load_recipe
from training.fit.rows import encode_rows
from training.fit.trainer import Trainer
from training.measure.history import LossAndAccuracy, Measurement
from training.measure.tfidf import TITLE, fit_tfidf


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One run of a variant, measured in evaluation mode at its end; the baseline has no epochs."""

    seed: int
    seconds: float
    training: LossAndAccuracy
    validation: LossAndAccuracy
    history: tuple[Measurement, ...]

    @property
    def gap(self) -> float:
        """Training accuracy minus validation accuracy: how far the run overfits."""
        return self.training.accuracy - self.validation.accuracy


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of a variant."""

    name: str
    title: str
    parameters: int
    runs: tuple[VariantRun, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole comparison."""

    command: str
    machine: str
    sources: tuple[DataSource, ...]
    hold_out: str
    training_rows: int
    validation_rows: int
    epochs: int
    outcomes: tuple[Outcome, ...]


def spread(values: Iterable[float]) -> tuple[float, float | None]:
    """Computes mean and sample standard deviation, which a single value lacks."""
    several = list(values)
    return statistics.fmean(several), statistics.stdev(several) if len(several) > 1 else None


def run_variants(
    names: Sequence[str],
    training: Dataset,
    validation: Dataset,
    *,
    seeds: int,
    epochs: int,
    accelerator: Accelerator,
) -> tuple[Outcome, ...]:
    """Trains every variant with every seed."""
    outcomes = {}
    # The baseline goes first: it may find that the texts have no words.
    for name in sorted(names, key=lambda name: name != BASELINE):
        if name == BASELINE:
            outcome = _run_baseline(training, validation)
        else:
            found = [
                _run(name, seed, training, validation, epochs, accelerator) for seed in range(seeds)
            ]
            runs = tuple(run for _, run in found)
            outcome = Outcome(name, VARIANTS[name].title, found[0][0], runs)
        outcomes[name] = outcome
        say(
            f"{name}: training accuracy "
            f"{spread(run.training.accuracy for run in outcome.runs)[0]:.1%}, validation accuracy "
            f"{spread(run.validation.accuracy for run in outcome.runs)[0]:.1%}, "
            f"{len(outcome.runs)} runs"
        )
    return tuple(outcomes[name] for name in names)


def _run(
    name: str,
    seed: int,
    training: Dataset,
    validation: Dataset,
    epochs: int,
    accelerator: Accelerator,
) -> tuple[int, VariantRun]:
    """Returns the parameter count of a network, and its run."""
    variant = VARIANTS[name]
    recipe = load_recipe(variant.preset, {"epochs": epochs, "seed": seed, "keep": "last"})
    network, tokenizer = variant.begin(recipe, training)
    trainer = Trainer(
        network.to(accelerator.device),
        tokenizer,
        recipe,
        training=encode_rows(tokenizer, training.texts, training.label_ids),
        validation=encode_rows(tokenizer, validation.texts, validation.label_ids),
        accelerator=accelerator,
        state_dir=None,
        fingerprint={},
        measure_training=True,
        label=f"{name}, seed {seed}",
    )
    history = trainer.run(save_every=1, stop=lambda: None, record=lambda _: None)
    last = history[-1]
    return sum(parameter.numel() for parameter in network.parameters()), VariantRun(
        seed=seed,
        seconds=last.seconds,
        training=LossAndAccuracy(last.training_loss, last.training_accuracy),
        validation=LossAndAccuracy(last.validation_loss, last.validation_accuracy),
        history=tuple(history),
    )


def _run_baseline(training: Dataset, validation: Dataset) -> Outcome:
    started = time.perf_counter()
    pipeline = fit_tfidf(training)
    if pipeline is None:
        raise RecipeError(
            f"the texts have no words for {BASELINE}: choose --variants without it, or other files"
        )
    seconds = time.perf_counter() - started

    def evaluate(dataset: Dataset) -> LossAndAccuracy:
        probabilities = pipeline.predict_proba(dataset.texts)  # [N, C]
        classes = list(range(len(dataset.labels)))
        return LossAndAccuracy(
            loss=float(log_loss(dataset.label_ids, probabilities, labels=classes)),
            accuracy=float(accuracy_score(dataset.label_ids, probabilities.argmax(axis=1))),
        )

    run = VariantRun(0, round(seconds, 3), evaluate(training), evaluate(validation), history=())
    regression = pipeline[-1]
    parameters = int(regression.coef_.size + regression.intercept_.size)
    return Outcome(name=BASELINE, title=TITLE, parameters=parameters, runs=(run,))

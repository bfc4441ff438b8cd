"""Trains the variants of a comparison side by side, each with several seeds."""

import time
from collections.abc import Callable, Sequence

from sklearn.metrics import accuracy_score, log_loss

from training.compare.comparison import Outcome, VariantRun
from training.compare.variants import BASELINE, VARIANTS
from training.data.dataset import Dataset
from training.device import Accelerator
from training.errors import InterruptedComparisonError, InterruptedRunError, RecipeError
from training.fit.rows import LossAndAccuracy, encode_rows
from training.fit.trainer import Trainer
from training.measure.tfidf import TITLE, fit_tfidf


def run_variants(
    names: Sequence[str],
    training: Dataset,
    validation: Dataset,
    *,
    seeds: int,
    epochs: int,
    accelerator: Accelerator,
    stop: Callable[[], int | None],
    say: Callable[[str], None],
) -> tuple[Outcome, ...]:
    """Trains every variant with every seed."""
    outcomes = {}
    # The baseline goes first: it may find that the texts have no words.
    for name in sorted(names, key=lambda name: name != BASELINE):
        if name == BASELINE:
            outcome = _run_baseline(training, validation)
        else:
            runs = []
            for seed in range(seeds):
                parameters, run = _run(name, seed, training, validation, epochs, accelerator, stop)
                runs.append(run)
            outcome = Outcome(name, VARIANTS[name].title, parameters, tuple(runs))
        outcomes[name] = outcome
        say(_summary(outcome))
        signal = stop()
        if signal is not None:
            raise InterruptedComparisonError(signal)
    return tuple(outcomes[name] for name in names)


def _run(
    name: str,
    seed: int,
    training: Dataset,
    validation: Dataset,
    epochs: int,
    accelerator: Accelerator,
    stop: Callable[[], int | None],
) -> tuple[int, VariantRun]:
    """Returns the parameter count of a network, and its run."""
    recipe = VARIANTS[name].recipe(epochs=epochs, seed=seed)
    network, tokenizer = VARIANTS[name].begin(recipe, training)
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
    try:
        history = trainer.run(save_every=1, stop=stop, record=lambda _: None)
    except InterruptedRunError as error:
        raise InterruptedComparisonError(error.signal) from error
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


def _summary(outcome: Outcome) -> str:
    training = outcome.spread(lambda run: run.training.accuracy)
    validation = outcome.spread(lambda run: run.validation.accuracy)
    return (
        f"{outcome.name}: training accuracy {training.mean:.1%}, validation accuracy "
        f"{validation.mean:.1%}, {len(outcome.runs)} runs"
    )

"""Trains the variants of a comparison side by side, each with several seeds."""

from collections.abc import Callable, Sequence

from training.compare.baseline import run_baseline
from training.compare.comparison import Outcome, Run
from training.compare.variants import BASELINE, VARIANTS
from training.data.dataset import Dataset
from training.device import Accelerator
from training.errors import InterruptedComparisonError, InterruptedRunError
from training.fit.rows import EvalResult, encode_rows
from training.fit.trainer import Trainer


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
    """Trains every variant with every seed.

    Args:
        names: of the variants, in their order.
        training: rows to learn from.
        validation: rows to measure on.
        seeds: runs of each network.
        epochs: of each run.
        accelerator: where the networks run.
        stop: asked after each step; the number of a signal ends the comparison.
        say: told in a line how each variant did.

    Raises:
        InterruptedComparisonError: `stop` said so.
        TrainingError: the rows cannot be used, or a run diverged.
    """

    def run(name: str, seed: int) -> tuple[int, Run]:
        """The parameters of a network, and how its run went."""
        recipe = VARIANTS[name].recipe(epochs=epochs, seed=seed)
        network, tokenizer = VARIANTS[name].begin(recipe, training)
        trainer = Trainer(
            network.to(accelerator.device),
            tokenizer,
            recipe,
            training=encode_rows(tokenizer, training),
            validation=encode_rows(tokenizer, validation),
            accelerator=accelerator,
            state_dir=None,
            identity={},
            measure_training=True,
            label=f"{name}, seed {seed}",
        )
        try:
            history = trainer.run(save_every=1, stop=stop, record=lambda _: None)
        except InterruptedRunError as error:
            raise InterruptedComparisonError(error.signal) from error
        last = history[-1]
        return sum(parameter.numel() for parameter in network.parameters()), Run(
            seed=seed,
            seconds=last.seconds,
            training=EvalResult(last.training_loss, last.training_accuracy),
            validation=EvalResult(last.validation_loss, last.validation_accuracy),
            history=tuple(history),
        )

    outcomes = []
    for name in names:
        if name == BASELINE:
            outcome = run_baseline(training, validation)
        else:
            (parameters, *_), runs = zip(*(run(name, seed) for seed in range(seeds)), strict=True)
            outcome = Outcome(name, VARIANTS[name].title, parameters, runs)
        outcomes.append(outcome)
        say(_summary(outcome))
        signal = stop()
        if signal is not None:
            raise InterruptedComparisonError(signal)
    return tuple(outcomes)


def _summary(outcome: Outcome) -> str:
    training = outcome.spread(lambda run: run.training.accuracy)
    validation = outcome.spread(lambda run: run.validation.accuracy)
    return (
        f"{outcome.name}: training accuracy {training.mean:.1%}, validation accuracy "
        f"{validation.mean:.1%}, {len(outcome.runs)} runs"
    )

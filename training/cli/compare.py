"""`headlight-train compare`: from labelled files to a report on networks trained side by side."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from model.files import sync
from training.cli.compare_options import ALL, BASELINE
from training.cli.shared_options import columns_of
from training.compare.baseline import check_baseline, run_baseline
from training.compare.comparison import Comparison, Outcome, Run, Source, to_json
from training.compare.plots import plot_curves, plot_gaps
from training.compare.report import CURVES, GAPS, to_markdown
from training.compare.variants import VARIANTS, Variant
from training.data.dataset import Dataset
from training.data.splits import read_and_split
from training.errors import InterruptedComparisonError, InterruptedRunError, RecipeError
from training.fit.recipe import load_recipe
from training.fit.rows import EvalResult, encode_rows
from training.fit.trainer import Trainer
from training.machine import Accelerator, choose_accelerator, describe
from training.signals import noted_signals

_REPORT, _FIGURES = "report.md", "comparison.json"
_FEWEST_SEEDS = 2


def run(arguments: argparse.Namespace) -> int:
    """Trains every variant with every seed, and writes the report.

    Args:
        arguments: as the parser of `compare_options.add_arguments` gives them.

    Returns:
        0.

    Raises:
        TrainingError: data or options cannot be used, or a signal came.
        model.errors.ModelError: the device cannot be used.
        OSError: the report cannot be written.
    """
    _check(arguments)
    # Networks so small gain nothing by 16 bits.
    accelerator = choose_accelerator(arguments.device, threads=arguments.threads, dtype="float32")
    recipe = load_recipe(
        "course",
        {"hold_out": arguments.hold_out, "validation_share": arguments.validation_share},
    )
    training, validation = read_and_split(
        arguments.files,
        arguments.validation,
        columns=columns_of(arguments),
        labels=arguments.labels,
        hold_out=recipe.hold_out,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
    if BASELINE in (arguments.variants or ALL):
        check_baseline(training)  # before the networks are trained
    outcomes = []
    with noted_signals() as stop:
        for name in arguments.variants or ALL:
            if name == BASELINE:
                outcome = run_baseline(training, validation)
            else:
                outcome = _run_variant(name, training, validation, arguments, accelerator, stop)
            outcomes.append(outcome)
            _say(_summary(outcome))
            signal = stop()
            if signal is not None:
                raise InterruptedComparisonError(signal)
    paths = [*arguments.files, *arguments.validation]
    sources = [*training.sources, *(validation.sources if arguments.validation else ())]
    comparison = Comparison(
        command=_command(arguments),
        machine=describe(accelerator.device),
        sources=tuple(
            Source(file=_shown(path), rows=source.rows, sha256=source.sha256)
            for path, source in zip(paths, sources, strict=True)
        ),
        hold_out="files" if arguments.validation else arguments.hold_out,
        training_rows=len(training),
        validation_rows=len(validation),
        epochs=arguments.epochs,
        outcomes=tuple(outcomes),
    )
    _write(arguments.output, comparison)
    _say(f"report: {arguments.output / _REPORT}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    chosen = arguments.variants or ALL
    unknown = [name for name in chosen if name not in ALL]
    if unknown:
        raise RecipeError(f"there is no variant {unknown[0]}: choose from {', '.join(ALL)}")
    if len(set(chosen)) < len(chosen):
        raise RecipeError("--variants names one twice: name each once")
    if arguments.seeds < _FEWEST_SEEDS:
        raise RecipeError(f"--seeds must be at least {_FEWEST_SEEDS}, got {arguments.seeds}")
    output: Path = arguments.output
    if output.exists() and not output.is_dir():
        raise RecipeError(f"{output} is a file: give the path of a folder")
    if output.exists() and any(output.iterdir()):
        if not (output / _FIGURES).is_file():
            raise RecipeError(f"{output} holds other files than a report: choose another --output")
        if not arguments.overwrite:
            raise RecipeError(
                f"{output} holds a report already: choose another --output, or --overwrite it"
            )


def _run_variant(
    name: str,
    training: Dataset,
    validation: Dataset,
    arguments: argparse.Namespace,
    accelerator: Accelerator,
    stop: Callable[[], int | None],
) -> Outcome:
    variant = VARIANTS[name]
    runs = []
    parameters = 0
    for seed in range(arguments.seeds):
        parameters, run = _run_once(
            variant,
            training,
            validation,
            seed=seed,
            epochs=arguments.epochs,
            accelerator=accelerator,
            stop=stop,
            label=f"{name}, seed {seed}",
        )
        runs.append(run)
    return Outcome(name=name, title=variant.title, parameters=parameters, runs=tuple(runs))


def _run_once(
    variant: Variant,
    training: Dataset,
    validation: Dataset,
    *,
    seed: int,
    epochs: int,
    accelerator: Accelerator,
    stop: Callable[[], int | None],
    label: str,
) -> tuple[int, Run]:
    """The parameters of the network, and how its run went."""
    recipe = variant.recipe(epochs=epochs, seed=seed)
    network, tokenizer = variant.begin(recipe, training)
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
        label=label,
    )
    try:
        history = trainer.run(save_every=1, stop=stop, record=lambda _: None)
    except InterruptedRunError as error:
        raise InterruptedComparisonError(error.signal) from error
    last = history[-1]
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return parameters, Run(
        seed=seed,
        seconds=last.seconds,
        training=EvalResult(last.training_loss, last.training_accuracy),
        validation=EvalResult(last.validation_loss, last.validation_accuracy),
        history=tuple(history),
    )


def _summary(outcome: Outcome) -> str:
    training = outcome.spread(lambda run: run.training.accuracy)
    validation = outcome.spread(lambda run: run.validation.accuracy)
    return (
        f"{outcome.name}: training accuracy {training.mean:.1%}, validation accuracy "
        f"{validation.mean:.1%}, {len(outcome.runs)} runs"
    )


def _command(arguments: argparse.Namespace) -> str:
    """The command line that repeats the comparison, without the folders of this machine."""
    words = ["headlight-train", "compare", *(_shown(path) for path in arguments.files)]
    for path in arguments.validation:
        words += ["--validation", _shown(path)]
    if not arguments.validation:
        words += ["--hold-out", arguments.hold_out]
        words += ["--validation-share", f"{arguments.validation_share:g}"]
    for option in ("text_column", "label_column"):
        if getattr(arguments, option) is not None:
            words += [f"--{option.replace('_', '-')}", getattr(arguments, option)]
    if arguments.labels is not None:
        words += ["--labels", ",".join(arguments.labels)]
    if arguments.variants is not None:
        words += ["--variants", ",".join(arguments.variants)]
    words += ["--seeds", str(arguments.seeds), "--epochs", str(arguments.epochs)]
    words += ["--output", arguments.output.name]
    return shlex.join(words)


def _shown(path: Path) -> str:
    """A file with its folder, and no more of where it lies."""
    return f"{path.resolve().parent.name}/{path.name}"


def _write(output: Path, comparison: Comparison) -> None:
    """Writes everything beside its place, then renames each file."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".part-") as scratch:
        fresh = Path(scratch)
        (fresh / _REPORT).write_text(to_markdown(comparison), encoding="utf-8")
        (fresh / _FIGURES).write_text(to_json(comparison), encoding="utf-8")
        plot_curves(comparison.outcomes, fresh / CURVES)
        plot_gaps(comparison.outcomes, fresh / GAPS)
        for path in sorted(fresh.iterdir()):
            sync(path)
            path.replace(output / path.name)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

"""Runs `headlight-train compare`: reads its options, trains the variants, writes the report."""

import argparse
import shlex

from model.cli.arguments import number, positive, whole
from model.cli.progress import say
from training.cli import options
from training.compare.variants import ALL
from training.device import choose_accelerator, describe
from training.errors import RecipeError
from training.fit.recipe import load_recipe

_FEWEST_SEEDS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    options.add_files(parser, "labelled text")
    options.add_output(parser, "where the report goes", "a report")
    parser.add_argument(
        "--variants",
        type=options.comma_separated,
        metavar="A,B",
        help=f"which ones, the first being what the others are set against: {', '.join(ALL)} "
        "(default: all)",
    )
    parser.add_argument(
        "--seeds",
        type=whole,
        default=5,
        metavar="N",
        help="runs of each network, with the seeds 0 to N - 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        default=10,
        metavar="N",
        help="passes over the training rows, the same for each (default: %(default)s)",
    )
    parser.add_argument(
        "--hold-out",
        choices=("last", "random"),
        default="last",
        help="which rows are for validation: the last ones, or some of each class by chance "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--validation-share",
        type=number,
        default=0.2,
        metavar="N",
        help="share of the rows to validate by, without --validation (default: %(default)s)",
    )
    options.add_validation(parser, "validate by")
    parser.set_defaults(validation=[])
    options.add_columns(parser)
    options.add_labels(parser)
    options.add_device(parser)


def run(arguments: argparse.Namespace) -> int:
    """Trains every variant with every seed, and writes the report."""
    # Imported only now: they take seconds, and __main__ needs only the options.
    from training.compare.report import REPORT, check_output, write_report
    from training.compare.run import Comparison, run_variants
    from training.data.validation_split import read_and_split

    _check(arguments)
    check_output(arguments.output, overwrite=arguments.overwrite)
    # Networks this small gain nothing from 16 bits.
    accelerator = choose_accelerator(arguments.device, threads=arguments.threads, dtype="float32")
    recipe = load_recipe(
        "course",
        {"validation_split": arguments.hold_out, "validation_share": arguments.validation_share},
    )
    training, validation = read_and_split(
        arguments.files,
        arguments.validation,
        columns=options.columns_of(arguments),
        labels=arguments.labels,
        which=recipe.validation_split,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
    outcomes = run_variants(
        arguments.variants or ALL,
        training,
        validation,
        seeds=arguments.seeds,
        epochs=arguments.epochs,
        accelerator=accelerator,
    )
    sources = [*training.sources, *(validation.sources if arguments.validation else ())]
    comparison = Comparison(
        command=shlex.join(["headlight-train", *arguments.typed]),
        machine=describe(accelerator.device),
        sources=tuple(sources),
        hold_out="files" if arguments.validation else arguments.hold_out,
        training_rows=len(training),
        validation_rows=len(validation),
        epochs=arguments.epochs,
        outcomes=outcomes,
    )
    write_report(arguments.output, comparison)
    say(f"report: {arguments.output / REPORT}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    chosen = arguments.variants or ALL
    unknown = [name for name in chosen if name not in ALL]
    if unknown:
        raise RecipeError(
            f"--variants: there is no variant {unknown[0]}: choose from {', '.join(ALL)}"
        )
    if len(set(chosen)) < len(chosen):
        raise RecipeError("--variants names a variant twice: name each once")
    if arguments.seeds < _FEWEST_SEEDS:
        raise RecipeError(f"--seeds must be at least {_FEWEST_SEEDS}, got {arguments.seeds}")

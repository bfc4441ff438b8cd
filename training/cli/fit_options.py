"""Defines the options of `headlight-train fit`, and finds what they name."""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from model.checkpoint.saving import check_place
from model.cli.arguments import number, positive, whole
from training.cli import options
from training.errors import RecipeError
from training.fit.recipe import Recipe, load_recipe, presets
from training.tracking.logs import Target, parse_target

STORE_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

_RECIPE_OPTIONS: tuple[tuple[str, Callable[[str], float], str], ...] = (
    ("epochs", whole, "passes over the training rows"),
    ("batch_size", whole, "texts of a step"),
    ("accumulate", whole, "passes that a step is divided into, to need less memory"),
    ("learning_rate", number, "the highest rate, at the end of the warm-up"),
    ("weight_decay", number, "of matrices"),
    ("warmup_share", number, "share of the steps in which the rate climbs"),
    ("max_grad_norm", number, "gradients are scaled down to this norm"),
    (
        "consistency",
        number,
        "weight of how far answers on perturbed texts diverge from those on the texts; doubles the "
        "time of a step",
    ),
    ("label_smoothing", number, "share of the target that goes to all classes alike"),
    ("dropout", number, "after embeddings and sublayers"),
    ("max_length", whole, "the most tokens of a text"),
    ("validation_share", number, "share of the rows to validate by, without --validation"),
    ("patience", whole, "epochs without a better validation loss until the run stops"),
    ("seed", whole, "of everything random"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `headlight-train fit`."""
    options.add_files(parser, "labelled text to learn from", hub=True)
    options.add_output(parser, "the checkpoint to write", "a checkpoint or an interrupted run")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"{', '.join(presets())}, or a TOML file (default: small; finetune with --init-from)",
    )
    parser.add_argument(
        "--init-from",
        type=Path,
        metavar="DIR",
        help="begin with a pretrained BERT-family folder, or hf:NAME@REVISION",
    )
    options.add_columns(parser)
    options.add_labels(parser)
    options.add_validation(parser, "choose the best epoch and the temperature by")
    parser.add_argument(
        "--evaluate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to measure in the end, only for the record; may be repeated",
    )
    for name, kind, text in _RECIPE_OPTIONS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, metavar="N", help=f"{text} ({_default(name)})")
    _add_run_arguments(parser)


def _default(field: str) -> str:
    """Returns the value of a field in each preset, the default presets first."""
    chosen = ("small", "finetune")
    names = (*chosen, *(name for name in presets() if name not in chosen))
    texts = {}
    for name in names:
        recipe = load_recipe(name, {})
        value = getattr(recipe, field)
        texts[name] = f"{value:g}" if isinstance(value, float) else str(value)
        if recipe.is_open(field):
            texts[name] = "by the rows"
    if len(set(texts.values())) == 1:
        return f"default: {texts['small']}"
    return "default: " + ", ".join(f"{name} {text}" for name, text in texts.items())


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-dtype",
        choices=tuple(STORE_DTYPES),
        default="float32",
        help="what the weights are stored in (default: %(default)s)",
    )
    options.add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of matrix products; auto: bfloat16 where the processor has it (default: auto)",
    )
    parser.add_argument(
        "--class-weights",
        choices=("none", "balanced"),
        help="balanced: rare classes count as much as frequent ones (default: none)",
    )
    parser.add_argument(
        "--rank-timeout",
        type=positive,
        default=600,
        metavar="SECONDS",
        help="how long processes of torchrun wait for each other (default: %(default)s)",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="where history and the state of the run go (default: the output with .run)",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="resume the interrupted run of this output"
    )
    parser.add_argument(
        "--log-to",
        type=_target,
        action="append",
        default=[],
        metavar="TARGET",
        help="log losses, accuracy, rate, recipe and figures to tensorboard:DIR or mlflow:URI; may "
        "be repeated",
    )


def _target(text: str) -> Target:
    try:
        return parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """Loads the preset that a command line names, changed by its options."""
    names = (*(name for name, _, _ in _RECIPE_OPTIONS), "class_weights")
    values = {name: getattr(arguments, name) for name in names}
    typed = {name: value for name, value in values.items() if value is not None}
    return load_recipe(arguments.preset or ("finetune" if arguments.init_from else "small"), typed)


def choose_run_dir(arguments: argparse.Namespace) -> Path:
    """Returns the folder of history and state; keeps a checkpoint without `--overwrite`."""
    output: Path = arguments.output
    check_place(output)
    if output.exists() and any(output.iterdir()) and not arguments.overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")
    resolved = output.resolve()
    run_dir: Path = arguments.run_dir or resolved.with_name(f"{resolved.name}.run")
    if resolved in (run_dir.resolve(), *run_dir.resolve().parents):
        raise RecipeError(
            f"--run-dir {run_dir} lies in the checkpoint {output}, which is written as a whole: "
            "choose a folder elsewhere"
        )
    return run_dir

"""Defines the options that change a recipe, of the commands that train."""

import argparse
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from model.cli.arguments import number, whole
from training.fit.recipe import Recipe, load_recipe, presets


def option_of(name: str) -> str:
    """Returns the option that sets a field of a recipe."""
    return f"--{name.replace('_', '-')}"


RECIPE_OPTIONS: tuple[tuple[str, Callable[[str], float], str], ...] = (
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
        "weight of how far answers on disturbed texts diverge from those on the texts; doubles the "
        "time of a step",
    ),
    ("label_smoothing", number, "share of the target that goes to all classes alike"),
    ("dropout", number, "after embeddings and sublayers"),
    ("max_length", whole, "the most tokens of a text"),
    ("validation_share", number, "share of the rows held out, without --validation"),
    ("patience", whole, "epochs without a better validation loss until the run stops"),
    ("seed", whole, "of everything random"),
)
RECIPE_FIELDS = (*(name for name, _, _ in RECIPE_OPTIONS), "class_weights")
_ANY_NETWORK = {"max_length", "validation_share", "seed"}
# What was chosen for random weights does not fit pretrained ones.
PRETRAINED_DECIDES = frozenset(
    ["--preset", *(option_of(name) for name, _, _ in RECIPE_OPTIONS if name not in _ANY_NETWORK)]
)


def add_recipe_arguments(parser: argparse.ArgumentParser, *, several: Collection[str] = ()) -> None:
    """Adds the options that set numbers of a recipe.

    Args:
        parser: of the command.
        several: fields whose options take several values, with commas between them.
    """
    for name, kind, text in RECIPE_OPTIONS:
        parser.add_argument(
            option_of(name),
            type=_several(kind) if name in several else kind,
            metavar="N,N" if name in several else "N",
            help=f"{text} ({_default(name)})",
        )


def _several(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    def parse(text: str) -> tuple[float, ...]:
        return tuple(dict.fromkeys(kind(part.strip()) for part in text.split(",")))

    return parse


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the preset and the weights to begin with."""
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


def add_class_weights(parser: argparse.ArgumentParser) -> None:
    """Adds the option that lets rare classes count."""
    parser.add_argument(
        "--class-weights",
        choices=("none", "balanced"),
        help="balanced: rare classes count as much as frequent ones (default: none)",
    )


def _default(field: str) -> str:
    """Tells the value of a field in each preset, those that are chosen by themselves first."""
    chosen = ("small", "finetune")
    names = (*chosen, *(name for name in presets() if name not in chosen))
    values = {name: _told(getattr(load_recipe(name, {}), field)) for name in names}
    if len(set(values.values())) == 1:
        return f"default: {values['small']}"
    return "default: " + ", ".join(f"{name} {value}" for name, value in values.items())


def _told(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """Loads the preset that a command line names, changed by its options.

    Raises:
        RecipeError: there is no such preset, or a value does not fit.
    """
    return load_recipe(preset_of(arguments), given_of(arguments, RECIPE_FIELDS))


def preset_of(arguments: argparse.Namespace) -> str:
    """Returns the name of the preset that a command line asks for."""
    return arguments.preset or ("finetune" if arguments.init_from else "small")


def given_of(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, object]:
    """Returns the options that were typed, of those with these names."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}

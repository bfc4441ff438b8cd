"""Defines the options of `headlight-train fit` and checks them: recipe, run folder, plan."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from model.arguments import number, positive, whole
from model.saving import check_place
from training.cli.shared_options import add_columns, add_device, add_files, add_labels
from training.errors import RecipeError
from training.fit.recipe import Recipe, load_recipe, presets

STORE_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
_RECIPE_FIELDS = (*(name for name, _, _ in _RECIPE_OPTIONS), "class_weights")
_ANY_NETWORK = {"max_length", "validation_share", "seed"}
# What was chosen for random weights does not fit pretrained ones.
PRETRAINED_DECIDES = frozenset(
    ["--preset", *(_option(name) for name, _, _ in _RECIPE_OPTIONS if name not in _ANY_NETWORK)]
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    add_files(parser, "labelled text to learn from", optional=True, hub=True)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="the checkpoint to write"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a checkpoint or an interrupted run that is there already",
    )
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
    _add_plan_arguments(parser)
    _add_data_arguments(parser)
    for name, kind, text in _RECIPE_OPTIONS:
        parser.add_argument(
            _option(name), type=kind, metavar="N", help=f"{text} ({_default(name)})"
        )
    _add_run_arguments(parser)


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


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="several stages over sources of their own, instead of files and a preset",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder that the sources of a plan lie in"
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        metavar="DIR",
        help="the pretrained MPNet folder of a plan's teacher",
    )


def _add_data_arguments(parser: argparse.ArgumentParser) -> None:
    add_columns(parser)
    add_labels(parser)
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        metavar="FILE",
        help="labelled text to choose the best epoch and the temperature by; may be repeated",
    )
    parser.add_argument(
        "--evaluate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to measure in the end, for the record alone; may be repeated",
    )


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-dtype",
        choices=tuple(STORE_DTYPES),
        default="float32",
        help="what the weights are stored in (default: %(default)s)",
    )
    add_device(parser)
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
        help="where history, plot and the state of the run go (default: the output with .run)",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the interrupted run of this output"
    )
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="keep the state of a run that has ended, for --extend; four times its weights or less",
    )
    parser.add_argument(
        "--extend",
        type=positive,
        metavar="EPOCHS",
        help="train the ended run of this output for more epochs, and replace its checkpoint",
    )


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """Loads the preset that a command line names, changed by its options.

    Raises:
        RecipeError: there is no such preset, or a value does not fit.
    """
    preset = arguments.preset or ("finetune" if arguments.init_from else "small")
    return load_recipe(preset, _given(arguments, _RECIPE_FIELDS))


def refuse_beside_plan(arguments: argparse.Namespace) -> None:
    """Refuses options that a plan sets itself.

    Raises:
        RecipeError: one of these options is given.
    """
    if arguments.files:
        raise RecipeError(
            f"--plan names its files itself: leave out {arguments.files[0]}, or leave out --plan"
        )
    if arguments.extend is not None:
        raise RecipeError(
            "--extend is for one run, and a --plan has several: leave one of them out"
        )
    own = ["preset", "validation", "labels", *_RECIPE_FIELDS]
    given = [_option(name) for name in _given(arguments, own)]
    if given:
        raise RecipeError(
            f"the plan decides what {' and '.join(given)} would: change it there, or leave out "
            "--plan"
        )


def place_run(arguments: argparse.Namespace) -> Path:
    """Chooses the folder of the run, and refuses to replace a checkpoint without `--overwrite`.

    Returns:
        The folder of the run: history, plot and state.

    Raises:
        RecipeError: something is there already, or the folder of the run lies in the checkpoint.
        model.errors.CheckpointError: something else than a checkpoint is there.
    """
    output: Path = arguments.output
    check_place(output)
    if output.exists() and any(output.iterdir()) and not arguments.overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")
    place = output.resolve()
    run_dir: Path = arguments.run_dir or place.with_name(f"{place.name}.run")
    if place in (run_dir.resolve(), *run_dir.resolve().parents):
        raise RecipeError(
            f"--run-dir {run_dir} lies in the checkpoint {output}, which is written as a whole: "
            "choose a folder elsewhere"
        )
    return run_dir


def _given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, object]:
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}

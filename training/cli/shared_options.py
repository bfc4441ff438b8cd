"""Defines options that several subcommands share, and rewrites commands that were typed."""

import argparse
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from model.cli.arguments import add_no_header, add_spelling, number, positive, whole
from model.tables.columns import Columns
from training.errors import RecipeError
from training.fit.recipe import Recipe, load_recipe, presets
from training.tracking.logs import Target, parse_target

_FORMATS = "CSV, TSV, text, JSON (each also packed), .xlsx or Parquet"
_FEWEST_FOLDS = 2
_WITHOUT_FOLDS = {
    "plan": "trains one network for all of its sources",
    "validation": "names the rows to validate by, and folds are made of the rows that are there",
    "extend": "continues one run",
}

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
        "weight of how far answers on perturbed texts diverge from those on the texts; doubles the "
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
# A search changes all but these: the rows and their division must be the same in all trials.
FIXED_FIELDS = ("validation_share", "seed", "class_weights")
TRIED_FIELDS = tuple(name for name in RECIPE_FIELDS if name not in FIXED_FIELDS)
_FOR_ANY_NETWORK = {"max_length", "validation_share", "seed"}


def option_name(field: str) -> str:
    """Returns the option that sets a field of a recipe."""
    return f"--{field.replace('_', '-')}"


# What was chosen for random weights does not fit pretrained ones.
PRETRAINED_DECIDES = frozenset(
    [
        "--preset",
        *(option_name(name) for name, _, _ in RECIPE_OPTIONS if name not in _FOR_ANY_NETWORK),
    ]
)


def add_files(
    parser: argparse.ArgumentParser, text: str, *, optional: bool = False, hub: bool = False
) -> None:
    """Adds the files of labelled text; with `hub` they may be names of data sets."""
    parser.add_argument(
        "files",
        nargs="*" if optional else "+",
        type=Path,
        metavar="FILE",
        help=f"{text}: {_FORMATS}{', or hf:NAME@REVISION:SPLIT' if hub else ''}",
    )


def add_output(parser: argparse.ArgumentParser, text: str, replaced: str) -> None:
    """Adds the folder to write, and whether it may replace what is there."""
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help=text)
    parser.add_argument(
        "--overwrite", action="store_true", help=f"replace {replaced} that is there already"
    )


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the columns of the files."""
    for column in ("text", "label"):
        parser.add_argument(
            f"--{column}-column",
            metavar="NAME",
            help=f"the column of {column}s (default: known by its name)",
        )
    add_spelling(parser)
    add_no_header(parser)
    parser.add_argument(
        "--stars-to-sentiment",
        action="store_true",
        help="read stars as labels: 1 and 2 negative, 3 neutral, 4 and 5 positive",
    )
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="go on without bad rows, and count them",
    )


def columns_of(arguments: argparse.Namespace) -> Columns:
    """Returns the columns that the options of `add_columns` name."""
    return Columns(
        text=arguments.text_column,
        label=arguments.label_column,
        delimiter=arguments.delimiter,
        encoding=arguments.encoding,
        header=not arguments.no_header,
        stars=arguments.stars_to_sentiment,
        skip_bad=arguments.skip_bad_rows,
    )


def add_labels(
    parser: argparse.ArgumentParser,
    help_text: str = "names of the classes in the order of their numbers (default: from the files)",
) -> None:
    """Adds the option that names the classes of the files, in their order."""
    parser.add_argument("--labels", type=comma_separated, metavar="A,B", help=help_text)


def comma_separated(text: str) -> tuple[str, ...]:
    """Splits an option's value at its commas."""
    return tuple(name.strip() for name in text.split(","))


def add_validation(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Adds the files to validate by."""
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        metavar="FILE",
        help=f"labelled text to {purpose}; may be repeated",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where to compute."""
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads to compute with (default: the CPU quota, or the cores)",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds the type of matrix products."""
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of matrix products; auto: bfloat16 where the processor has it (default: auto)",
    )


def add_save_every(parser: argparse.ArgumentParser) -> None:
    """Adds how often a state is saved."""
    parser.add_argument(
        "--save-every",
        type=positive,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )


def add_log_to(parser: argparse.ArgumentParser) -> None:
    """Adds the option that logs runs to trackers."""
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


def add_recipe_arguments(parser: argparse.ArgumentParser, *, several: Collection[str] = ()) -> None:
    """Adds the options that set numbers of a recipe; those in `several` take lists of numbers."""
    for name, kind, text in RECIPE_OPTIONS:
        parser.add_argument(
            option_name(name),
            type=_several(kind) if name in several else kind,
            metavar="N,N" if name in several else "N",
            help=f"{text} ({_default(name)})",
        )


def _several(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    def parse(text: str) -> tuple[float, ...]:
        return tuple(dict.fromkeys(kind(part.strip()) for part in text.split(",")))

    return parse


def _default(field: str) -> str:
    """Returns the value of a field in each preset, the default presets first."""
    chosen = ("small", "finetune")
    names = (*chosen, *(name for name in presets() if name not in chosen))
    values = {name: getattr(load_recipe(name, {}), field) for name in names}
    texts = {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
    }
    if len(set(texts.values())) == 1:
        return f"default: {texts['small']}"
    return "default: " + ", ".join(f"{name} {text}" for name, text in texts.items())


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the preset and the first weights."""
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
    """Adds the option that weights rare classes."""
    parser.add_argument(
        "--class-weights",
        choices=("none", "balanced"),
        help="balanced: rare classes count as much as frequent ones (default: none)",
    )


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """Loads the preset that a command line names, changed by its options."""
    return load_recipe(preset_of(arguments), typed_options(arguments, RECIPE_FIELDS))


def preset_of(arguments: argparse.Namespace) -> str:
    """Returns the name of the preset that a command line asks for."""
    return arguments.preset or ("finetune" if arguments.init_from else "small")


def typed_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, object]:
    """Returns the options with these names that the user typed."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def check_folds(arguments: argparse.Namespace, *, processes: int) -> None:
    """Rejects folds that make no sense, or not together with other options."""
    if arguments.folds is None:
        return
    if arguments.folds < _FEWEST_FOLDS:
        raise RecipeError(f"--folds must be at least {_FEWEST_FOLDS}, got {arguments.folds}")
    for name, reason in _WITHOUT_FOLDS.items():
        if getattr(arguments, name, None) is not None:
            raise RecipeError(f"--{name} {reason}: leave it out, or leave out --folds")
    if processes > 1:
        raise RecipeError(
            f"--folds trains one network after the other in one process, and torchrun has started "
            f"{processes}: start this command without torchrun, or leave out --folds"
        )


def changed_command(
    typed: Sequence[str],
    *,
    without: Collection[str],
    added: Sequence[str],
    command: str | None = None,
) -> str:
    """Changes a command that the user typed, into one line for a shell.

    Args:
        without: options to leave out, each with its value; `--resume` and `--overwrite` always are.
        command: the subcommand to use instead of the first word; None: the same.
    """
    words = []
    rest = iter(typed if command is None else [command, *typed[1:]])
    for word in rest:
        option, equals, _ = word.partition("=")
        if option in without:
            if not equals:
                next(rest, None)
        elif word not in ("--resume", "--overwrite"):
            words.append(word)
    return shlex.join([*_program(), *words, *added])


def _program() -> list[str]:
    path = Path(sys.argv[0])
    if path.parts[-2:] == ("training", "__main__.py"):
        return ["python", "-m", "training"]
    return [sys.argv[0] if path.name == "headlight-train" else "headlight-train"]

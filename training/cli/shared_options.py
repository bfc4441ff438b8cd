"""Defines options that several subcommands of `headlight-train` share."""

import argparse
from pathlib import Path

from model.cli.arguments import positive
from training.data.readers import Columns
from training.tracking.targets import Target, parse_target

_TABS = {"tab": "\t", "\\t": "\t"}
_NO_DELIMITERS = "\"' \r\n"
_FORMATS = "TSV, CSV, JSON Lines (each also .gz) or Parquet"


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


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the columns of the files."""
    for column in ("text", "label"):
        parser.add_argument(
            f"--{column}-column",
            metavar="NAME",
            help=f"the column of {column}s (default: known by its name)",
        )
    parser.add_argument(
        "--delimiter",
        type=delimiter,
        default=",",
        metavar="CHARACTER",
        help="what separates the columns of a CSV file, such as ';' or tab (default: %(default)s)",
    )


def columns_of(arguments: argparse.Namespace) -> Columns:
    """Returns the columns that the options of `add_columns` name."""
    return Columns(
        text=arguments.text_column,
        label=arguments.label_column,
        delimiter=arguments.delimiter,
    )


def delimiter(text: str) -> str:
    """Parses the value of an option as what separates the columns of a CSV file.

    Raises:
        argparse.ArgumentTypeError: the value is no single character, or one that texts are made
            of.
    """
    found = _TABS.get(text, text)
    if len(found) != 1 or found.isalnum() or found in _NO_DELIMITERS:
        raise argparse.ArgumentTypeError(
            f"must be one character such as ';', or tab, and no letter, digit or quote, got "
            f"{text!r}"
        )
    return found


def add_labels(
    parser: argparse.ArgumentParser,
    told: str = "names of the classes in the order of their numbers (default: from the files)",
) -> None:
    """Adds the option that names the classes of the files, in their order."""
    parser.add_argument("--labels", type=names, metavar="A,B", help=told)


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


def names(text: str) -> tuple[str, ...]:
    """Splits an option's value at its commas."""
    return tuple(name.strip() for name in text.split(","))

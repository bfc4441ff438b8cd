"""Options that several subcommands of `headlight-train` have."""

import argparse
from pathlib import Path

from model.arguments import positive
from training.data.readers import Columns

_FORMATS = "TSV, CSV, JSON Lines (each also .gz) or Parquet"


def add_files(parser: argparse.ArgumentParser, text: str, *, optional: bool = False) -> None:
    """The files of labelled text.

    Args:
        parser: of the subcommand.
        text: what the files are.
        optional: whether there may be none.
    """
    parser.add_argument(
        "files",
        nargs="*" if optional else "+",
        type=Path,
        metavar="FILE",
        help=f"{text}: {_FORMATS}",
    )


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Which columns of the files hold what.

    Args:
        parser: of the subcommand.
    """
    for column in ("text", "label"):
        parser.add_argument(
            f"--{column}-column",
            metavar="NAME",
            help=f"the column of {column}s (default: known by its name)",
        )


def columns_of(arguments: argparse.Namespace) -> Columns:
    """Which columns of the files hold what, as the options of `add_columns` say."""
    return Columns(text=arguments.text_column, label=arguments.label_column)


def add_labels(parser: argparse.ArgumentParser) -> None:
    """The order of the classes.

    Args:
        parser: of the subcommand.
    """
    parser.add_argument(
        "--labels",
        type=names,
        metavar="A,B",
        help="names of the classes in the order of their numbers (default: from the files)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where to compute.

    Args:
        parser: of the subcommand.
    """
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads to compute with (default: the CPU quota, or the cores)",
    )


def names(text: str) -> tuple[str, ...]:
    """An option's value that is a list of names, with commas between them."""
    return tuple(name.strip() for name in text.split(","))

"""Defines the options that several subcommands share."""

import argparse
from pathlib import Path

from model.cli.arguments import add_no_header, add_spelling, positive
from model.tables.columns import Columns

_FORMATS = "CSV, TSV, text, JSON (each also packed), .xlsx or Parquet"


def add_files(parser: argparse.ArgumentParser, text: str, *, hub: bool = False) -> None:
    """Adds the files of labelled text; with `hub` they may be names of data sets."""
    parser.add_argument(
        "files",
        nargs="+",
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
        "--skip-bad-rows", action="store_true", help="go on without bad rows, and count them"
    )


def columns_of(arguments: argparse.Namespace) -> Columns:
    """Returns the columns that the options of `add_columns` name."""
    return Columns(
        text=arguments.text_column,
        label=arguments.label_column,
        delimiter=arguments.delimiter,
        encoding=arguments.encoding,
        sheet=arguments.sheet,
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

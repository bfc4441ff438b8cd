"""The options of `headlight-train compare`."""

import argparse
from pathlib import Path

from model.arguments import positive
from training.cli.shared_options import add_columns, add_device, add_files, add_labels, names
from training.compare.variants import VARIANTS

BASELINE = "tf-idf"
ALL = (*VARIANTS, BASELINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command.

    Args:
        parser: of the subcommand.
    """
    add_files(parser, "labelled text of two classes")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="where the report goes"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a report that is there already"
    )
    parser.add_argument(
        "--variants",
        type=names,
        metavar="A,B",
        help=f"which ones, the first being what the others are set against: {', '.join(ALL)} "
        "(default: all)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
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
        type=float,
        default=0.2,
        metavar="N",
        help="share of the rows held out, without --validation (default: %(default)s)",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to validate by; may be repeated",
    )
    add_columns(parser)
    add_labels(parser)
    add_device(parser)

"""The options of `headlight-train compare`."""

import argparse
from pathlib import Path

from training.variants import VARIANTS

BASELINE = "tf-idf"
ALL = (*VARIANTS, BASELINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command.

    Args:
        parser: of the subcommand.
    """
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="labelled text of two classes: TSV, CSV, JSON Lines (each also .gz) or Parquet",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="where the report goes"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a report that is there already"
    )
    parser.add_argument(
        "--variants",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
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
        type=int,
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
    parser.add_argument("--text-column", metavar="NAME", help="the column of texts")
    parser.add_argument("--label-column", metavar="NAME", help="the column of labels")
    parser.add_argument(
        "--labels",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        metavar="A,B",
        help="names of the classes in the order of their numbers (default: from the files)",
    )
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads (default: the CPU quota, or the cores)"
    )

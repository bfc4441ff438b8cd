"""The options of `headlight-train evaluate`."""

import argparse
from pathlib import Path

from training.inference import MAX_BATCH_TOKENS


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
        help="labelled text: TSV, CSV, JSON Lines (each also .gz) or Parquet",
    )
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="the checkpoint folder"
    )
    parser.add_argument(
        "--text-column", metavar="NAME", help="the column of texts (default: known by its name)"
    )
    parser.add_argument(
        "--label-column", metavar="NAME", help="the column of labels (default: known by its name)"
    )
    parser.add_argument(
        "--max-batch-tokens",
        type=_positive,
        default=MAX_BATCH_TOKENS,
        metavar="N",
        help="the most tokens in a batch, padding counted (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "int8", "auto"),
        default="float32",
        help="what the network computes in; auto: bfloat16 where the processor has it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=_positive,
        metavar="N",
        help="threads of the forward pass (default: the CPU quota, or the cores)",
    )
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="also write the figures as JSON; - writes them to standard output, and the readable "
        "ones to standard error",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="also draw how far the scores can be trusted, as PNG or SVG",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask sentences of known label, and texts of the files with something changed",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)

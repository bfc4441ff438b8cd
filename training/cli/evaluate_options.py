"""The options of `headlight-train evaluate`."""

import argparse
from pathlib import Path

from model.arguments import positive
from training.cli.shared_options import add_columns, add_device, add_files
from training.data.batches import MAX_BATCH_TOKENS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command.

    Args:
        parser: of the subcommand.
    """
    add_files(parser, "labelled text")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="the checkpoint folder"
    )
    add_columns(parser)
    parser.add_argument(
        "--max-batch-tokens",
        type=positive,
        default=MAX_BATCH_TOKENS,
        metavar="N",
        help="the most tokens in a batch, padding counted (default: %(default)s)",
    )
    add_device(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "int8", "auto"),
        default="float32",
        help="what the network computes in; auto: bfloat16 where the processor has it "
        "(default: %(default)s)",
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

"""Runs `headlight-train verify`: checks that a key's owner signed a checkpoint as it is."""

import argparse
from pathlib import Path

from model.cli.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the checkpoint folder")
    parser.add_argument(
        "--key",
        type=Path,
        required=True,
        metavar="PUBLIC.pem",
        help="the public key, in PEM form",
    )


def run(arguments: argparse.Namespace) -> int:
    """Verifies the signature of a checkpoint folder; opens none of its files otherwise.

    Raises:
        ModuleNotFoundError: the extra `signing` is not installed.
        model.errors.ModelError: the signature is not right, or the key cannot verify.
    """
    # Imported only now: it needs an extra.
    from model.checkpoint.signing import verify_checkpoint

    verify_checkpoint(arguments.checkpoint, arguments.key)
    say(f"{arguments.checkpoint}: signed by the key {arguments.key}, and unchanged since")
    return 0

"""Runs `headlight-train sign`: signs a checkpoint that opens, with a private key."""

import argparse
from pathlib import Path

from model.checkpoint.opening import open_checkpoint
from model.cli.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the checkpoint folder")
    parser.add_argument(
        "--key",
        type=Path,
        required=True,
        metavar="PRIVATE.pem",
        help="the private key: an elliptic-curve key in PEM form, without a password",
    )


def run(arguments: argparse.Namespace) -> int:
    """Signs every file of a checkpoint folder.

    Raises:
        ModuleNotFoundError: the extra `signing` is not installed.
        model.errors.ModelError: the folder is no checkpoint, or the key cannot sign.
    """
    # Imported only now: it needs an extra.
    from model.checkpoint.signing import sign_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    signature = sign_checkpoint(arguments.checkpoint, arguments.key)
    say(f"signed version {checkpoint.version}: {signature}")
    return 0

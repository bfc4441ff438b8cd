"""Runs `headlight-train sign` and `verify`: signs a checkpoint, and checks who signed it."""

import argparse
from collections.abc import Callable
from pathlib import Path

from model.cli.progress import say


def add_sign_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `sign`."""
    key = "the private key: an elliptic-curve key in PEM form, without a password"
    _add_arguments(parser, sign, "PRIVATE.pem", key)


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `verify`."""
    _add_arguments(parser, verify, "PUBLIC.pem", "the public key, in PEM form")


def _add_arguments(
    parser: argparse.ArgumentParser,
    action: Callable[[Path, Path], None],
    metavar: str,
    help_text: str,
) -> None:
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the checkpoint folder")
    parser.add_argument("--key", type=Path, required=True, metavar=metavar, help=help_text)
    parser.set_defaults(action=action)


def run(arguments: argparse.Namespace) -> int:
    """Signs or verifies a checkpoint folder."""
    arguments.action(arguments.checkpoint, arguments.key)
    return 0


def sign(folder: Path, key: Path) -> None:
    """Signs every file of a checkpoint that opens."""
    # Imported only now: it needs an extra.
    from model.checkpoint.opening import open_checkpoint
    from model.checkpoint.signing import sign_checkpoint

    checkpoint = open_checkpoint(folder, trial=True)
    say(f"signed version {checkpoint.version}: {sign_checkpoint(folder, key)}")


def verify(folder: Path, key: Path) -> None:
    """Verifies the signature of a folder; opens none of its files otherwise."""
    from model.checkpoint.signing import verify_checkpoint

    verify_checkpoint(folder, key)
    say(f"{folder}: signed by the key {key}, and unchanged since")

"""Runs `headlight-train fetch`: downloads a checkpoint folder by its name on the hub."""

import argparse
from functools import partial
from pathlib import Path

from model.cli.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "name", metavar="NAME", help="the name on the hub, such as organisation/name"
    )
    parser.add_argument(
        "--revision", metavar="REVISION", help="a branch, a tag or a commit (default: main)"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="the folder to make"
    )
    parser.add_argument(
        "--encoder",
        action="store_true",
        help="accept a pretrained encoder without a classifier, for fit --init-from",
    )


def run(arguments: argparse.Namespace) -> int:
    """Downloads and checks a folder, and prints its commit."""
    from model.checkpoint.hub import parse
    from model.checkpoint.opening import open_checkpoint
    from training.data.hub import fetch

    name, revision = arguments.name, arguments.revision
    reference = parse(name if revision is None else f"{name}@{revision}")
    check = _accept if arguments.encoder else partial(open_checkpoint, trial=True)
    commit = fetch(reference, arguments.output, check=check)
    say(f"{reference} is commit {commit}")
    say(f"checkpoint: {arguments.output}")
    return 0


def _accept(folder: Path) -> None:
    """Checks an encoder as `fit --init-from` does."""
    from training.fit.initial import init_from_pretrained
    from training.fit.recipe import load_recipe

    init_from_pretrained(load_recipe("finetune", {}), folder, ("first", "second"))

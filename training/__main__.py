"""Runs `headlight-train`, which trains, measures, fetches and signs checkpoints."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from model.arguments import LineParser, add_version
from model.errors import ModelError
from training.cli import compare, evaluate, fetch, fit_options, sign, verify
from training.errors import InterruptedComparisonError, InterruptedRunError, TrainingError

# Who needs a package, and the extras that bring it. Every other package is of `train`.
_EXTRAS = {
    "transformers": ("the teacher of a plan needs and serving does not", "train,teacher"),
    "model_signing": ("signatures need", "signing"),
    "cryptography": ("signatures need", "signing"),
    "OpenSSL": ("signatures need", "signing"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked, 1 if not, with the reason on stderr, and 128 plus the number of a signal
        that interrupted it.
    """
    given = _parser().parse_args(arguments)
    given.typed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Imported only now: scikit-learn and matplotlib take seconds.
        code: int = importlib.import_module(given.module).run(given)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"model", "training"}:
            raise
        needed, extras = _EXTRAS.get(package, ("training needs and serving does not", "train"))
        return _refuse(
            f"{error.name} is not installed, which {needed}: "
            f".venv/bin/pip install --constraint constraints.txt --editable '.[{extras}]'",
            1,
        )
    except (InterruptedRunError, InterruptedComparisonError) as error:
        return _refuse(str(error), 128 + error.signal)
    except (TrainingError, ModelError) as error:
        return _refuse(str(error), 1)
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return _refuse(f"{place}{error.strerror or error}", 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    return code


def _refuse(message: str, code: int) -> int:
    print(f"headlight-train: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = LineParser(
        prog="headlight-train",
        description="Trains a sentiment classifier on your own labelled text, and measures it.",
        allow_abbrev=False,
    )
    add_version(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, options, module, text in (
        ("fit", fit_options, "training.cli.fit", "train a checkpoint on labelled files"),
        ("evaluate", evaluate, "training.cli.evaluate", "measure a checkpoint on labelled files"),
        (
            "compare",
            compare,
            "training.cli.compare",
            "train variants of the network side by side and report on them",
        ),
        ("fetch", fetch, "training.cli.fetch", "download a checkpoint by its name on the hub"),
        ("sign", sign, "training.cli.sign", "sign a checkpoint with a private key"),
        ("verify", verify, "training.cli.verify", "check who signed a checkpoint"),
    ):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        options.add_arguments(command)
        command.set_defaults(module=module)
    return parser


if __name__ == "__main__":
    sys.exit(main())

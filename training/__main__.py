"""Runs `headlight-train`, which trains, measures and fetches checkpoints."""

import argparse
import atexit
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn

from model.cli.arguments import LineParser, add_version
from model.cli.process import prepare_process
from model.cli.signals import Interruption, raised_signals
from model.errors import ModelError, install_hint
from training.errors import TrainingError

# What needs a package, and the extras that bring it; every other package is in `train`.
_FIT = "training.cli.fit"
_EXTRAS = {
    "torch": ("training needs", "train"),
    "tabulate": ("training needs and serving does not", "train"),
    "tensorboard": ("--log-to tensorboard needs", "train,tensorboard"),
    "mlflow": ("--log-to mlflow needs", "train,mlflow"),
    "sqlalchemy": ("--log-to mlflow needs for a database", "train,mlflow"),
    "alembic": ("--log-to mlflow needs for a database", "train,mlflow"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns the status, and says on stderr why it is not 0.

    It is 1 for an error, and 128 plus the number of a signal that interrupted the command.
    """
    prepare_process()
    with raised_signals(lambda: "interrupted: run the same command again"):
        return _reported(sys.argv[1:] if arguments is None else arguments)


def _reported(arguments: Sequence[str]) -> int:
    """Runs the command, and reports what ends it in one line."""
    try:
        parsed = _parser().parse_args(arguments)
        parsed.typed = list(arguments)
        return _run(parsed)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"model", "training"}:
            raise
        needed, extras = _EXTRAS.get(package, ("training needs and serving does not", "train"))
        return _report(f"{error.name} is not installed, which {needed}: {install_hint(extras)}", 1)
    except Interruption as error:
        return _report(str(error), 128 + error.signal)
    except (TrainingError, ModelError) as error:
        return _report(str(error), 1)
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        return _report(f"{name}{error.strerror or error}", 1)


def end_with_main() -> NoReturn:
    """Runs the command of this process's arguments, and ends the process with its status.

    One of several processes ends without the teardown of the interpreter. DistributedDataParallel
    of torch 2.13 keeps gloo's threads alive, and such a thread aborts the process if it frees a
    tensor during the teardown.
    """
    status = main()
    if not _is_single_process():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _is_single_process() -> bool:
    """Whether nothing like torchrun has started this process."""
    return (
        os.environ.get("WORLD_SIZE", "1") == "1" and "TORCHELASTIC_RESTART_COUNT" not in os.environ
    )


def _run(arguments: argparse.Namespace) -> int:
    """Runs the command, among the processes that torchrun may have started."""
    module = importlib.import_module(arguments.module)
    if _is_single_process():
        return int(module.run(arguments))
    from training.distributed import is_lost, joined

    if arguments.module != _FIT:
        raise TrainingError(
            "only fit runs on several processes: start this command without torchrun"
        )
    try:
        with (
            joined(arguments.device, timeout=arguments.rank_timeout) as ranks,
            _quiet(not ranks.is_first),
        ):
            try:
                return int(module.run(arguments))
            except (TrainingError, ModelError, OSError, Interruption) as error:
                # Reported here, while the processes can still agree on which one reports.
                return _report_once(error, is_first=ranks.is_first)
    except RuntimeError as error:
        if not is_lost(error):
            raise
        raise TrainingError(
            "another process of this run has ended: torchrun says which; resume with the same "
            "command and --resume"
        ) from error


def _report_once(error: BaseException, *, is_first: bool) -> int:
    """Prints an error once, whichever of the processes has found it."""
    from training.distributed import may_report

    interrupted = isinstance(error, Interruption)
    message = str(error)
    if isinstance(error, OSError):
        message = f"{error.filename}: {error.strerror}" if error.filename else message
    if is_first if interrupted else may_report(message):
        _report(message, 1)
    return 128 + error.signal if isinstance(error, Interruption) else 1


@contextmanager
def _quiet(is_quiet: bool) -> Iterator[None]:
    """Drops what is printed, in all processes but the first."""
    if not is_quiet:
        yield
        return
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


def _report(message: str, code: int) -> int:
    is_quiet = getattr(sys.stderr, "name", None) == os.devnull
    print(f"headlight-train: {message}", file=sys.__stderr__ if is_quiet else sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    # Imported here, so that `main` says what is not installed.
    from training.cli import compare, evaluate_options, fetch, fit_options

    parser = LineParser(
        prog="headlight-train",
        description="Trains a sentiment classifier on your own labelled text, and measures it.",
        allow_abbrev=False,
    )
    add_version(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    compared = "train variants of the network side by side and report on them"
    for name, add_arguments, text in (
        ("fit", fit_options.add_arguments, "train a checkpoint on labelled files"),
        ("evaluate", evaluate_options.add_arguments, "measure a checkpoint on labelled files"),
        ("compare", compare.add_arguments, compared),
        ("fetch", fetch.add_arguments, "download a checkpoint by its name on the hub"),
    ):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        add_arguments(command)
        # Imported only when the command runs: scikit-learn and matplotlib take seconds.
        command.set_defaults(module=f"training.cli.{name}")
    return parser


if __name__ == "__main__":
    end_with_main()

"""Opens the logs of a run. A tracker is imported only if it is asked for."""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from training.tracking.run_log import CombinedLogger, RunLog
from training.tracking.targets import MLFLOW, TENSORBOARD, Target

_FOLDER = "runs"  # TensorBoard's own name for it


def check_installed(targets: Sequence[Target]) -> None:
    """Imports the trackers, so that a missing one is told before any work is done.

    Raises:
        ModuleNotFoundError: an extra is not installed.
    """
    for target in targets:
        if target.kind == MLFLOW:
            # MLflow would tell its makers how it is used. A server that is away is told soon.
            os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        importlib.import_module(f"training.tracking.{target.kind}")


@contextmanager
def opened_logs(
    targets: Sequence[Target], name: str, *, folder: Path, first_step: int
) -> Iterator[CombinedLogger]:
    """Opens the logs of one run, and closes them whatever comes of it.

    Args:
        targets: where it is logged to; none: nothing is written.
        name: of the run.
        folder: of the run on this machine, for what a run that goes on must know.
        first_step: steps that a resumed run has done; 0 for a new one.

    Raises:
        RecipeError: a place cannot be used.
        ModuleNotFoundError: an extra is not installed.
    """
    check_installed(targets)
    logs: list[RunLog] = []
    try:
        for target in targets:
            logs.append(_open(target, name, folder, first_step))
        yield CombinedLogger(logs)
    finally:
        CombinedLogger(logs).close()


def _open(target: Target, name: str, folder: Path, first_step: int) -> RunLog:
    if target.kind == TENSORBOARD:
        from training.tracking.tensorboard import TensorBoardLog

        return TensorBoardLog(Path(target.place or _FOLDER) / name, first_step=first_step)
    from training.tracking.mlflow import MlflowLog

    return MlflowLog(target.place or None, name, folder=folder, first_step=first_step)

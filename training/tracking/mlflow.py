"""Writes a run to MLflow: to a server, a database or a folder."""

import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME
from mlflow.exceptions import MlflowException

from model.cli.progress import say
from model.files import write_whole
from training.errors import RecipeError, first_line
from training.measure.history import Measurement
from training.tracking.logs import STEP_LOSS, STEP_RATE, Parameter, epoch_values

EXPERIMENT = "headlight"
RECORD = "mlflow.json"
# Numbers are sent by the hundred, so that a server is not asked at each step.
_AT_ONCE = 500
_FAULTS = (MlflowException, OSError)
_NOT_IN_NAMES = re.compile(r"[^\w\-. /]")


class MlflowLog:
    """A run of MLflow. An error of the server is reported once, and does not end the run."""

    def __init__(self, uri: str | None, name: str, *, folder: Path, first_step: int) -> None:
        self._is_lost = self._has_ended = self._is_resumed = False
        self._waiting: list[Metric] = []
        self._known: dict[str, set[int]] = {}
        try:
            self._client = MlflowClient(tracking_uri=uri)
            self._run_id = self._open(name, folder / RECORD, is_resumed=first_step > 0)
        except _FAULTS as error:
            raise RecipeError(f"--log-to mlflow: {first_line(error)}") from error

    def _open(self, name: str, record: Path, *, is_resumed: bool) -> str:
        experiment = MLFLOW_EXPERIMENT_NAME.get() or EXPERIMENT
        existing = self._client.get_experiment_by_name(experiment)
        number = (
            self._client.create_experiment(experiment)
            if existing is None
            else existing.experiment_id
        )
        known = _read_run(record) if is_resumed else None
        if known is not None and self._resume(known):
            return known
        run_id = str(self._client.create_run(number, run_name=name).info.run_id)
        record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(record, (json.dumps({"run_id": run_id}) + "\n").encode())
        return run_id

    def _resume(self, run_id: str) -> bool:
        """Resumes a run, unless it has been deleted; notes the steps that it has."""
        try:
            self._client.update_run(run_id, status="RUNNING")
            series = self._client.get_run(run_id).data.metrics
        except MlflowException:
            return False
        for key in series:
            history = self._client.get_metric_history(run_id, key)
            self._known[key] = {metric.step for metric in history}
        self._is_resumed = True
        return True

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Writes the parameters of a new run. MLflow takes no others for a resumed run."""
        if self._is_resumed:
            return
        values = [Param(name, str(value)) for name, value in parameters.items()]
        self._try(lambda: self._client.log_batch(self._run_id, params=values))

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Keeps loss and rate of a step, until there are enough to send."""
        self._add(STEP_LOSS, loss, step)
        self._add(STEP_RATE, learning_rate, step)
        if len(self._waiting) >= _AT_ONCE:
            self._send()

    def epoch(self, measurement: Measurement) -> None:
        """Writes an epoch, unless it is there already."""
        for name, value in epoch_values(measurement).items():
            self._add(name, value, measurement.step)
        self._send()

    def end(self, figures: Mapping[str, float], *, step: int) -> None:
        """Writes the figures, and that the run has ended."""
        for name, value in figures.items():
            self._add(name, value, step)
        self._has_ended = True

    def close(self) -> None:
        """Writes what is left, and whether the run has ended."""
        self._send()
        status = "FINISHED" if self._has_ended else "KILLED"
        self._try(lambda: self._client.set_terminated(self._run_id, status))

    def _add(self, name: str, value: float, step: int) -> None:
        key = _NOT_IN_NAMES.sub("_", name)
        if step in self._known.get(key, ()):
            return
        self._known.setdefault(key, set()).add(step)
        self._waiting.append(Metric(key, value, int(time.time() * 1000), step))

    def _send(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            self._try(partial(self._client.log_batch, self._run_id, metrics=some))

    def _try(self, write: Callable[[], object]) -> None:
        if self._is_lost:
            return
        try:
            write()
        except _FAULTS as error:
            self._is_lost = True
            say(f"warning: MLflow gets nothing more of this run ({first_line(error)})")


def _read_run(record: Path) -> str | None:
    try:
        return str(json.loads(record.read_text(encoding="utf-8"))["run_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None

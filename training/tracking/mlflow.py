"""Writes a run to MLflow: to a server, a database or a folder."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME
from mlflow.exceptions import MlflowException

from model.atomic import write_whole
from model.cli.progress import say
from model.tables.lines import first_line
from training.errors import RecipeError

_EXPERIMENT, _RECORD = "headlight", "mlflow.json"
# Numbers are sent by the hundred, so that a server is not asked at each step.
_AT_ONCE = 500
_ERRORS = (MlflowException, OSError)
_NOT_IN_NAMES = re.compile(r"[^\w\-. /]")


class MlflowTracker:
    """A run of MLflow, resumed by the number in `folder`. An error ends the log, not the run."""

    def __init__(self, uri: str | None, name: str, folder: Path, *, is_resumed: bool) -> None:
        self._is_lost = False
        self._waiting: list[Metric] = []
        self._known: dict[str, set[int]] = {}
        record = folder / _RECORD
        try:
            self._client = MlflowClient(tracking_uri=uri)
            self._is_resumed = is_resumed and self._resume(record)
            if not self._is_resumed:
                experiment = MLFLOW_EXPERIMENT_NAME.get() or _EXPERIMENT
                existing = self._client.get_experiment_by_name(experiment)
                number = (
                    existing.experiment_id
                    if existing is not None
                    else self._client.create_experiment(experiment)
                )
                self._run_id = str(self._client.create_run(number, run_name=name).info.run_id)
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(record, (json.dumps({"run_id": self._run_id}) + "\n").encode())
        except _ERRORS as error:
            raise RecipeError(f"--log-to mlflow: {first_line(error)}") from error

    def _resume(self, record: Path) -> bool:
        """Resumes the recorded run, unless it has been deleted; notes the steps that it has."""
        try:
            self._run_id = str(json.loads(record.read_text(encoding="utf-8"))["run_id"])
            self._client.update_run(self._run_id, status="RUNNING")
            series = self._client.get_run(self._run_id).data.metrics
        except (MlflowException, OSError, ValueError, KeyError, TypeError, RecursionError):
            return False
        for key in series:
            history = self._client.get_metric_history(self._run_id, key)
            self._known[key] = {metric.step for metric in history}
        return True

    def begin(self, parameters: Mapping[str, object], final: Sequence[str]) -> None:
        """Writes the parameters of a new run. MLflow takes no others for a resumed run."""
        del final
        if not self._is_resumed:
            values = [Param(name, str(value)) for name, value in parameters.items()]
            self._try(lambda: self._client.log_batch(self._run_id, params=values))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Keeps values of a step that is not there already, until there are enough to send."""
        for name, value in values.items():
            key = _NOT_IN_NAMES.sub("_", name)
            if step not in self._known.setdefault(key, set()):
                self._known[key].add(step)
                self._waiting.append(Metric(key, value, int(time.time() * 1000), step))
        is_of_a_step = all(name.startswith("step/") for name in values)
        if not is_of_a_step or len(self._waiting) >= _AT_ONCE:
            self._send()

    def close(self, *, has_ended: bool) -> None:
        """Writes what is left, and whether the run has ended."""
        self._send()
        status = "FINISHED" if has_ended else "KILLED"
        self._try(lambda: self._client.set_terminated(self._run_id, status))

    def _send(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            self._try(partial(self._client.log_batch, self._run_id, metrics=some))

    def _try(self, write: Callable[[], object]) -> None:
        if self._is_lost:
            return
        try:
            write()
        except _ERRORS as error:
            self._is_lost = True
            say(f"warning: MLflow gets nothing more of this run ({first_line(error)})")

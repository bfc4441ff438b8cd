"""What MLflow's own client finds of a run."""

import json
import signal
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.training.tiny_runs import arguments, read_lines, signal_after
from training.__main__ import main


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database; making its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "rates")


def only_run(uri: str) -> Run:
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name("rates")
    assert found is not None
    (run,) = client.search_runs([found.experiment_id], "attributes.run_name = 'out'")
    return run


def series(uri: str, run: Run, key: str) -> list[tuple[int, float]]:
    history = MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, key)
    return sorted((metric.step, metric.value) for metric in history)


def test_every_number_of_a_run_that_goes_on_is_there_once(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = arguments(tmp_path, "out", "--log-to", f"mlflow:{uri}", "--learning-rate", "0.004")
    with monkeypatch.context() as patched:
        signal_after(patched, 18, signal.SIGINT)
        assert main(typed) == 130
    interrupted = only_run(uri)
    assert (interrupted.info.run_name, interrupted.info.status) == ("out", "KILLED")

    assert main([*typed, "--resume"]) == 0

    run = only_run(uri)
    assert (run.info.run_id, run.info.status) == (interrupted.info.run_id, "FINISHED")
    epochs = read_lines(tmp_path / "out.run" / "history.jsonl")
    for name in ("training_loss", "training_accuracy", "validation_loss", "validation_accuracy"):
        expected = [(line["step"], line[name]) for line in epochs]
        assert series(uri, run, f"epoch/{name}") == expected
    last = epochs[-1]["step"]
    assert [step for step, _ in series(uri, run, "step/training_loss")] == list(range(last))
    record = json.loads((tmp_path / "out" / "headlight.json").read_text())
    (validation,) = record["metrics"]
    for name in ("accuracy", "log_loss", "ece"):
        assert series(uri, run, f"final/validation/{name}") == [(last, validation[name])]
    assert run.data.params["learning_rate"] == "0.004"
    assert run.data.params["network.hidden_size"] == "16"
    assert int(run.data.params["training_rows"]) + int(run.data.params["validation_rows"]) == 240


def test_a_server_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    # Port 1 has no listener.
    assert main(arguments(tmp_path, "out", "--log-to", "mlflow:http://127.0.0.1:1")) == 1
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("headlight-train")
    ]
    assert line.startswith("headlight-train: --log-to mlflow: ")
    assert "127.0.0.1" in line


def test_a_server_that_is_lost_does_not_end_the_run(
    tmp_path: Path, uri: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*given: object, **named: object) -> None:
        del given, named
        raise OSError("the server is gone")

    monkeypatch.setattr(MlflowClient, "log_batch", lost)
    assert main(arguments(tmp_path, "lost", "--log-to", f"mlflow:{uri}", "--epochs", "1")) == 0
    warning = "warning: MLflow gets nothing more of this run (the server is gone)\n"
    assert capsys.readouterr().out.count(warning) == 1
    assert (tmp_path / "lost" / "headlight.json").exists()

"""What TensorBoard's own reader finds in the files of a run."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import api_pb2, metadata

from tests.training.tiny_runs import Refusal, arguments, read_lines, signal_after, weights
from training.__main__ import main

EPOCH = (
    "training_loss",
    "training_accuracy",
    "validation_loss",
    "validation_accuracy",
    "learning_rate",
)
FINAL = ("accuracy", "macro_f1", "log_loss", "ece")


def read(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def series(found: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in found.Scalars(tag)]


def command(folder: Path, *options: str) -> list[str]:
    return arguments(folder, "out", "--log-to", f"tensorboard:{folder / 'runs'}", *options)


def test_every_number_of_a_run_is_there(fitted: Path) -> None:
    found = read(fitted / "runs" / "out")
    epochs = read_lines(fitted / "out.run" / "history.jsonl")
    for name in EPOCH:
        steps, values = zip(*series(found, f"epoch/{name}"), strict=True)
        assert list(steps) == [line["step"] for line in epochs]
        assert list(values) == pytest.approx([line[name] for line in epochs], rel=1e-6)
    last = int(epochs[-1]["step"])
    assert [step for step, _ in series(found, "step/training_loss")] == list(range(last))
    assert [step for step, _ in series(found, "step/learning_rate")] == list(range(last))
    # The first steps of the warm-up have a rate above 0 that rises.
    rates = [rate for _, rate in series(found, "step/learning_rate")]
    assert 0 < rates[0] < rates[1]
    record = json.loads((fitted / "out" / "headlight.json").read_text())
    expected = {"final/temperature": record["temperature"]}
    for metric in record["metrics"]:
        for name in ("accuracy", "log_loss", "ece"):
            expected[f"final/{metric['name']}/{name}"] = metric[name]
    final = {tag: series(found, tag) for tag in expected}
    assert {tag: [step for step, _ in points] for tag, points in final.items()} == {
        tag: [last] for tag in expected
    }
    assert {tag: points[0][1] for tag, points in final.items()} == pytest.approx(
        expected, rel=1e-5, abs=1e-7
    )
    assert {f"final/validation/{name}" for name in FINAL} <= set(found.Tags()["scalars"])


def test_the_recipe_is_there_as_hyperparameters(fitted: Path) -> None:
    summaries = read(fitted / "runs" / "out").summary_metadata
    start = metadata.parse_session_start_info_plugin_data(
        summaries[metadata.SESSION_START_INFO_TAG].plugin_data.content
    )
    values: dict[str, Any] = {name: start.hparams[name] for name in start.hparams}
    assert values["learning_rate"].number_value == 0.005
    assert values["network.hidden_size"].number_value == 16
    assert values["class_weights"].string_value == "none"
    assert values["training_rows"].number_value + values["validation_rows"].number_value == 240
    end = metadata.parse_session_end_info_plugin_data(
        summaries[metadata.SESSION_END_INFO_TAG].plugin_data.content
    )
    assert end.status == api_pb2.Status.Value("STATUS_SUCCESS")


def test_a_resumed_run_has_every_step_once(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        signal_after(patched, 18, signal.SIGINT)
        assert main(command(tmp_path)) == 130
    assert len(read_lines(tmp_path / "out.run" / "history.jsonl")) == 1  # it grows with each epoch
    interrupted = read(tmp_path / "runs" / "out")
    assert [step for step, _ in series(interrupted, "step/training_loss")] == list(range(18))
    assert main([*command(tmp_path), "--resume"]) == 0
    assert weights(tmp_path / "out") == weights(fitted / "out")
    found, whole = read(tmp_path / "runs" / "out"), read(fitted / "runs" / "out")
    tags = [tag for tag in whole.Tags()["scalars"] if "/other/" not in tag]
    assert found.Tags()["scalars"] == tags
    for tag in tags:
        assert series(found, tag) == series(whole, tag), tag


def test_no_text_is_in_the_files(fitted: Path) -> None:
    words = {
        word
        for line in (fitted / "rows.tsv").read_text().splitlines()[1:]
        for word in line.partition("\t")[0].split()
        if len(word) > 3 and word.isalpha()
    }
    files = [path.read_bytes() for path in (fitted / "runs" / "out").iterdir()]
    assert files
    assert [word for word in sorted(words) if any(word.encode() in held for held in files)] == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, refusal: Refusal) -> None:
    place = tmp_path / "file"
    place.write_text("")
    expected = f"--log-to tensorboard: {place / 'out'} cannot be written: Not a directory"
    assert refusal(arguments(tmp_path, "out", "--log-to", f"tensorboard:{place}")) == expected

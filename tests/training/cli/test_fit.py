"""`headlight-train fit`: from files to a checkpoint that is served."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model import load_predictor, open_checkpoint
from model.atomic import beside
from tests.builders import tiny_checkpoint, tiny_config
from tests.training.tiny_runs import Refusal, arguments, read_history, run, weights
from training.__main__ import main
from training.cli.run_lock import locked


def test_the_checkpoint_records_its_rows_and_how_it_was_made(fitted: Path) -> None:
    checkpoint = open_checkpoint(fitted / "out")
    manifest = checkpoint.manifest
    assert checkpoint.config.labels == ("negative", "positive")
    validation, other = manifest.metrics
    assert (validation.name, validation.rows) == ("validation", 24)
    assert (other.name, other.rows) == (f"{fitted.name}/other", 100)
    assert other.interval[0] > 0.5  # it has learnt something
    assert (manifest.seed, manifest.max_length, manifest.recipe["epochs"]) == (0, 16, 3)
    assert manifest.recipe["network"]["hidden_size"] == 16
    (source,) = manifest.training_data
    assert (source.file, source.rows) == ("rows.tsv", 240)


def test_evaluate_gives_recorded_figures(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = str(fitted / "out")
    code = main(["evaluate", str(fitted / "other.tsv"), "--checkpoint", checkpoint, "--json", "-"])
    assert code == 0
    (report,) = json.loads(capsys.readouterr().out)["files"]
    recorded = open_checkpoint(fitted / "out").manifest.metrics[1]
    assert report["accuracy"] == recorded.accuracy
    assert report["accuracy_interval"] == list(recorded.interval)
    assert report["log_loss"] == pytest.approx(recorded.log_loss, abs=1e-6)
    assert report["ece"] == pytest.approx(recorded.ece, abs=1e-6)


def test_the_history_is_there_and_the_state_is_gone(fitted: Path) -> None:
    run_dir = fitted / "out.run"
    history = read_history(run_dir)
    assert [measurement.epoch for measurement in history] == [1, 2, 3]
    assert [measurement.step for measurement in history] == [14, 28, 42]
    assert history[-1].validation_loss < history[0].validation_loss
    assert [path.name for path in run_dir.iterdir()] == ["history.jsonl"]


def test_a_seed_gives_the_same_bytes_in_another_process(fitted: Path, tmp_path: Path) -> None:
    other = str(fitted / "other.tsv")
    assert run(arguments(tmp_path, "again", "--evaluate", other)).returncode == 0
    assert main(arguments(tmp_path, "seed", "--evaluate", other, "--seed", "1")) == 0
    for file in ("model.safetensors", "tokenizer.json", "config.json", "headlight.json"):
        assert (tmp_path / "again" / file).read_bytes() == (fitted / "out" / file).read_bytes()
    assert weights(tmp_path / "seed") != weights(fitted / "out")


AGAIN = "interrupted: run the same command again"
RESUME = (
    "interrupted after step 42 of 42; the state is saved: run the same command with --resume to "
    "go on"
)


@pytest.mark.parametrize(
    ("command", "place", "message"),
    [
        ("fit", "training.cli.fit.read_and_split", AGAIN),
        ("fit", "training.fit.export.save_checkpoint", RESUME),
        ("evaluate", "training.cli.evaluate.load_predictor", AGAIN),
        ("evaluate", "model.predictor.Predictor._predict", AGAIN),
        ("evaluate", "model.tables.writing._DelimitedRows.write", AGAIN),
        ("evaluate", "matplotlib.figure.Figure.savefig", AGAIN),
    ],
)
def test_a_signal_ends_a_command_in_one_line(
    command: str,
    place: str,
    message: str,
    fitted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    given = arguments(tmp_path, "out")
    if command == "evaluate":
        files = ["--predictions", str(tmp_path / "p.csv"), "--plot", str(tmp_path / "p.png")]
        given = ["evaluate", given[1], "--checkpoint", str(fitted / "out"), *files]
    monkeypatch.setattr(place, interrupt)
    assert main(given) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.splitlines()[-1] == f"headlight-train: {message}"
    left = {path.name for path in tmp_path.iterdir()} - {"rows.tsv", "tiny.toml", "out.run"}
    assert left == ({"p.csv"} if "savefig" in place else set())


def test_an_output_that_is_there_is_not_replaced_unasked(tmp_path: Path, refusal: Refusal) -> None:
    folder = tiny_checkpoint(tmp_path / "out")
    before = weights(folder)
    expected = f"{folder} is there already: choose another --output, or --overwrite it"
    assert refusal(arguments(tmp_path, "out")) == expected
    assert weights(folder) == before
    left = beside(tmp_path / "out.run" / "state", "new")
    left.mkdir(parents=True)
    assert main(arguments(tmp_path, "out", "--overwrite", "--epochs", "1")) == 0
    assert weights(folder) != before
    assert not left.exists()


@pytest.mark.parametrize("folder", ["out", "out.run"])
def test_two_runs_never_write_to_one_folder(folder: str, tmp_path: Path, refusal: Refusal) -> None:
    place = tmp_path / folder
    with locked(place):
        assert refusal(arguments(tmp_path, "out")) == (
            f"{place}: another command writes there: wait for it, end it, or choose another folder"
        )
        assert not place.exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run-dir", "out"], "--run-dir out lies in the checkpoint out, which is written as a"),
        (["--resume"], "out.run/state: there is no interrupted run to resume; leave out --resume"),
        (["--epochs", "0"], "preset tiny.toml with --epochs: --epochs: must be at least 1 (got 0)"),
        (["--device", "cuda:200"], "--device: device cuda:200 was asked for, but torch finds"),
    ],
)
def test_what_would_do_nothing_or_harm_is_refused(
    tmp_path: Path,
    refusal: Refusal,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(arguments(Path(), "out", *options))
    assert not (tmp_path / "out").exists()


def test_stored_in_16_bits_the_figures_are_those_of_the_stored_weights(tmp_path: Path) -> None:
    assert main(arguments(tmp_path, "out", "--store-dtype", "bfloat16", "--epochs", "1")) == 0
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    checkpoint = open_checkpoint(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))["dtype"] == "float32"
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    assert predictor.info.metrics[0].rows == 24


def test_from_a_pretrained_folder(tmp_path: Path) -> None:
    """Its vocabulary, sizes and encoder are taken; a head of other classes is drawn afresh."""
    origin = tiny_checkpoint(tmp_path / "origin", config=tiny_config(labels=("a", "b", "c")))
    expected = load_file(origin / "model.safetensors")
    options = ("--init-from", str(origin), "--learning-rate", "1e-12", "--epochs", "1")
    command = arguments(tmp_path, "out", *options, "--dropout", "0")
    command[command.index("--preset") + 1] = "finetune"
    assert main(command) == 0
    fitted = load_file(tmp_path / "out" / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.weight"
    assert np.allclose(fitted[name], expected[name], atol=1e-6)
    assert fitted["classifier.weight"].shape == (2, 8)
    manifest = open_checkpoint(tmp_path / "out").manifest
    assert manifest.recipe["init_from"] == "origin"
    assert len(manifest.recipe["init_from_sha256"]) == 64

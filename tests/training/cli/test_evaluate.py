"""The command `evaluate`, from files and a folder to what it prints and writes."""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from model import load_predictor, open_checkpoint
from model.files import digest
from tests.builders import tiny_checkpoint, tiny_config, tiny_manifest
from tests.labelled_files import write_rows
from tests.matching import exactly
from training.cli.evaluate import run
from training.cli.evaluate_options import add_arguments
from training.errors import DataError, RecipeError, TrainingError
from training.measure.counts import count_thresholds
from training.measure.evaluate import set_names
from training.measure.metrics import measure

THREE = ("negative", "neutral", "positive")
ROWS: list[tuple[object, object]] = [
    ("a good film", 1),
    ("a bad film", 0),
    ("the cast is superb", 1),
    ("very, very long and dull " * 9, 0),
    ("weak", 1),
]


def parse(*arguments: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def test_the_figures_are_those_of_what_is_served(
    tmp_path: Path, checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_rows(tmp_path / "a.tsv", ROWS)
    second = write_rows(tmp_path / "b.jsonl", [("good", "positive"), ("dull", "positive")])
    target = tmp_path / "figures.json"
    checkpoint = open_checkpoint(checkpoint_folder)
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")

    assert run(parse(first, second, "--checkpoint", checkpoint_folder, "--json", target)) == 0

    written = json.loads(target.read_text())
    assert list(written) == [*("checkpoint", "labels", "temperature", "device", "dtype", "files")]
    assert written["checkpoint"] == {"name": "tiny", "version": checkpoint.version}
    assert written["labels"] == ["negative", "positive"]
    assert (written["temperature"], written["device"], written["dtype"]) == (1.5, "cpu", "float32")
    assert [report["file"] for report in written["files"]] == [str(first), str(second)]
    for report, texts, label_ids in [
        (written["files"][0], [str(text) for text, _ in ROWS], [1, 0, 1, 0, 1]),
        (written["files"][1], ["good", "dull"], [1, 1]),
    ]:
        served = [predictor.predict([predictor.encode(text)])[0] for text in texts]
        probabilities = np.array([list(answer.probabilities.values()) for answer in served])
        truth = np.array(label_ids)
        expected = measure(probabilities, truth)
        assert report["rows"] == len(texts)
        assert report["truncated"] == sum(answer.truncated for answer in served)
        assert report["accuracy"] == expected.accuracy
        assert report["accuracy_interval"] == list(expected.interval)
        assert report["log_loss"] == pytest.approx(expected.log_loss, abs=1e-6)
        assert report["ece"] == pytest.approx(expected.ece, abs=1e-6)
        assert report["macro_f1"] == expected.macro_f1
        assert list(report["f1"].values()) == list(expected.f1)
        assert report["sha256"] == digest(Path(report["file"]))
        assert sum(length["rows"] for length in report["by_length"]) == len(texts)
        assert report["confusion"] == [list(row) for row in expected.confusion]
        by_threshold = count_thresholds(
            probabilities, truth, labels=written["labels"], sets=["a"]
        ).reports()
        assert report["by_threshold"] == by_threshold
    assert written["files"][0]["truncated"] == 1
    printed = capsys.readouterr().out
    assert f"{first}\n  rows       5 (1 truncated)\n" in printed
    assert f"{second}\n  rows       2 (0 truncated)\n" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "b.jsonl", "figures.json"]


def test_labels_0_and_1_are_the_poles_of_more_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(
        tmp_path / "three",
        config=tiny_config(labels=THREE),
        manifest=tiny_manifest(labels=THREE, pair_temperature=0.75),
    )
    texts = ["a good film", "a bad film", "the cast is superb", "weak"]
    path = write_rows(tmp_path / "a.tsv", [(text, at % 2) for at, text in enumerate(texts)])
    every = write_rows(tmp_path / "b.tsv", [(text, min(at, 2)) for at, text in enumerate(texts)])
    target = tmp_path / "figures.json"

    run(parse(path, every, "--checkpoint", folder, "--json", target))

    predictor = load_predictor(open_checkpoint(folder), device="cpu", dtype="float32")
    choice = predictor.info.choice(["negative", "positive"])
    assert choice.temperature == 0.75
    served = [choice.narrow(each) for each in predictor.predict([*map(predictor.encode, texts)])]
    shares = np.array([list(answer.probabilities.values()) for answer in served])
    expected = measure(shares, np.arange(4) % 2)
    first, second = json.loads(target.read_text())["files"]
    assert list(first["f1"]) == ["negative", "positive"]
    assert first["accuracy"] == expected.accuracy
    assert first["log_loss"] == pytest.approx(expected.log_loss, abs=1e-6)
    assert first["ece"] == pytest.approx(expected.ece, abs=1e-6)
    assert list(second["f1"]) == list(THREE)
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"{path}: its labels 0 and 1 mean negative and positive, and the answers are those of a "
        f"choice among these two\n{path}\n"
    )
    chosen = ("--checkpoint", folder, "--labels", "negative,positive")
    run(parse(path, *chosen, "--json", target))
    assert json.loads(target.read_text())["files"] == [first]
    write_rows(every, [("a film", "neutral")])
    with pytest.raises(DataError, match="label 'neutral' is not one of negative, positive"):
        run(parse(every, *chosen))
    with pytest.raises(RecipeError, match="--record-baseline is for all classes of the checkpoint"):
        run(parse(path, "--checkpoint", folder, "--record-baseline"))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--labels", "negative,angry"], "--labels negative,angry: the checkpoint has no class "),
        (["--labels", "negative"], "--labels negative: give two or more different classes"),
    ],
)
def test_classes_of_files_that_do_not_fit(
    tmp_path: Path, checkpoint_folder: Path, options: list[str], fault: str
) -> None:
    path = write_rows(tmp_path / "a.tsv", ROWS)
    with pytest.raises(RecipeError, match=re.escape(fault)):
        run(parse(path, "--checkpoint", checkpoint_folder, *options))


def test_a_bad_file_is_found_before_any_is_measured(
    tmp_path: Path, checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = write_rows(tmp_path / "a.tsv", ROWS)
    missing = tmp_path / "b.tsv"
    target = tmp_path / "figures.json"
    with pytest.raises(DataError, match=exactly(f"{missing}: does not exist")):
        run(parse(sound, missing, "--checkpoint", checkpoint_folder, "--json", target))
    assert capsys.readouterr().out == ""
    assert not target.exists()


def test_options_reach_the_predictor_and_the_plot_is_made_if_asked(
    tmp_path: Path, checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    path = write_rows(tmp_path / "a.tsv", ROWS)
    target = tmp_path / "figures.json"
    options = ["--dtype", "bfloat16", "--threads", 3, "--device", "cpu", "--max-batch-tokens", 1]
    plot = tmp_path / "reliability.svg"
    run(parse(path, "--checkpoint", checkpoint_folder, "--json", target, *options, "--plot", plot))
    written = json.loads(target.read_text())
    assert (written["device"], written["dtype"]) == ("cpu", "bfloat16")
    assert threads == [3]
    assert "(5)" in plot.read_text(encoding="utf-8")


WRITTEN = {"--json": "a.json", "--plot": "a.png", "--errors": "a.csv", "--predictions": "a.csv"}
SUFFIX = "--errors writes .csv, .tsv, .jsonl or .parquet: change the suffix"


@pytest.mark.parametrize(
    ("option", "name", "fault"),
    [
        *((each, f"none/{WRITTEN[each]}", "cannot be written: the folder ") for each in WRITTEN),
        *((each, ".", f"is a folder: {each} needs the path of a file") for each in WRITTEN),
        ("--plot", "a.gif", "a plot is written as .png or .svg, got a.gif: change the suffix"),
        ("--errors", "new.xlsx", SUFFIX),
        ("--errors", "new.csv.gz", SUFFIX),
        ("--predictions", "there.csv", "is there already: name another file for --predictions"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, option: str, name: str, fault: str
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    with pytest.raises(TrainingError, match=re.escape(fault)):
        run(parse("unread.tsv", "--checkpoint", "unread", option, tmp_path / name))
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_figures_for_a_closed_standard_output_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stderr)
    with pytest.raises(TrainingError, match="--json -: standard output is closed: name a file"):
        run(parse("unread.tsv", "--checkpoint", "unread", "--json", "-"))


def test_a_set_is_named_by_its_folder_and_its_file() -> None:
    files = ["/uci/amazon.tsv", "v1.2/dev.csv.gz", "dev.parquet", "sst/.dev"]
    assert set_names(map(Path, files)) == ["uci/amazon", "v1.2/dev", "dev", "sst/.dev"]
    assert set_names([Path("/dev.tsv")]) == ["dev"]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (["a\nb/dev.tsv"], "a set would be recorded as 'a\\nb/dev', which has 7 characters: must "),
        (["a" * 201], "which has 201 characters"),
        (["b/dev.tsv", "a/dev.tsv", "x/a/dev.csv"], "two files would be recorded as a/dev: "),
    ],
)
def test_names_that_no_record_takes(files: list[str], fault: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(fault)):
        set_names(map(Path, files))

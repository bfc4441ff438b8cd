"""`recipes/default.py --tiny`, from made-up sentences to a checkpoint with its records."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model import load_predictor, open_checkpoint
from model.backends.device import computes_int8
from recipes.default import KEEP_OUT, MEAN, SOURCES, average_weights, main


@pytest.mark.slow
def test_all_stages_and_only_those_that_are_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--tiny", "--device", "cpu", "--output", str(tmp_path / "out")]

    assert main(command) == 0

    checkpoint = open_checkpoint(tmp_path / "out")
    manifest = checkpoint.manifest
    assert checkpoint.config.labels == ("negative", "neutral", "positive")
    assert (manifest.language, manifest.max_length) == ("en", 512)
    assert [source.file for source in manifest.training_data] == [each.file for each in SOURCES]
    assert manifest.recipe["made_by"] == "recipes/default.py"
    assert list(manifest.recipe["stages"]) == ["teacher", "student", "steady"]
    sets = [("validation", 64), *((name.partition(".")[0], 48) for name in KEEP_OUT)]
    assert [(metric.name, metric.rows) for metric in manifest.metrics] == sets
    records = [(x.dtype, [(y.name, y.rows) for y in x.sets]) for x in manifest.precision]
    assert records == ([("int8", sets)] if computes_int8("cpu") else [])
    kinds = json.loads((tmp_path / "out.work" / "kinds.json").read_text(encoding="utf-8"))["kinds"]
    assert len(kinds) == 28
    assert sum(rows for _, rows in kinds.values()) == 197
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    (answer,) = predictor.predict([predictor.encode("Good \N{THUMBS UP SIGN}")])
    assert sum(answer.probabilities.values()) == pytest.approx(1.0)
    work = tmp_path / "out.work"
    files = {name: work / f"{name}.safetensors" for name in ("teacher", *MEAN)}
    stages = {name: load_file(files[name]) for name in MEAN}
    name = "classifier.weight"
    mean = 0.25 * stages["student"][name] + 0.75 * stages["steady"][name]
    stored = load_file(tmp_path / "out" / "model.safetensors")[name]
    assert torch.allclose(stored.float(), mean, atol=1e-3)

    before = {name: path.stat().st_mtime_ns for name, path in files.items()}
    files["steady"].unlink()
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "teacher is done already" in printed
    assert "student is done already" in printed
    assert "steady: " in printed
    assert {name: path.stat().st_mtime_ns for name, path in files.items()} != before
    again = load_file(tmp_path / "out" / "model.safetensors")[name]
    assert torch.equal(stored, again)

    assert main([*command[:-1], str(tmp_path / "more"), "--start", str(tmp_path / "out")]) == 0
    more = open_checkpoint(tmp_path / "more").manifest
    assert list(more.recipe["stages"]) == ["steady"]
    assert more.recipe["init_from_sha256"] == checkpoint.weights_sha256
    stage = tmp_path / "more.work" / checkpoint.weights_sha256[:12]
    assert {path.name for path in stage.glob("*.safetensors")} == {
        "answers.safetensors",
        "steady.safetensors",
    }
    two = shutil.copytree(tmp_path / "out", tmp_path / "two")
    config = (two / "config.json").read_text(encoding="utf-8").replace("neutral", "other")
    (two / "config.json").write_text(config, encoding="utf-8")
    assert main([*command[:-1], str(tmp_path / "none"), "--start", str(two)]) == 1
    assert "is not of the classes ('negative', 'neutral', 'positive')" in capsys.readouterr().err
    assert main([*command[:-1], str(tmp_path / "none"), "--start", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_mean_of_weights() -> None:
    weights = [(1.0, {"a": torch.zeros(2)}), (3.0, {"a": torch.ones(2)})]
    assert average_weights(weights)["a"].tolist() == [0.75, 0.75]


def test_what_is_needed_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--output", str(tmp_path / "out"), "--data", "data"])
    assert "give --data, and --mpnet and --minilm, or --start; or --tiny" in capsys.readouterr().err

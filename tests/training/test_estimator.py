"""The estimator keeps scikit-learn's conventions, and trains what `headlight-train fit` trains.

Of scikit-learn's own checks those run that need no numbers as X; what the others ask of fitted
estimators is asked here with texts.
"""

import gc
import io
import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import GridSearchCV
from sklearn.utils import estimator_checks
from transformers import AutoModelForSequenceClassification

from model import load, open_checkpoint
from model.errors import CheckpointError
from tests.builders import tiny_checkpoint, tiny_config
from tests.matching import exactly
from tests.training.tiny_runs import PRESET, write_preset, write_sentences
from training import FitWarning, TextClassifier, evaluate
from training.__main__ import main
from training.errors import DataError, RecipeError
from training.fit.trainer import Trainer

CHECKS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
EPOCHS = 8
pytestmark = pytest.mark.filterwarnings("ignore::training.FitWarning")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return pd.read_csv(write_sentences(tmp_path_factory.mktemp("rows") / "rows.tsv"), sep="\t")


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> str:
    text = PRESET.replace("epochs = 3", f"epochs = {EPOCHS}").replace("5e-3", "1e-2")
    return str(write_preset(tmp_path_factory.mktemp("preset") / "tiny.toml", text))


@pytest.fixture
def fresh(preset: str) -> TextClassifier:
    """Not fitted, from random weights."""
    return TextClassifier(None, preset=preset, threads=1, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def fitted(rows: pd.DataFrame, preset: str) -> TextClassifier:
    made = TextClassifier(None, preset=preset, threads=1, device="cpu", dtype="float32")
    assert made.fit(rows["sentence"], rows["label"]) is made
    return made


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn(name: str) -> None:
    getattr(estimator_checks, name)("TextClassifier", TextClassifier())


def test_it_predicts_what_it_has_learned(fitted: TextClassifier, rows: pd.DataFrame) -> None:
    texts = ["the film was bad", "a lovely cast", "so dull and awful"]
    predicted = fitted.predict(texts)
    probabilities = fitted.predict_proba(texts)
    assert list(fitted.classes_) == ["negative", "positive"]
    assert list(predicted) == ["negative", "positive", "negative"]
    assert probabilities.shape == (3, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert list(fitted.classes_[probabilities.argmax(axis=1)]) == list(predicted)
    for kind in (np.array(texts), pd.Series(texts, index=[5, 1, 3]), tuple(texts)):
        np.testing.assert_array_equal(fitted.predict_proba(kind), probabilities)
    assert fitted.score(rows["sentence"], rows["label"]) > 0.9
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 2)


def test_it_trains_as_the_command_does(fitted: TextClassifier, preset: str, tmp_path: Path) -> None:
    write_sentences(tmp_path / "rows.tsv")
    command = ["fit", str(tmp_path / "rows.tsv"), "--output", str(tmp_path / "command")]
    options = ["--preset", preset, "--threads", "1", "--device", "cpu", "--dtype", "float32"]
    assert main([*command, *options]) == 0
    fitted.save(tmp_path / "saved")
    own, other = (open_checkpoint(tmp_path / name) for name in ("saved", "command"))
    assert own.version == other.version
    assert own.manifest.temperature == other.manifest.temperature
    assert own.manifest.metrics == other.manifest.metrics
    epochs = [each.epoch for each in fitted.history_]
    assert epochs == list(range(1, len(epochs) + 1))
    (source,) = own.manifest.training_data
    assert (source.file, source.rows) == ("X and y", 240)


def test_what_is_saved_is_loaded(fitted: TextClassifier, tmp_path: Path) -> None:
    texts = ["the film was bad", "a lovely cast"]
    fitted.save(str(tmp_path / "saved"))

    found = load(tmp_path / "saved", "cpu", "float32").predict(texts)
    assert [each.label for each in found] == list(fitted.predict(texts))
    for one, row in zip(found, fitted.predict_proba(texts), strict=True):
        assert list(one.probabilities.values()) == list(row)

    message = (
        f"{tmp_path / 'saved'} is there already: choose another folder, or give overwrite=True"
    )
    with pytest.raises(FileExistsError, match=exactly(message)):
        fitted.save(tmp_path / "saved")
    fitted.save(tmp_path / "saved", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="holds other files"):
        fitted.save(tmp_path / "mine", overwrite=True)


@pytest.mark.parametrize("kinds", [(False, True), ("9", "10")])
def test_classes_of_any_kind(
    fresh: TextClassifier, rows: pd.DataFrame, kinds: tuple[str, str]
) -> None:
    first, second = kinds
    is_good = rows["label"] == "positive"
    y = np.where(is_good, first, second)
    fresh.fit(list(rows["sentence"]), y)
    np.testing.assert_array_equal(fresh.classes_, np.unique(y))
    assert fresh.classes_.dtype == np.unique(y).dtype
    assert list(fresh.predict(["a lovely cast", "so dull and awful"])) == [first, second]
    assert fresh.score(rows["sentence"], y) > 0.9


def test_fitting_twice_is_fitting_once_and_quiet_unless_asked(
    fresh: TextClassifier,
    rows: pd.DataFrame,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    texts, y = list(rows["sentence"]), list(rows["label"])
    params, kept = fresh.get_params(), (list(texts), list(y))
    first = fresh.fit(texts, y).predict_proba(texts)
    names = set(vars(fresh))
    assert capsys.readouterr() == ("", "")
    fresh.set_params(verbose=True)

    np.testing.assert_array_equal(fresh.fit(texts, y).predict_proba(texts), first)
    shown = capsys.readouterr()
    assert f"\nepoch 1/{EPOCHS}: training loss " in shown.out
    assert "validation: 24/24" in shown.err
    assert fresh.get_params() == {**params, "verbose": True}
    assert (texts, y) == kept
    assert set(vars(fresh)) == names
    assert set(params) < names
    assert all(name.endswith("_") or name.startswith("_") for name in names - set(params))
    assert len(list(tmp_path.glob("headlight-*"))) == 1  # that of the last one is there, no other


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_that_ends_removes_nothing(fitted: TextClassifier, tmp_path: Path) -> None:
    if not (child := os.fork()):
        fitted._remove()  # as when the interpreter ends
        os._exit(0)
    os.waitpid(child, 0)
    fitted.save(tmp_path / "saved")
    assert load(tmp_path / "saved").labels == fitted.model_.labels


def dumped(made: TextClassifier, folder: Path) -> TextClassifier:
    joblib.dump(made, folder / "made.joblib", compress=3)
    return cast("TextClassifier", joblib.load(folder / "made.joblib"))


def logged(made: TextClassifier, folder: Path) -> TextClassifier:
    content = cloudpickle.dumps(made)
    (folder / "model.pkl").write_bytes(content)  # as mlflow.sklearn does
    with (folder / "model.pkl").open("rb") as file:
        return cast("TextClassifier", cloudpickle.load(file))


@pytest.mark.parametrize("take", [lambda made, _: deepcopy(made), dumped, logged])
def test_a_kept_one_is_the_same_wherever_it_is_opened(
    fitted: TextClassifier,
    take: Callable[[TextClassifier, Path], TextClassifier],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["the film was bad", "a lovely cast"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = take(fitted, tmp_path)
    np.testing.assert_array_equal(kept.predict_proba(texts), fitted.predict_proba(texts))
    assert (kept.report_, kept.history_) == (fitted.report_, fitted.history_)
    kept.save(tmp_path / "saved")
    del kept
    gc.collect()
    assert load(tmp_path / "saved").info.version == fitted.model_.info.version
    assert list(tmp_path.glob("headlight-*")) == []
    files = fitted.__getstate__()["_files"]
    assert {Path(name).suffix for name in files} == {".json", ".safetensors"}


def test_processes_of_a_search_fit_and_predict(preset: str, rows: pd.DataFrame) -> None:
    made = TextClassifier(None, preset=preset, epochs=2, threads=1, device="cpu", verbose=False)
    search = GridSearchCV(made, {"learning_rate": [1e-2, 1e-3]}, cv=2, n_jobs=2, refit=False)
    search.fit(rows["sentence"], rows["label"])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_it_warns_of_what_the_command_prints(
    fresh: TextClassifier, rows: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    few = rows.groupby("label").head(8)
    with pytest.warns(FitWarning) as caught:
        fresh.set_params(epochs=1, verbose=True).fit(few["sentence"], few["label"])
    (first, *others) = [str(each.message) for each in caught]
    assert first.startswith("4 validation rows are few: an accuracy near 50% on them has a 95 % ")
    assert others[0].startswith("training rows below 10 for a class (negative 6, positive 6): ")
    assert {each.filename for each in caught} == {__file__}
    assert pickle.loads(pickle.dumps(caught[0].message)).args == (first,)  # noqa: S301
    lines = [x for x in fresh.report_.splitlines() if not x.startswith("warning: ")]
    assert f"warning: {first}" in fresh.report_
    assert "  to beat: always negative 50.00%, TF-IDF with logistic" in fresh.report_
    assert [x for x in capsys.readouterr().out.splitlines() if x[:6] != "epoch "] == lines


@pytest.mark.parametrize(
    ("verbose", "is_terminal", "shows"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_progress_shows_where_somebody_looks(
    fresh: TextClassifier,
    rows: pd.DataFrame,
    verbose: bool | None,
    is_terminal: bool,
    shows: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", stream)
    fresh.set_params(epochs=1, verbose=verbose).fit(rows["sentence"], rows["label"])
    assert ("validation" in stream.getvalue()) == shows


def test_it_measures_what_the_command_measures(
    fitted: TextClassifier, rows: pd.DataFrame, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "saved")
    some = rows.head(60).assign(label=lambda table: np.roll(table["label"], 1))
    some.to_csv(tmp_path / "rows.csv", index=False)
    command = ["evaluate", str(tmp_path / "rows.csv"), "--checkpoint", str(tmp_path / "saved")]
    written = [f"--json={tmp_path / 'all.json'}", f"--errors={tmp_path / 'wrong.csv'}"]
    assert main([*command, "--threads=1", "--device=cpu", *written]) == 0

    for model in (fitted, load(tmp_path / "saved", "cpu", "float32")):
        found = evaluate(model, some["sentence"], some["label"])
        (report,) = json.loads((tmp_path / "all.json").read_text("utf-8"))["files"]
        own = {"file": report["file"], "sha256": report["sha256"]}
        assert json.loads(json.dumps({**found.report, **own})) == report
        assert found.accuracy == report["accuracy"]
        assert list(found.accuracy_interval) == report["accuracy_interval"]
        assert (found.macro_f1, found.ece) == (report["macro_f1"], report["ece"])
        wanted = precision_recall_fscore_support(some["label"], fitted.predict(some["sentence"]))
        for figures, *shares in zip(found.classes.values(), *wanted, strict=True):
            np.testing.assert_allclose(list(figures.values()), shares)
        wrong = pd.read_csv(tmp_path / "wrong.csv")
        assert [each["text"] for each in found.errors] == list(wrong["text"])
        np.testing.assert_array_equal([each["score"] for each in found.errors], wrong["score"])
        for each in found.errors:
            assert some["label"].iloc[each["index"]] == each["label"] != each["prediction"]
    assert str(found).splitlines()[1] == "  rows       60 (0 truncated)"


def test_what_cannot_be_measured(fitted: TextClassifier, fresh: TextClassifier) -> None:
    message = "X and y: row 1: label 'maybe' is not one of negative, positive (or 0 to 1): "
    with pytest.raises(DataError, match=re.escape(message)):
        evaluate(fitted, ["good", "bad"], ["positive", "maybe"])
    message = "evaluate takes a TextModel or a fitted classifier, got a TextClassifier"
    with pytest.raises(TypeError, match=exactly(message)):
        evaluate(fresh, ["good"], ["positive"])


def test_it_begins_with_a_checkpoint(tmp_path: Path, rows: pd.DataFrame) -> None:
    start = tiny_checkpoint(tmp_path / "start")
    made = TextClassifier(
        str(start), epochs=1, max_length=16, class_weight="balanced", threads=1, device="cpu"
    )
    made.fit(rows["sentence"], rows["label"])
    made.save(tmp_path / "saved")
    recipe = open_checkpoint(tmp_path / "saved").manifest.recipe
    assert recipe["init_from"] == "start"
    assert (recipe["epochs"], recipe["max_length"], recipe["batch_size"]) == (1, 16, 32)
    assert recipe["class_weights"] == "balanced"


def test_of_few_long_rows_it_keeps_two_layers(tmp_path: Path, rows: pd.DataFrame) -> None:
    config = tiny_config(labels=("a", "b"), num_hidden_layers=3, max_position_embeddings=64)
    start = tiny_checkpoint(tmp_path / "start", config=config)
    texts = [f"{each} " * 8 for each in rows["sentence"]]
    made = TextClassifier(start, epochs=1, threads=1, device="cpu").fit(texts, rows["label"])
    made.save(tmp_path / "saved")

    checkpoint = open_checkpoint(tmp_path / "saved")
    assert checkpoint.config.num_layers == 2
    recipe = checkpoint.manifest.recipe
    assert (recipe["layers"], recipe["teacher_share"], recipe["accumulate"]) == (2, 0.7, 1)
    assert "\nkeeps 2 layers: of few long rows, words say more than" in made.report_
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    encoding = made.model_.predictor.encode(texts[0])
    with torch.no_grad():
        logits = theirs(torch.tensor([encoding.input_ids])).logits / checkpoint.manifest.temperature
    np.testing.assert_allclose(made.predict_proba(texts[:1]), logits.softmax(-1), atol=1e-5)


def test_seeds() -> None:
    states: list[Any] = [np.int64(7), np.random.RandomState(1), None]
    seeds = [TextClassifier(None, random_state=state)._recipe().seed for state in states]
    assert seeds[:2] == [7, np.random.RandomState(1).randint(2**31 - 1)]
    assert len(set(seeds)) == 3


def test_it_leaves_torch_and_the_disk_as_they_were(
    preset: str, rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    gc.collect()
    gc.disable()
    made = TextClassifier(None, preset=preset, epochs=1, threads=threads + 1, device="cpu")
    made.fit(rows["sentence"], rows["label"])
    left = [each for each in gc.get_objects() if type(each) is Trainer]
    gc.enable()
    assert left == []  # else its network stays until the next collection
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.rand(1), wanted)
    assert len(list(tmp_path.glob("headlight-*"))) == 1
    del made
    gc.collect()
    assert list(tmp_path.glob("headlight-*")) == []


TWO = ["a", "b"]
WRONG: list[tuple[Any, Any, str]] = [
    (["x", "y"], None, "fit requires y to be passed, but the target y is None"),
    (["x", "y", "z"], TWO, "Found input variables with inconsistent numbers of samples: [3, 2]"),
    *(
        (["x", "y"], ["a", missing], "y[1] is missing: leave the row out, or give it a class")
        for missing in (None, float("nan"), pd.NA)
    ),
    (["x", "y"], ["a", "a"], "y has 1 class: a classifier needs rows of two or more"),
    (["x", " "], TWO, "X and y: row 1: the text is blank: give the row a text, or leave it out"),
    (
        ["x", "y"],
        TWO,
        "X and y: class a has 1 different texts, at least 2 are needed to hold one out: add rows, "
        "or give a file to validate on",
    ),
]


@pytest.mark.parametrize(("X", "y", "message"), WRONG)
def test_rows_that_cannot_be_used(
    fresh: TextClassifier,
    X: Sequence[str],  # noqa: N803
    y: Any,  # noqa: ANN401
    message: str,
) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(["x"])
    with pytest.raises(NotFittedError):
        fresh.save("folder")


def test_what_is_no_text_is_told(fresh: TextClassifier) -> None:
    with pytest.raises(TypeError, match="fit takes a list of texts, got one string: write fit"):
        fresh.fit("a warm film", TWO)
    message = "texts[0]: the text is a float: convert it to a string"
    with pytest.raises(TypeError, match=exactly(message)):
        fresh.fit([1.5, 2.5], TWO)  # type: ignore[list-item]


def test_numbers_are_not_classes_and_a_column_is_taken_with_a_warning(
    fresh: TextClassifier, rows: pd.DataFrame
) -> None:
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fresh.fit(["x", "y"], [0.5, 1.5])
    with pytest.warns(DataConversionWarning):
        fresh.set_params(epochs=1).fit(rows["sentence"], rows[["label"]].to_numpy())
    assert list(fresh.classes_) == ["negative", "positive"]


def test_parameters_are_checked_when_it_fits(fresh: TextClassifier, rows: pd.DataFrame) -> None:
    fresh.set_params(epochs=0)
    message = f"preset {fresh.preset} with epochs, seed: epochs: must be at least 1 (got 0)"
    with pytest.raises(RecipeError, match=exactly(message)):
        fresh.fit(rows["sentence"], rows["label"])
    fresh.set_params(epochs=1, init_from=3)
    with pytest.raises(TypeError, match=exactly("fit takes the path of a folder, got an int")):
        fresh.fit(rows["sentence"], rows["label"])

"""`evaluate --record-dtype` and `--record-baseline`, from files to the record in a folder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from model import load_predictor, open_checkpoint
from model.backends import device
from model.backends.device import choose_dtype, computes_int8
from model.checkpoint.records import Precision, judge
from model.files import MANIFEST, SIGNATURE
from tests.builders import WORDS
from tests.labelled_files import write_rows
from tests.training.tiny_runs import Refusal
from training.__main__ import main
from training.data.dataset import read_dataset
from training.data.validation_split import split_validation
from training.measure.counts import count_baseline
from training.measure.inference import predict_probabilities
from training.measure.metrics import measure

CPU = "cpu"
ROWS = 300
# Each type with what the machine must have for it.
TYPES = [
    "bfloat16",
    pytest.param(
        "int8",
        marks=pytest.mark.skipif(not computes_int8(CPU), reason="this processor has no kernels"),
    ),
]


@pytest.fixture
def texts() -> list[str]:
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, size=4)) for _ in range(ROWS)]


@pytest.fixture
def files(tmp_path: Path, texts: list[str]) -> list[Path]:
    labels = np.random.default_rng(1).integers(0, 2, size=ROWS).tolist()
    rows = list(zip(texts, labels, strict=True))
    (tmp_path / "sst").mkdir()
    return [
        write_rows(tmp_path / "sst" / "dev.tsv", rows[:200]),
        write_rows(tmp_path / "sst" / "more.v2.tsv", rows[200:]),
    ]


@pytest.fixture
def typed(folder: Path, files: list[Path]) -> list[str]:
    """The command without its options."""
    return ["evaluate", *map(str, files), "--checkpoint", str(folder), "--threads", "1"]


def others(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.parametrize("dtype", TYPES)
def test_the_record_is_what_both_networks_answer(
    dtype: str,
    folder: Path,
    files: list[Path],
    texts: list[str],
    typed: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    before, checkpoint = others(folder), open_checkpoint(folder)
    target = tmp_path / "figures.json"

    assert main([*typed, "--record-dtype", dtype, "--json", str(target)]) == 0

    assert others(folder) == before
    (found,) = open_checkpoint(folder).manifest.precision
    assert (found.dtype, found.weights_sha256) == (dtype, checkpoint.weights_sha256)
    assert found.torch == torch.__version__
    assert [one.name for one in found.sets] == ["sst/dev", "sst/more"]
    truth = np.random.default_rng(1).integers(0, 2, size=ROWS)
    answers = {}
    for each in ("float32", dtype):
        predictor = load_predictor(checkpoint, device=CPU, dtype=choose_dtype(each, CPU))
        told = predictor.predict([predictor.encode(text) for text in texts])
        answers[each] = np.array([list(one.probabilities.values()) for one in told])
    for one, part in zip(found.sets, (slice(0, 200), slice(200, ROWS)), strict=True):
        exact, rounded = (measure(answers[each][part], truth[part]) for each in ("float32", dtype))
        was, now = (
            answers[each][part].argmax(axis=1) == truth[part] for each in ("float32", dtype)
        )
        assert (one.rows, one.accuracy) == (exact.rows, rounded.accuracy)
        assert one.float32_accuracy == exact.accuracy
        # Other batches add up in another order.
        assert one.log_loss == pytest.approx(rounded.log_loss, abs=1e-3)
        assert one.float32_log_loss == pytest.approx(exact.log_loss, abs=1e-6)
        assert (one.lost, one.gained) == ((was & ~now).sum(), (now & ~was).sum())
    assert rounded.log_loss != exact.log_loss
    written = json.loads(target.read_text(encoding="utf-8"))
    assert (written["dtype"], len(written["files"])) == ("float32", 2)
    assert written["files"][0]["accuracy"] == found.sets[0].float32_accuracy
    printed = capsys.readouterr().out
    assert printed.count("  rows       ") == len(files)
    assert f"{dtype} beside float32\n  sst/dev   " in printed
    verdict = judge(dtype, [found])
    assert (verdict.reason in printed) is (dtype == "int8")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--dtype", "bfloat16"), "measures in float32 first, and --dtype is bfloat16: "),
        (("--device", "cuda"), "measures on a processor, and --device is cuda: "),
    ],
)
def test_options_that_do_not_go_with_it(
    options: tuple[str, ...], fault: str, typed: list[str], refusal: Refusal
) -> None:
    assert fault in refusal([*typed, "--record-dtype", "bfloat16", *options])


def test_a_signed_folder_is_refused_before_the_work(folder: Path, refusal: Refusal) -> None:
    (folder / SIGNATURE).write_text("{}", encoding="utf-8")
    command = ["evaluate", "unread.tsv", "--checkpoint", str(folder), "--record-dtype", "bfloat16"]
    assert refusal(command).startswith(f"{folder / SIGNATURE}: covers headlight.json, so a record")


def test_without_kernels_int8_is_not_recorded(
    typed: list[str], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.backends.kernels._load", lambda: ([], "they are not compiled"))
    assert refusal([*typed, "--record-dtype", "int8"]) == (
        "--record-dtype: dtype int8 needs the kernels on a processor, and they are not compiled: "
        "use auto"
    )


def test_evaluate_in_auto_follows_the_record(
    tmp_path: Path, folder: Path, typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the service does, on a processor without bfloat16."""
    if not computes_int8(CPU):
        pytest.skip("this processor has no kernels")
    assert main([*typed, "--record-dtype", "int8"]) == 0
    found = open_checkpoint(folder).manifest.precision
    target = tmp_path / "figures.json"
    monkeypatch.setattr(device, "processor_features", frozenset)
    assert main([*typed, "--dtype", "auto", "--json", str(target)]) == 0
    expected = "int8" if judge("int8", found).allowed else "float32"
    assert json.loads(target.read_text(encoding="utf-8"))["dtype"] == expected
    assert isinstance(found[0], Precision)


TEXTS = ["a good film", "\u2603 dull", "very long " * 40, "weak", "superb"]


def evaluate(folder: Path, *options: object) -> int:
    given = ["evaluate", *options, "--checkpoint", folder, "--threads", 1]
    return main([str(argument) for argument in given])


def counted(folder: Path, texts: list[str], sets: list[str]) -> dict[str, object]:
    checkpoint = open_checkpoint(folder)
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    answers = predict_probabilities(predictor, texts)
    baseline = count_baseline(answers, labels=checkpoint.config.labels, sets=sets)
    of_weights = {"weights_sha256": checkpoint.weights_sha256}
    return baseline.model_copy(update=of_weights).model_dump()


def recorded(folder: Path) -> dict[str, object]:
    baseline = open_checkpoint(folder).manifest.baseline
    assert baseline is not None
    return baseline.model_dump()


def test_the_texts_of_all_files_are_counted_together(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my").mkdir()
    first = write_rows(tmp_path / "my" / "a.tsv", [(text, 1) for text in TEXTS[:3]])
    second = write_rows(tmp_path / "my" / "b.tsv", [(text, 0) for text in TEXTS[3:]])

    assert evaluate(folder, first, second, "--record-baseline") == 0

    found = recorded(folder)
    assert found == counted(folder, TEXTS, ["my/a", "my/b"])
    thresholds = open_checkpoint(folder).manifest.thresholds
    assert thresholds is not None
    assert (thresholds.sets, thresholds.rows) == (("my/a", "my/b"), 5)
    assert thresholds.texts == {"negative": 2, "positive": 3}
    assert thresholds.weights_sha256 == found["weights_sha256"]
    assert thresholds.by_threshold[0].answers == {
        label: sum(counts)
        for label, counts in found["scores"].items()  # type: ignore[attr-defined]
    }
    assert (found["rows"], found["truncated"], found["unknown_tokens"]) == (5, 1, 1)
    assert capsys.readouterr().out.endswith("\nbaseline and thresholds of 5 texts recorded\n")


def test_fit_records_its_validation_rows(fitted: Path) -> None:
    rows = read_dataset([fitted / "rows.tsv"])
    _, validation = split_validation(rows, which="random", share=0.1, seed=0)
    output = fitted / "out"
    assert recorded(output) == counted(output, list(validation.texts), ["validation"])

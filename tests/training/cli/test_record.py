"""`evaluate --record-dtype`, from files and a folder to the record that a service reads."""

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

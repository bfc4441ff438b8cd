"""The recorded population stability index is that of numpy, for a checkpoint's own series."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from model import Encoding, Prediction, open_checkpoint
from service.metrics import AnswerCounts
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest
from tests.deploy.queries import RULES

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None and "CI" not in os.environ,
    reason="promtool is not installed (Debian's package prometheus)",
)
LEAST = 1e-4
MINUTES = 30


def stability(use: NDArray[np.float64], baseline: NDArray[np.float64]) -> float:
    """The population stability index of two distributions, each summing to 1."""
    use, baseline = use.clip(min=LEAST), baseline.clip(min=LEAST)
    return float(((use - baseline) * np.log(use / baseline)).sum())


def answered(rng: np.random.Generator, count: int) -> list[tuple[Sequence[Encoding], Prediction]]:
    """Texts of random lengths with random answers, some of them sure."""
    found: list[tuple[Sequence[Encoding], Prediction]] = []
    for _ in range(count):
        length = int(rng.integers(3, 25))
        score = float(rng.beta(5, 2) / 2 + 0.5)
        label = str(rng.choice(["negative", "positive"], p=[0.3, 0.7]))
        ids = rng.integers(0, 20, length).tolist()
        prediction = Prediction(label, score, {}, length, False)
        found.append(([Encoding(ids, truncated=False)], prediction))
    return found


def samples(counts: AnswerCounts) -> dict[tuple[str, str], float]:
    """The values of all series, by name and labels as promtool reads them."""
    found = {}
    for family in counts.collect():
        for sample in family.samples:
            labels = {"job": "headlight", "instance": "a:8000", **sample.labels}
            spelled = ",".join(f'{name}="{value}"' for name, value in labels.items())
            found[sample.name, f"{sample.name}{{{spelled}}}"] = sample.value
    return found


def check(tmp_path: Path, series: dict[str, str], tests: list[dict[str, Any]]) -> None:
    """Has promtool evaluate the recorded rules over series."""
    content = {
        "rule_files": [str(RULES / "recording.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": of} for name, of in series.items()],
                "promql_expr_test": tests,
            }
        ],
    }
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    command = ["promtool", "test", "rules", str(path)]
    tested = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def expect(expression: str, value: float) -> dict[str, Any]:
    """A test that an expression has a value, but for the last digits."""
    return {
        "expr": f"abs(sum({expression}) - {value!r}) < bool 1e-9",
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def test_it_is_what_numpy_computes(tmp_path: Path) -> None:
    manifest = tiny_manifest(baseline=tiny_baseline())
    checkpoint = open_checkpoint(tiny_checkpoint(tmp_path / "tiny", manifest=manifest))
    counts = AnswerCounts(checkpoint)
    before = samples(counts)
    texts = answered(np.random.default_rng(0), 200)
    counts.observe(texts)
    series = {}
    for (name, spelled), value in samples(counts).items():
        # A counter grows by its whole count every minute.
        step = value if before[name, spelled] != value else 0.0
        first = before[name, spelled]
        series[spelled] = f"{first:.17g}+{step:.17g}x{MINUTES}"

    baseline = tiny_baseline()
    scores = np.zeros((2, 4))
    lengths = np.zeros(3)
    for (encoding,), prediction in texts:
        edges = np.array(baseline.score_bounds)
        place = int((prediction.score > edges).sum())
        scores[["negative", "positive"].index(prediction.label), place] += 1
        lengths[int((len(encoding.input_ids) > np.array(baseline.length_bounds)).sum())] += 1
    was = np.array([baseline.scores["negative"], baseline.scores["positive"]]) / baseline.rows
    long = np.array(baseline.lengths) / baseline.rows
    unknown = sum(encoding.input_ids.count(1) for (encoding,), _ in texts)
    tokens = sum(len(encoding.input_ids) for (encoding,), _ in texts)
    assert min(scores.min(), *(was.ravel())) == 0  # a bin that is empty
    assert stability(scores / 200, was) > 0.1
    check(
        tmp_path,
        series,
        [
            expect("headlight:answers:increase1d", 200.0 * MINUTES),
            expect("headlight:answers:psi1d", stability(scores / 200, was)),
            expect("headlight:answer_lengths:psi1d", stability(lengths / 200, long)),
            expect("headlight:unknown_tokens:ratio_increase1d", unknown / tokens),
            expect("headlight:truncated_answers:ratio_increase1d", 0.0),
            expect(
                'headlight:answers:ratio_increase1d{label="positive",score="0.75-0.9"}',
                float(scores[1, 2] / 200),
            ),
        ],
    )


def test_without_a_baseline_there_is_none(tmp_path: Path) -> None:
    counts = AnswerCounts(open_checkpoint(tiny_checkpoint(tmp_path / "tiny")))
    counts.observe(answered(np.random.default_rng(0), 50))
    series = {
        spelled: f"0+{value:.17g}x{MINUTES}" for (_, spelled), value in samples(counts).items()
    }
    assert not [name for name in series if "baseline" in name]
    nothing = {"eval_time": f"{MINUTES}m", "exp_samples": []}
    check(
        tmp_path,
        series,
        [
            expect("headlight:answers:increase1d", 50.0 * MINUTES),
            {"expr": "headlight:answers:psi1d", **nothing},
            {"expr": "headlight:answer_lengths:psi1d", **nothing},
        ],
    )

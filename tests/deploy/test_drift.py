"""The recorded population stability index is that of numpy, for a checkpoint's own series."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from model import Encoding, Prediction, open_checkpoint
from service.metrics import AnswerCounts
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest
from tests.deploy.queries import RULES
from tests.deploy.test_rules import needs_promtool, promtool

pytestmark = needs_promtool
LEAST = 1e-4
MINUTES = 30


def stability(use: NDArray[np.float64], baseline: NDArray[np.float64]) -> float:
    """The population stability index of two distributions, each summing to 1."""
    use, baseline = use.clip(min=LEAST), baseline.clip(min=LEAST)
    return float(((use - baseline) * np.log(use / baseline)).sum())


def answered(count: int) -> list[tuple[Sequence[Encoding], Prediction]]:
    """Texts of random lengths with random answers, some of them sure."""
    rng = np.random.default_rng(0)
    found: list[tuple[Sequence[Encoding], Prediction]] = []
    for _ in range(count):
        length = int(rng.integers(3, 25))
        score = float(rng.beta(5, 2) / 2 + 0.5)
        label = str(rng.choice(["negative", "positive"], p=[0.3, 0.7]))
        ids = rng.integers(0, 20, length).tolist()
        prediction = Prediction(label, score, {}, length, False)
        found.append(([Encoding(ids, truncated=False)], prediction))
    return found


def samples(counts: AnswerCounts) -> dict[str, float]:
    """The values of all series, by name and labels as promtool reads them."""
    found = {}
    for family in counts.collect():
        for sample in family.samples:
            labels = {"job": "headlight", "instance": "a:8000", **sample.labels}
            spelled = ",".join(f'{name}="{value}"' for name, value in labels.items())
            found[f"{sample.name}{{{spelled}}}"] = sample.value
    return found


def check(tmp_path: Path, counts: AnswerCounts, count: int, expected: dict[str, Any]) -> None:
    """Has promtool evaluate recorded rules over series that grow by so many texts a minute.

    An expression has a value, but for the last digits, or none.
    """
    before = samples(counts)
    counts.observe(answered(count))
    series = [
        {
            "series": name,
            "values": f"{before[name]:.17g}+{value * (before[name] != value):.17g}x{MINUTES}",
        }
        for name, value in samples(counts).items()
    ]
    one = [{"labels": "{}", "value": 1}]
    tests = [
        {"expr": name, "eval_time": f"{MINUTES}m", "exp_samples": []}
        if value is None
        else {
            "expr": f"abs(sum({name}) - {value!r}) < bool 1e-9",
            "eval_time": f"{MINUTES}m",
            "exp_samples": one,
        }
        for name, value in expected.items()
    ]
    content = {
        "rule_files": [str(RULES / "recording.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    tested = promtool("test", "rules", str(path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_it_is_what_numpy_computes(tmp_path: Path) -> None:
    baseline = tiny_baseline()
    checkpoint = tiny_checkpoint(tmp_path / "tiny", manifest=tiny_manifest(baseline=baseline))
    texts = answered(200)
    scores, lengths = np.zeros((2, 4)), np.zeros(3)
    for (encoding,), prediction in texts:
        bin_of_score = int((prediction.score > np.array(baseline.score_bounds)).sum())
        scores[["negative", "positive"].index(prediction.best), bin_of_score] += 1
        lengths[int((len(encoding.input_ids) > np.array(baseline.length_bounds)).sum())] += 1
    was = np.array([baseline.scores["negative"], baseline.scores["positive"]]) / baseline.rows
    long = np.array(baseline.lengths) / baseline.rows
    unknown = sum(encoding.input_ids.count(1) for (encoding,), _ in texts)
    tokens = sum(len(encoding.input_ids) for (encoding,), _ in texts)
    assert min(scores.min(), *(was.ravel())) == 0  # a bin that is empty
    assert stability(scores / 200, was) > 0.1
    check(
        tmp_path,
        AnswerCounts(open_checkpoint(checkpoint)),
        200,
        {
            "headlight:answers:increase1d": 200.0 * MINUTES,
            "headlight:answers:psi1d": stability(scores / 200, was),
            "headlight:answer_lengths:psi1d": stability(lengths / 200, long),
            "headlight:unknown_tokens:ratio_increase1d": unknown / tokens,
            "headlight:truncated_answers:ratio_increase1d": 0.0,
            'headlight:answers:ratio_increase1d{label="positive",score="0.75-0.9"}': float(
                scores[1, 2] / 200
            ),
        },
    )

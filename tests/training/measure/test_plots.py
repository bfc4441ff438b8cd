"""The pictures of scores."""

from pathlib import Path

import numpy as np
import pytest

from training.measure.plots import Scores, plot_reliability


@pytest.mark.parametrize(("count", "suffix"), [(1, ".svg"), (4, ".png")])
def test_a_picture_for_any_number_of_files(tmp_path: Path, count: int, suffix: str) -> None:
    random = np.random.default_rng(0)
    scores = [
        Scores(
            f"file {n}", random.uniform(0.5, 1, 90), random.uniform(0.5, 1, 90), np.ones(90, bool)
        )
        for n in range(count)
    ]
    path = tmp_path / f"plot{suffix}"
    plot_reliability(scores, path)
    begins = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(begins)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_it_says_the_calibration_errors(tmp_path: Path) -> None:
    right = np.array([True] * 80 + [False] * 20)
    scores = Scores("a/b.tsv", np.full(100, 0.8), np.full(100, 0.95), right)
    path = tmp_path / "plot.svg"
    plot_reliability([scores], path)
    drawn = path.read_text(encoding="utf-8")
    assert "calibrated, ECE 0.000" in drawn
    assert "uncalibrated, ECE 0.150" in drawn
    assert "a/b.tsv (100)" in drawn

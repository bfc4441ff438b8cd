"""The picture of a run: what is drawn, and in which form."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.matching import exactly
from training.errors import RecipeError
from training.measure.history import Measurement
from training.measure.plots import plot_history


def measurement(step: int, training: float, validation: float) -> Measurement:
    return Measurement(
        step=step,
        epoch=step // 100,
        training_loss=training,
        training_accuracy=1 - training,
        validation_loss=validation,
        validation_accuracy=1 - validation,
        learning_rate=0.001,
        seconds=1.0,
    )


HISTORY = [measurement(100, 0.6, 0.7), measurement(200, 0.4, 0.5), measurement(300, 0.2, 0.6)]


def test_png(tmp_path: Path) -> None:
    path = tmp_path / "history.png"
    plot_history(HISTORY, path)

    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    size = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    assert size == (1200, 480)
    assert list(tmp_path.iterdir()) == [path]


def test_svg_holds_both_curves_of_both_panels(tmp_path: Path) -> None:
    path = tmp_path / "history.svg"
    plot_history(HISTORY, path)

    ElementTree.parse(path)  # noqa: S314 - written one line above
    drawn = path.read_text()
    for text in ("Loss", "Accuracy", "training", "validation", "least validation loss", "step"):
        assert f"<!-- {text} -->" in drawn
    # Two curves in each panel.
    assert drawn.count("stroke: #0072b2; stroke-width: 1.5") == 4
    assert drawn.count("stroke: #d55e00; stroke-width: 1.5") == 4


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    message = "a plot is written as .png or .svg, got history.jpg: change the suffix"
    with pytest.raises(RecipeError, match=exactly(message)):
        plot_history(HISTORY, tmp_path / "history.jpg")


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    message = "there is nothing to plot: the history holds 0 measurements"
    with pytest.raises(RecipeError, match=exactly(message)):
        plot_history([], tmp_path / "history.png")

"""Draws throughput by cores and the cost of a token by length, as SVG."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.scaling import Cost, Throughput

# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"


def draw(throughput: "Sequence[Throughput]", costs: "Sequence[Cost]", folder: Path) -> None:
    """Writes `throughput.svg` and `cost.svg`.

    Args:
        throughput: by cores.
        costs: by length.
        folder: that exists.

    Raises:
        BenchmarkError: matplotlib is not installed.
    """
    cores = [each.cores for each in throughput]
    _draw(
        folder / "throughput.svg",
        ("cores", "sentences a second"),
        cores,
        [
            ("replicas, one a core", _BLUE, [each.replicas for each in throughput]),
            ("one replica", _ORANGE, [each.threads for each in throughput]),
            ("the model alone", _GREY, [each.alone for each in throughput]),
        ],
    )
    _draw(
        folder / "cost.svg",
        ("tokens of a text", "microseconds a token"),
        [each.tokens for each in costs],
        [
            ("service", _BLUE, [each.service for each in costs]),
            ("the model alone", _GREY, [each.alone for each in costs]),
        ],
    )


def _draw(
    path: Path,
    names: tuple[str, str],
    at: Sequence[int],
    lines: Sequence[tuple[str, str, Sequence[float]]],
) -> None:
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise BenchmarkError(
            "matplotlib, which draws the pictures, is not installed: install the extra train, or "
            "leave --output out"
        ) from error
    # Without pyplot, which needs a window system and keeps global state.
    figure = figures.Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for label, colour, values in lines:
        axes.plot(at, values, marker="o", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [str(each) for each in at])
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})

"""Draws the load of a day and the replicas that follow it, as SVG."""

import importlib
from pathlib import Path

from benchmarks.capacity.day import Day
from benchmarks.errors import BenchmarkError

# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"
_HOUR_SECONDS = 3_600


def draw_day(day: Day, fixed: int, path: Path) -> None:
    """Writes the picture; the same day gives the same bytes.

    Args:
        day: with replicas that follow the load.
        fixed: replicas that the highest load of the day needs.
        path: of the file.

    Raises:
        BenchmarkError: matplotlib is not installed.
    """
    try:
        matplotlib = importlib.import_module("matplotlib")
        figures = importlib.import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise BenchmarkError(
            "matplotlib, which draws the picture, is not installed: install the extra train"
        ) from error
    hours = [moment.seconds / _HOUR_SECONDS for moment in day.moments]
    with matplotlib.rc_context({"svg.hashsalt": "headlight"}):
        # Without pyplot, which needs a window system and keeps global state.
        figure = figures.Figure(figsize=(7, 5), layout="constrained")
        load, replicas = figure.subplots(2, 1, sharex=True)
        load.plot(hours, [moment.rate for moment in day.moments], color=_GREY)
        load.set_ylabel("sentences a second")
        load.set_ylim(bottom=0)
        ready = [moment.ready for moment in day.moments]
        replicas.step(hours, ready, where="post", color=_BLUE, label="replicas that are ready")
        replicas.axhline(fixed, color=_ORANGE, linestyle="--", label="fixed, for the highest load")
        replicas.set_ylabel("replicas")
        replicas.set_ylim(bottom=0)
        replicas.set_xlabel("hour of the day")
        replicas.set_xticks(range(0, 25, 3))
        replicas.set_xlim(0, 24)
        replicas.legend(loc="lower right")
        figure.savefig(path, format="svg", metadata={"Date": None})

"""Draws attention heads as heat maps; needs matplotlib, from the extra `plot`."""

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, SupportsIndex

from headlight_client.arrays import Attention
from headlight_client.config import Indices, several_indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Chosen = SupportsIndex | Indices | None

_CALLER = 3  # frames up to the call of `plot_heads`
_INCHES_PER_TOKEN = 0.2
_LEAST_INCHES, _MOST_INCHES = 2.0, 6.0  # of one map
_LARGEST_INCHES = 32.0  # of all maps, in either direction
_LARGEST_FONT, _SMALLEST_FONT = 9.0, 3.0  # points
_POINTS_PER_INCH = 72


def plot_heads(
    attention: Attention,
    *,
    layers: Chosen = None,
    heads: Chosen = None,
    vmax: float | None = None,
    cmap: str = "viridis",
    layer: Chosen = None,
    head: Chosen = None,
) -> "Figure":
    """Draws each chosen head as a heat map: one line per layer, one column per head.

    In a map, a row is the token that attends and a column the token attended to. All maps share one
    colour scale that starts at 0. Token names are left out where they would be too small to read.

    Returns:
        A figure, independent of pyplot. A notebook shows it; `figure.savefig` saves it.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: a layer or head is not a whole number, or has both names.
        ValueError: a layer or head is not in `attention`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plot_heads needs matplotlib: pip install 'headlight-client[plot]'"
        ) from error
    lines = _indices("layers", layers, layer, attention.layer_names)
    columns = _indices("heads", heads, head, attention.head_names)
    weights = attention.weights[lines][:, columns]  # [L, H, T, T]
    inches, font = _sizes(len(lines), len(columns), len(attention.tokens))
    # The margins hold the names beside the maps, the titles and the colour bar.
    figure = Figure(
        figsize=(inches * len(columns) + 2.0, inches * len(lines) + 1.2), layout="constrained"
    )
    grid = figure.subplots(len(lines), len(columns), squeeze=False, sharex=True, sharey=True)
    texts = attention.texts if font else []
    ticks = range(len(texts))
    titles = ["all layers" if name is None else f"layer {name}" for name in attention.layer_names]
    ends = ["heads joined" if name is None else f"head {name}" for name in attention.head_names]
    top = float(weights.max()) if vmax is None else vmax
    for row, line in enumerate(lines):
        for at, column in enumerate(columns):
            axes: Axes = grid[row][at]
            image = axes.imshow(weights[row, at], vmin=0.0, vmax=top, cmap=cmap)
            axes.set_title(f"{titles[line]}, {ends[column]}", fontsize=8)
            # matplotlib would read dollar signs in a token as a formula.
            axes.set_xticks(ticks, texts, rotation=90, fontsize=font, parse_math=False)
            axes.set_yticks(ticks, texts, fontsize=font, parse_math=False)
            axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=grid, shrink=0.8)
    bar.set_label("weight" if attention.view == "raw" else f"weight ({attention.view})")
    figure.supxlabel("attended to", fontsize=9)
    figure.supylabel("attends", fontsize=9)
    return figure


def _indices(what: str, wanted: Chosen, old: Chosen, names: Sequence[int | None]) -> list[int]:
    """Returns where the wanted layers or heads are on an axis; takes them by their old name too."""
    if old is not None:
        name = what.removesuffix("s")
        if wanted is not None:
            raise TypeError(f"{name} is the old name of {what}: leave {name} out")
        message = f"{name} of plot_heads is now called {what}"
        warnings.warn(message, DeprecationWarning, stacklevel=_CALLER)
        wanted = old
    if wanted is None:
        return list(range(len(names)))
    several = wanted if isinstance(wanted, Iterable) else [wanted]
    numbers = several_indices(what, several)
    if None in names:
        raise ValueError(f"this view joined its {what} to one: leave {what} out")
    missing = [number for number in numbers if number not in names]
    if missing or not numbers:
        there = ", ".join(map(str, names))
        raise ValueError(f"{what} {missing} are not there: choose of {there}")
    return [names.index(number) for number in numbers]


def _sizes(lines: int, columns: int, tokens: int) -> tuple[float, float]:
    """Returns the side of a map in inches and the font size of its names in points, 0 for none."""
    inches = min(max(_INCHES_PER_TOKEN * tokens, _LEAST_INCHES), _MOST_INCHES)
    inches = min(inches, _LARGEST_INCHES / max(lines, columns))
    font = min(inches * _POINTS_PER_INCH / tokens * 0.8, _LARGEST_FONT)
    return inches, font if font >= _SMALLEST_FONT else 0.0

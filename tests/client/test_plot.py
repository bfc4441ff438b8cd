"""The picture of heads: which maps, what they hold, one scale for all; and what BertViz draws."""

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headlight_client import Attention, ModelName, Prediction, Token, plot_heads
from tests.commands import give_up
from tests.matching import exactly


def attention(
    texts: Sequence[str] = ("[CLS]", "good", "$x$ and $y$"),
    *,
    layers: Sequence[int] = (0, 2),
    heads: Sequence[int] = (1, 3, 5),
    view: str = "raw",
) -> Attention:
    model = ModelName("m", "v")
    names = Attention(
        model=model,
        prediction=Prediction("x", 1.0, {"x": 1.0}, len(texts), truncated=False, model=model),
        tokens=tuple(Token(text, 0, 0, special=False, word=None) for text in texts),
        layers=tuple(layers),
        heads=tuple(heads),
        view=view,
        weights=np.zeros(0, np.float32),
    )
    shape = (len(names.layer_names), len(names.head_names), len(texts), len(texts))
    weights = np.random.default_rng(0).random(shape, np.float32)
    return replace(names, weights=weights)


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_title()]


def drawn(axes: Axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def test_every_head_is_drawn_on_one_scale() -> None:
    shown = attention()
    figure = plot_heads(shown)
    assert [axes.get_title() for axes in maps(figure)] == [
        f"layer {layer}, head {head}" for layer in (0, 2) for head in (1, 3, 5)
    ]
    for axes, weights in zip(maps(figure), shown.weights.reshape(6, 3, 3), strict=True):
        np.testing.assert_array_equal(drawn(axes), weights)
        assert axes.images[0].get_clim() == (0.0, shown.weights.max())
    assert "matplotlib.pyplot" not in sys.modules


def test_some_heads_by_their_numbers() -> None:
    shown = attention()
    figure = plot_heads(shown, layers=np.int64(2), heads=np.array([5, 1]), vmax=2.0, cmap="Blues")
    first, second = maps(figure)
    assert [first.get_title(), second.get_title()] == ["layer 2, head 5", "layer 2, head 1"]
    np.testing.assert_array_equal(drawn(first), shown.weights[1, 2])
    np.testing.assert_array_equal(drawn(second), shown.weights[1, 0])
    assert [axes.images[0].get_clim() for axes in (first, second)] == [(0.0, 2.0)] * 2
    assert first.images[0].get_cmap().name == "Blues"


def test_a_view_has_one_map_for_what_it_joins() -> None:
    for view, titles in {
        "max+word": ["layer 0, heads joined", "layer 2, heads joined"],
        "rollout": ["all layers, heads joined"],
    }.items():
        figure = plot_heads(attention(view=view))
        assert [axes.get_title() for axes in maps(figure)] == titles
        assert figure.axes[-1].get_ylabel() == f"weight ({view})"


def test_tokens_stand_on_both_axes_as_they_are(tmp_path: Path) -> None:
    figure = plot_heads(attention(), layers=0, heads=1)
    figure.savefig(tmp_path / "heads.svg")
    (axes,) = maps(figure)
    texts = ["[CLS]", "good", "$x$ and $y$"]
    assert [label.get_text() for label in axes.get_xticklabels()] == texts
    assert [label.get_text() for label in axes.get_yticklabels()] == texts
    saved = (tmp_path / "heads.svg").read_text()
    # A formula would lose its dollar signs.
    assert saved.count("<!-- $x$ and $y$ -->") == 2


def test_names_that_nobody_could_read_are_left_out() -> None:
    long = attention([f"w{number}" for number in range(200)], layers=[0], heads=range(12))
    figure = plot_heads(long)
    assert all(list(axes.get_xticks()) == [] for axes in maps(figure))
    assert max(figure.get_size_inches()) < 40
    (single,) = maps(plot_heads(attention([f"w{x}" for x in range(40)]), layers=0, heads=1))
    assert len(single.get_xticklabels()) == 40


@pytest.mark.parametrize(
    ("view", "named", "message"),
    [
        ("raw", {"heads": [1, 7]}, "heads [7] are not there: choose of 1, 3, 5"),
        ("raw", {"heads": []}, "heads [] are not there: choose of 1, 3, 5"),
        ("mean", {"heads": 1}, "this view joined its heads to one: leave heads out"),
        ("rollout", {"layers": 0}, "this view joined its layers to one: leave layers out"),
    ],
)
def test_what_is_not_there(view: str, named: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        plot_heads(attention(view=view), **named)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = exactly("plot_heads needs matplotlib: pip install 'headlight-client[plot]'")
    with pytest.raises(ImportError, match=message):
        plot_heads(attention())


@pytest.mark.parametrize(
    ("old", "new", "named", "title"),
    [
        ("layer", "layers", {"layer": 2, "heads": 1}, "layer 2, head 1"),
        ("head", "heads", {"layers": 2, "head": [5]}, "layer 2, head 5"),
    ],
)
def test_the_old_names_warn(old: str, new: str, named: dict[str, Any], title: str) -> None:
    message = exactly(f"{old} of plot_heads is now called {new}")
    with pytest.warns(DeprecationWarning, match=message) as caught:
        figure = plot_heads(attention(), **named)
    assert [axes.get_title() for axes in maps(figure)] == [title]
    assert caught[0].filename == __file__
    message = exactly(f"{old} is the old name of {new}: leave {old} out")
    with pytest.raises(TypeError, match=message):
        plot_heads(attention(), **(named | {new: 0}))


@pytest.fixture
def bertviz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The real package; of IPython, which shows what it makes in a notebook, the names it needs."""
    if importlib.util.find_spec("bertviz") is None:
        give_up("bertviz is not installed: pip install --no-deps bertviz==1.4.1")
    if importlib.util.find_spec("IPython") is None:
        display = ModuleType("IPython.display")
        for name in ("HTML", "Javascript", "display"):
            setattr(display, name, lambda data: SimpleNamespace(data=data))
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", display)
    return importlib.import_module("bertviz")


# It leaves its scripts to be closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_view_holds_the_numbers(bertviz: ModuleType) -> None:
    shown = attention()
    layers = tuple(torch.from_numpy(layer)[None] for layer in shown.weights)
    made = bertviz.head_view(layers, shown.texts, html_action="return")
    _, script = made.data.split("const params = ")
    params, _ = json.JSONDecoder().raw_decode(script)
    (view,) = params["attention"]
    assert view["left_text"] == view["right_text"] == shown.texts
    np.testing.assert_array_equal(np.array(view["attn"], np.float32), shown.weights)

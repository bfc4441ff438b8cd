"""BertViz takes the arrays of the client: what it draws holds their numbers."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from headlight_client import Client
from tests.end_to_end.servers import RunningService

TEXT = "A warm, funny film!"


@dataclass(frozen=True, slots=True)
class Html:
    """What IPython's class of this name holds, for where IPython is not installed."""

    data: str


@pytest.fixture
def bertviz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The real package; of IPython, which shows what it makes in a notebook, the names it needs."""
    if importlib.util.find_spec("bertviz") is None:
        reason = "bertviz is not installed: pip install --no-deps bertviz==1.4.1"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    if importlib.util.find_spec("IPython") is None:
        display = ModuleType("IPython.display")
        for name, value in {"HTML": Html, "Javascript": Html, "display": print}.items():
            setattr(display, name, value)
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", display)
    return importlib.import_module("bertviz")


def views(html: str) -> list[Any]:
    """The numbers and names that the script of a picture is given."""
    _, script = html.split("const params = ")
    params, _ = json.JSONDecoder().raw_decode(script)
    return list(params["attention"])


# It leaves its scripts to be closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("name", ["head_view", "model_view"])
def test_a_view_holds_the_numbers(bertviz: ModuleType, running: RunningService, name: str) -> None:
    with Client(running.url, api_key="the-key") as client:
        attention = client.attention(TEXT)
    view: Callable[..., Any] = getattr(bertviz, name)

    layers = tuple(torch.from_numpy(layer)[None] for layer in attention.weights)
    made = view(layers, attention.texts, html_action="return")

    (shown,) = views(made.data)
    assert shown["left_text"] == shown["right_text"] == attention.texts
    np.testing.assert_array_equal(np.array(shown["attn"], np.float32), attention.weights)

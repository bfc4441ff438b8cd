"""BertViz takes the arrays of the client: what it draws holds their numbers."""

import importlib
import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from tests.client.test_plot import attention
from tests.commands import give_up


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

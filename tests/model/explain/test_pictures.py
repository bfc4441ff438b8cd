"""Pictures of any tokens are XML."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import Prediction, Token
from model.explain.pictures import draw, svg_picture
from model.explain.views import View

PREDICTION = Prediction("go<od", 0.75, {"bad": 0.25, "go<od": 0.75}, 3, truncated=False)


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4))
def test_any_token_can_be_drawn(texts: list[str]) -> None:
    tokens = [Token(text, 0, 1, special=False, word=place) for place, text in enumerate(texts)]
    size = len(tokens)
    weights = np.full((1, 1, size, size), 1 / size, np.float32)
    view = View("raw", PREDICTION, tokens, (3,), (5,), weights)
    picture = ET.fromstring(svg_picture([draw(view, "<a&b> 0123")]))  # noqa: S314 - made here
    cells = [element for element in picture.iter() if "data-weight" in element.attrib]
    assert [cell.get("data-weight") for cell in cells] == [f"{weights[0, 0, 0, 0]:.8f}"] * size**2
    assert {cell.get("fill-opacity") for cell in cells} == {"1.000"}
    wrong = View("raw", PREDICTION, tokens, (3,), (5,), weights + 1)
    with pytest.raises(ValueError, match="a weight of attention is not a number from 0 to 1"):
        draw(wrong)

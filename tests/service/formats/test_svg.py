"""Pictures of any tokens are XML."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from model import Prediction, Token
from service.formats.svg import draw, svg_picture
from service.formats.views import View
from tests.service.formats.test_size_estimates import INFO as USUAL_INFO

INFO = replace(USUAL_INFO, name="<a&b>")
PREDICTION = Prediction("go<od", 0.75, {"bad": 0.25, "go<od": 0.75}, 3, truncated=False)


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4))
def test_any_token_can_be_drawn(texts: list[str]) -> None:
    tokens = [Token(text, 0, 1, special=False, word=place) for place, text in enumerate(texts)]
    size = len(tokens)
    weights = np.full((1, 1, size, size), 1 / size, np.float32)
    view = View("raw", PREDICTION, tokens, (3,), (5,), weights)
    picture = ET.fromstring(svg_picture([draw(INFO, view)]))  # noqa: S314 - made here
    cells = [element for element in picture.iter() if "data-weight" in element.attrib]
    assert [cell.get("data-weight") for cell in cells] == [f"{weights[0, 0, 0, 0]:.8f}"] * size**2
    assert {cell.get("fill-opacity") for cell in cells} == {"1.000"}

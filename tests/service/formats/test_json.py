"""Weights as JSON: every number in its place, to eight decimals."""

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from numpy.typing import NDArray

from service.formats.json import encode_weights
from tests.matching import exactly

sizes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)).map(
    lambda size: (size[0], size[1], size[2], size[2])
)
weights = hypothesis_numpy.arrays(
    np.float32, sizes, elements=st.floats(0, 1, width=32), fill=st.nothing()
)


@given(weights)
def test_every_weight_is_in_its_place(attention: NDArray[np.float32]) -> None:
    found = json.loads(bytes(encode_weights(attention)), parse_float=Decimal)
    expected = [
        [[[round(Decimal(float(key)), 8) for key in query] for query in head] for head in layer]
        for layer in attention
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (0.0, b"0.00000000"),
        (-0.0, b"0.00000000"),
        (1e-45, b"0.00000000"),
        (6e-9, b"0.00000001"),
        (0.1, b"0.10000000"),
        (1.0, b"1.00000000"),
        (np.nextafter(np.float32(1), np.float32(2)), b"1.00000012"),
    ],
)
def test_single_weights(weight: float, text: bytes) -> None:
    found = encode_weights(np.full((1, 1, 1, 1), weight, np.float32))
    assert bytes(found).replace(b" ", b"") == b"[[[[" + text + b"]]]]"


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, -1e-6, 1.01])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    attention = np.full((1, 1, 2, 2), 0.5, np.float32)
    attention[0, 0, 1, 0] = weight
    with pytest.raises(
        ValueError, match=exactly("a weight of attention is not a number from 0 to 1")
    ):
        encode_weights(attention)


def test_every_weight_is_in_its_place_where_they_are_written_in_pieces() -> None:
    attention = np.random.default_rng(0).random((2, 3, 100, 100), np.float32)
    found = np.array(json.loads(bytes(encode_weights(attention))))
    np.testing.assert_allclose(found, attention.astype(np.float64), rtol=0, atol=5.1e-9)

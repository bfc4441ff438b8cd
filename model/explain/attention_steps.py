"""Computes the steps from the queries and keys of one head to its weights and its result.

Legend: T tokens, H heads, D features of one head's queries, keys and values.

The steps are those of Vaswani et al. 2017, section 3.2, for the row of one query, in float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.errors import NotFiniteError
from model.explain.interventions import check_index
from model.network.config import NetworkConfig
from model.types import Encoding

Floats = NDArray[np.float32]
#: queries, keys and values of a text in one layer, each float32 [H, T, D]
Projected = tuple[Floats, Floats, Floats]


@dataclass(frozen=True, slots=True)
class HeadSteps:
    """How one head makes the row of weights of one query.

    Args:
        scale: 1 / √D, the factor of every product of a query and a key.
        query_vector: the query of that token, float32 [D].
        keys: the key of each token, float32 [T, D].
        scores: the products of the query with each key, times `scale`, float32 [T].
        weights: the softmax of the scores, float32 [T].
        values: the value of each token, float32 [T, D].
        result: the sum of the values, each times its weight, float32 [D].
    """

    encoding: Encoding
    layer: int
    head: int
    query: int
    scale: float
    query_vector: Floats
    keys: Floats
    scores: Floats
    weights: Floats
    values: Floats
    result: Floats


class HeadInspector:
    """Steps of the heads of one checkpoint; several threads may use it at once."""

    def __init__(
        self, project: Callable[[Encoding, int], Projected], config: NetworkConfig
    ) -> None:
        self.head_dim = config.head_dim
        self._project = project
        self._num_layers, self._num_heads = config.num_layers, config.num_heads

    def count_numbers(self, length: int) -> int:
        """Counts the numbers of the steps over a text of `length` tokens."""
        per_token = 2 * self.head_dim + 2  # a key, a value, a score and a weight
        return length * per_token + 2 * self.head_dim

    def steps(self, encoding: Encoding, *, layer: int, head: int, query: int) -> HeadSteps:
        """Runs the network up to one layer, and the steps of one head for one query token.

        Raises:
            IndexError: there is no such layer, head or token.
            NotFiniteError: the network overflowed.
        """
        length = len(encoding.input_ids)
        check_index(layer, self._num_layers, "layer")
        check_index(head, self._num_heads, "head")
        check_index(query, length, "token", owner="the text")
        queries, keys, values = (each[head] for each in self._project(encoding, layer))  # [T, D]
        steps = _compute(queries[query], keys, values)
        if not all(np.isfinite(step).all() for step in steps):
            raise NotFiniteError(1, 1, what="steps of a head")
        return HeadSteps(encoding, layer, head, query, 1 / math.sqrt(self.head_dim), *steps)


def _compute(query: Floats, keys: Floats, values: Floats) -> tuple[Floats, ...]:
    """Computes the steps in the order of the fields of `HeadSteps`."""
    with np.errstate(all="ignore"):  # the caller looks for numbers that are not finite
        scores = keys @ query / np.float32(math.sqrt(len(query)))  # [T]
        powers = np.exp(scores - scores.max())
        weights = powers / powers.sum()  # [T]
        return query, keys, scores, weights, values, weights @ values

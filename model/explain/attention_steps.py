"""Computes the steps from the queries and keys of one head to its weights and its result.

Legend: T tokens, H heads, D features of one head's queries, keys and values.

The steps are those of Vaswani et al. 2017, section 3.2, for the row of one query, in float32.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.errors import NotFiniteError
from model.explain.interventions import check_index
from model.network.architecture import NetworkConfig
from model.network.attention import AttentionInputs
from model.network.shared_weights import SharedWeights
from model.types import Encoding

Floats = NDArray[np.float32]


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

    def __init__(self, network: SharedWeights, config: NetworkConfig) -> None:
        self.head_dim = config.head_dim
        self._network = network
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
        with self._network.use() as network, torch.no_grad():
            computed = _compute(
                network.attention_inputs(self._network.batch(encoding), layer), head, query, length
            )
        steps = [tensor.float().cpu().numpy() for tensor in computed]
        if not all(np.isfinite(step).all() for step in steps):
            raise NotFiniteError(1, 1, what="steps of a head")
        return HeadSteps(encoding, layer, head, query, 1 / math.sqrt(self.head_dim), *steps)


def _compute(inputs: AttentionInputs, head: int, query: int, length: int) -> list[Tensor]:
    """Computes the steps in the order of the fields of `HeadSteps`."""
    # What stands behind the text is padding. A mask hides it, so its weights are 0.
    states = inputs.hidden_states[:, :length]  # [1, T, hidden size]
    projected = inputs.attention.project(states, states, states)
    queries, keys, values = (part[0, head] for part in projected)  # [T, D]
    scores = keys @ queries[query] / math.sqrt(keys.shape[-1])  # [T]
    weights = scores.softmax(dim=-1)  # [T]
    return [queries[query], keys, scores, weights, values, weights @ values]

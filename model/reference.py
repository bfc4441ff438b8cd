"""Multi-head attention in NumPy: the lesson itself, readable and slow; the oracle of the tests.

Legend: B batch, Q query length, K key length, H heads, D features of one head's queries and keys,
V features of one head's values.

Vaswani et al. 2017, section 3.2; additive score: Bahdanau et al. 2015. Everything is float64, and
nothing is shared with the torch class but the names of its parameters.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


def multi_head_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    weights: Mapping[str, ArrayLike],
    *,
    num_heads: int,
    key_padding_mask: ArrayLike | None = None,
    attention_mask: ArrayLike | None = None,
    score: Literal["scaled_dot_product", "additive"] = "scaled_dot_product",
) -> tuple[Floats, Floats]:
    """Attends with several heads.

    Args:
        query: [B, Q, query_size].
        key: [B, K, key_size].
        value: [B, K, value_size].
        weights: the parameters of `model.MultiHeadAttention` by their names: `query.weight`,
            `query.bias` (left out without bias), likewise `key`, `value` and `output`, and
            `additive.weight` for the additive score.
        num_heads: H.
        key_padding_mask: True where a key is padding, [B, K].
        attention_mask: True where a query may not attend to a key, [Q, K], [B, Q, K] or
            [B, H, Q, K].
        score: how a query and a key are compared.

    Returns:
        The output [B, Q, output_size] and the weights of attention [B, H, Q, K].
    """
    parameters = {name: np.asarray(array, np.float64) for name, array in weights.items()}

    # 1. Project, and split what comes out into heads.
    queries = split_heads(project(query, parameters, "query"), num_heads)  # [B, H, Q, D]
    keys = split_heads(project(key, parameters, "key"), num_heads)  # [B, H, K, D]
    values = split_heads(project(value, parameters, "value"), num_heads)  # [B, H, K, V]

    # 2. Compare every query with every key.
    if score == "additive":
        scores = additive_score(queries, keys, parameters["additive.weight"])  # [B, H, Q, K]
    else:
        scores = scaled_dot_product_score(queries, keys)  # [B, H, Q, K]

    # 3. What is masked gets no weight; the rest of a row sums to 1.
    hidden = join_masks(key_padding_mask, attention_mask)
    attention = softmax(scores if hidden is None else np.where(hidden, -np.inf, scores))

    # 4. Mix the values by these weights, concatenate the heads, project.
    context = attention @ values  # [B, H, Q, V]
    output = project(concatenate_heads(context), parameters, "output")  # [B, Q, output_size]
    return output, attention


def project(inputs: ArrayLike, parameters: Mapping[str, Floats], name: str) -> Floats:
    """A linear map: [..., in] to [..., out] by a weight of shape [out, in] and maybe a bias."""
    projected = np.asarray(inputs, np.float64) @ parameters[f"{name}.weight"].T
    bias = parameters.get(f"{name}.bias")
    return projected if bias is None else projected + bias


def split_heads(projected: Floats, num_heads: int) -> Floats:
    """[B, T, H * D] to [B, H, T, D]: each head gets its own stretch of the features."""
    batch_size, length, width = projected.shape
    return projected.reshape(batch_size, length, num_heads, width // num_heads).swapaxes(1, 2)


def concatenate_heads(context: Floats) -> Floats:
    """[B, H, T, V] to [B, T, H * V]: the inverse of `split_heads`."""
    batch_size, num_heads, length, width = context.shape
    return context.swapaxes(1, 2).reshape(batch_size, length, num_heads * width)


def scaled_dot_product_score(queries: Floats, keys: Floats) -> Floats:
    """Dot products, divided by the root of D so that their spread does not grow with it."""
    scores: Floats = queries @ keys.swapaxes(-2, -1) / np.sqrt(queries.shape[-1])  # [B, H, Q, K]
    return scores


def additive_score(queries: Floats, keys: Floats, vectors: Floats) -> Floats:
    """A vector of each head times the tanh of the sum of query and key."""
    sums = np.tanh(queries[:, :, :, None, :] + keys[:, :, None, :, :])  # [B, H, Q, K, D]
    scores: Floats = np.einsum("bhqkd,hd->bhqk", sums, vectors)  # [B, H, Q, K]
    return scores


def join_masks(
    key_padding_mask: ArrayLike | None, attention_mask: ArrayLike | None
) -> Booleans | None:
    """Both masks as one that broadcasts to [B, H, Q, K]; True is hidden."""
    hidden = None
    if key_padding_mask is not None:
        hidden = np.asarray(key_padding_mask, np.bool_)[:, None, None, :]  # [B, 1, 1, K]
    if attention_mask is not None:
        pairs = np.asarray(attention_mask, np.bool_)
        if pairs.ndim == 3:
            pairs = pairs[:, None]  # [B, 1, Q, K]
        hidden = pairs if hidden is None else hidden | pairs
    return hidden


def softmax(scores: Floats) -> Floats:
    """Exponentials over the last axis that sum to 1; the largest is taken off so none overflows."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: Floats = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return normalised

"""Computes multi-head attention in NumPy, float64, readable and slow; tests compare with it.

Legend: B batch, Q query length, K key length, H heads, D features of one head's queries and keys,
V features of one head's values. Vaswani et al. 2017, section 3.2; additive: Bahdanau et al. 2015.
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
        weights: the parameters of `model.MultiHeadAttention` by name: `query.weight`,
            `query.bias` (absent without bias), the same for `key`, `value` and `output`, and
            `additive.weight` for the additive score.
        num_heads: H.
        key_padding_mask: True where a key is padding, [B, K].
        attention_mask: True where a query may not attend to a key, [Q, K], [B, Q, K] or
            [B, H, Q, K].
        score: the function that compares a query with a key.

    Returns:
        The output [B, Q, output_size] and the attention weights [B, H, Q, K].
    """
    parameters = {name: np.asarray(array, np.float64) for name, array in weights.items()}

    # 1. Project, and split the result into heads.
    queries = split_heads(project(query, parameters, "query"), num_heads)  # [B, H, Q, D]
    keys = split_heads(project(key, parameters, "key"), num_heads)  # [B, H, K, D]
    values = split_heads(project(value, parameters, "value"), num_heads)  # [B, H, K, V]

    # 2. Compare every query with every key.
    if score == "additive":
        scores = additive_score(queries, keys, parameters["additive.weight"])  # [B, H, Q, K]
    else:
        scores = scaled_dot_product_score(queries, keys)  # [B, H, Q, K]

    # 3. Masked keys get no weight; the others in a row sum to 1.
    masked = join_masks(key_padding_mask, attention_mask)
    attention = softmax(scores if masked is None else np.where(masked, -np.inf, scores))

    # 4. Mix the values by these weights, concatenate the heads, project.
    context = attention @ values  # [B, H, Q, V]
    output = project(concatenate_heads(context), parameters, "output")  # [B, Q, output_size]
    return output, attention


def project(inputs: ArrayLike, parameters: Mapping[str, Floats], name: str) -> Floats:
    """Maps [..., in] to [..., out] with a weight [out, in] and, if there is one, a bias."""
    projected = np.asarray(inputs, np.float64) @ parameters[f"{name}.weight"].T
    bias = parameters.get(f"{name}.bias")
    return projected if bias is None else projected + bias


def split_heads(projected: Floats, num_heads: int) -> Floats:
    """Splits [B, T, H * D] into [B, H, T, D]: each head gets its own range of features."""
    batch_size, length, width = projected.shape
    return projected.reshape(batch_size, length, num_heads, width // num_heads).swapaxes(1, 2)


def concatenate_heads(context: Floats) -> Floats:
    """Joins [B, H, T, V] to [B, T, H * V], the inverse of `split_heads`."""
    batch_size, num_heads, length, width = context.shape
    return context.swapaxes(1, 2).reshape(batch_size, length, num_heads * width)


def scaled_dot_product_score(queries: Floats, keys: Floats) -> Floats:
    """Computes dot products, divided by the root of D so that their spread does not depend on D."""
    scores: Floats = queries @ keys.swapaxes(-2, -1) / np.sqrt(queries.shape[-1])  # [B, H, Q, K]
    return scores


def additive_score(queries: Floats, keys: Floats, vectors: Floats) -> Floats:
    """Multiplies a vector of each head by the tanh of the sum of query and key."""
    sums = np.tanh(queries[:, :, :, None, :] + keys[:, :, None, :, :])  # [B, H, Q, K, D]
    scores: Floats = np.einsum("bhqkd,hd->bhqk", sums, vectors)  # [B, H, Q, K]
    return scores


def join_masks(
    key_padding_mask: ArrayLike | None, attention_mask: ArrayLike | None
) -> Booleans | None:
    """Joins both masks to one that broadcasts to [B, H, Q, K]; True means masked."""
    masked = None
    if key_padding_mask is not None:
        masked = np.asarray(key_padding_mask, np.bool_)[:, None, None, :]  # [B, 1, 1, K]
    if attention_mask is not None:
        pairs = np.asarray(attention_mask, np.bool_)
        if pairs.ndim == 3:
            pairs = pairs[:, None]  # [B, 1, Q, K]
        masked = pairs if masked is None else masked | pairs
    return masked


def softmax(scores: Floats) -> Floats:
    """Computes the softmax over the last axis; subtracting the maximum avoids overflow."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: Floats = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return normalised

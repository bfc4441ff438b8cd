"""The torch class and torch's own module against the attention that is written out in NumPy."""

import ast
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from model import MultiHeadAttention, causal_mask, padding_mask
from model.network import reference
from model.network.attention import Score
from model.network.reference import multi_head_attention

WITHIN = 1e-6


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: weight.detach().numpy() for name, weight in module.named_parameters()}


@st.composite
def masks(
    draw_: st.DrawFn, *, batch_size: int, num_heads: int, queries: int, keys: int
) -> tuple[Tensor | None, Tensor | None]:
    """Padding and pairs that leave every query at least key 0."""
    padding = pairs = None
    if draw_(st.booleans()):
        lengths = draw_(st.lists(st.integers(1, keys), min_size=batch_size, max_size=batch_size))
        padding = padding_mask(torch.tensor(lengths), max_length=keys)
    kind = draw_(st.sampled_from(["none", "causal", "pairs", "batch", "heads"]))
    if kind == "causal" and queries <= keys:
        pairs = causal_mask(queries, keys)
    elif kind in {"pairs", "batch", "heads"}:
        shapes = {
            "pairs": (queries, keys),
            "batch": (batch_size, queries, keys),
            "heads": (batch_size, num_heads, queries, keys),
        }
        generator = torch.Generator().manual_seed(draw_(st.integers(0, 1000)))
        pairs = torch.rand(shapes[kind], generator=generator) < 0.4
        pairs[..., 0] = False
    return padding, pairs


@settings(deadline=None)
@given(
    data=st.data(),
    num_heads=st.integers(1, 4),
    head_dim=st.integers(1, 6),
    value_head_dim=st.integers(1, 6),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    batch_size=st.integers(1, 3),
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    bias=st.booleans(),
    score=st.sampled_from(["scaled_dot_product", "additive"]),
    seed=st.integers(0, 1000),
)
def test_same_as_the_torch_class(
    data: st.DataObject,
    num_heads: int,
    head_dim: int,
    value_head_dim: int,
    sizes: tuple[int, int, int, int],
    batch_size: int,
    queries: int,
    keys: int,
    bias: bool,
    score: Score,
    seed: int,
) -> None:
    query_size, key_size, value_size, output_size = sizes
    torch.manual_seed(seed)
    attention = MultiHeadAttention(
        num_heads=num_heads,
        query_size=query_size,
        key_size=key_size,
        value_size=value_size,
        head_dim=head_dim,
        value_head_dim=value_head_dim,
        output_size=output_size,
        bias=bias,
        score=score,
    ).double()
    query = draw(batch_size, queries, query_size, seed=seed)
    key = draw(batch_size, keys, key_size, seed=seed + 1)
    value = draw(batch_size, keys, value_size, seed=seed + 2)
    padding, pairs = data.draw(
        masks(batch_size=batch_size, num_heads=num_heads, queries=queries, keys=keys)
    )

    expected, expected_weights = multi_head_attention(
        query.numpy(),
        key.numpy(),
        value.numpy(),
        arrays(attention),
        num_heads=num_heads,
        key_padding_mask=None if padding is None else padding.numpy(),
        attention_mask=None if pairs is None else pairs.numpy(),
        score=score,
    )

    assert expected.dtype == expected_weights.dtype == np.float64
    for need_weights in (False, True):
        with torch.no_grad():
            found = attention(
                query.double(),
                key.double(),
                value.double(),
                key_padding_mask=padding,
                attention_mask=pairs,
                need_weights=need_weights,
            )
        np.testing.assert_allclose(found.hidden_states.numpy(), expected, rtol=0, atol=WITHIN)
        if need_weights:
            np.testing.assert_allclose(
                found.attention_weights.numpy(), expected_weights, rtol=0, atol=WITHIN
            )
    np.testing.assert_allclose(expected_weights.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    if padding is not None:
        hidden = np.broadcast_to(padding.numpy()[:, None, None, :], expected_weights.shape)
        assert (expected_weights[hidden] == 0.0).all()


def test_large_scores_do_not_overflow() -> None:
    weights = {f"{name}.weight": np.eye(2) for name in ("query", "key", "value", "output")}
    states = np.array([[[1e4, 0.0], [0.0, 1e4]]])

    output, attention = multi_head_attention(states, states, states, weights, num_heads=1)

    assert attention.tolist() == [[[[1.0, 0.0], [0.0, 1.0]]]]
    assert output.tolist() == states.tolist()


def test_the_reference_knows_no_torch() -> None:
    source = Path(reference.__file__).read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [node.names[0].name])
    }

    assert imported == {"collections.abc", "typing", "numpy", "numpy.typing"}

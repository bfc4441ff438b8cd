"""Dropout of a training step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from training.fit.dropout import ByteDropout, RowSlice, draw_for_slice


def drop(given_states: Tensor, p: float, *, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    dropped: Tensor = ByteDropout(p)(given_states)
    return dropped


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    p=st.floats(0.01, 0.99),
    seed=st.integers(0, 9),
)
def test_every_element_is_dropped_or_scaled(shape: list[int], p: float, seed: int) -> None:
    states = torch.randn(shape) + 10.0
    kept = round((1 - p) * 256)
    dropped = drop(states, p, seed=seed)
    is_kept = dropped != 0
    assert dropped.shape == states.shape
    assert torch.equal(dropped, torch.where(is_kept, states * (256 / kept), 0.0))


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_for(p: float) -> None:
    dropped = drop(torch.ones(1_000_000), p)
    # Five standard deviations of a million draws, and the step from one multiple to the next.
    share = float((dropped == 0).float().mean())
    assert share == pytest.approx(p, abs=0.0025 + 1 / 512)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_part_of_a_step_loses_what_it_loses_in_the_whole(parts: int) -> None:
    """Features, attention weights and what torch's own dropout zeroes."""
    states = torch.randn(8, 2, 6, 4)
    attention = nn.functional.scaled_dot_product_attention
    forwards = (
        ByteDropout(0.3),
        lambda given: nn.functional.dropout(given, 0.3),
        lambda given: attention(given, given, given, dropout_p=0.3),
    )
    for forward in forwards:
        torch.manual_seed(7)
        with sdpa_kernel([SDPBackend.MATH]):
            whole = forward(states)
        for first in range(parts):
            part = RowSlice(8, first, parts, 8 // parts)
            torch.manual_seed(7)
            with draw_for_slice(part):
                torch.testing.assert_close(forward(part.of(states)), whole[first::parts])

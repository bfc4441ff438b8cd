"""Padding of encodings to one batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.backends.eager import collate
from model.types import Encoding
from tests.matching import exactly


def encodings(*rows: list[int]) -> list[Encoding]:
    return [Encoding(input_ids=row, truncated=False) for row in rows]


def test_fixed_length_and_equal_lengths_without_a_mask() -> None:
    rows = encodings([2, 3], [2, 3])
    batch = collate(rows, pad_token_id=1, pad_to=4)
    assert batch.input_ids.tolist() == [[2, 3, 1, 1], [2, 3, 1, 1]]
    assert batch.key_padding_mask is not None
    assert batch.key_padding_mask.tolist() == [[False, False, True, True]] * 2
    assert collate(rows, pad_token_id=0).key_padding_mask is None
    elsewhere = collate(rows, pad_token_id=0, pad_to=4, device=torch.device("meta"))
    assert elsewhere.key_padding_mask is not None
    assert elsewhere.input_ids.device.type == elsewhere.key_padding_mask.device.type == "meta"


@pytest.mark.parametrize(
    ("rows", "pad_to", "message"),
    [
        ([[2, 7, 3], [2, 3]], 2, "pad_to is 2, but the longest text has 3 tokens"),
        ([], None, "a batch needs at least one encoding, got 0"),
        ([[2, 3], []], None, "text 1 of the batch has no tokens, needs at least 1"),
    ],
)
def test_what_is_no_batch_is_refused(
    rows: list[list[int]], pad_to: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        collate(encodings(*rows), pad_token_id=0, pad_to=pad_to)


@given(
    rows=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=6),
    pad_token_id=st.integers(0, 99),
)
def test_every_row_can_be_read_back(rows: list[list[int]], pad_token_id: int) -> None:
    batch = collate(encodings(*rows), pad_token_id=pad_token_id)
    mask = batch.key_padding_mask
    if mask is None:
        mask = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    assert (batch.input_ids.dtype, mask.dtype) == (torch.int64, torch.bool)
    assert [
        ids[~padded].tolist() for ids, padded in zip(batch.input_ids, mask, strict=True)
    ] == rows
    assert batch.input_ids[mask].eq(pad_token_id).all()

"""Batches of a step: what is in them, and when they are made."""

from collections.abc import Iterator

import numpy as np
import torch

from tests.builders import tiny_tokenizer
from training.fit.rows import Rows, load_batches
from training.machine import Accelerator

TEXTS = ["good film", "a bad, bad film", "good"]
PLACES = [[0, 2], [1], [2, 1, 0]]
CPU = Accelerator(torch.device("cpu"))


def rows(*, targets: bool = False) -> Rows:
    tokenizer = tiny_tokenizer()
    known = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], np.float32)
    encodings = [tokenizer.encode(text) for text in TEXTS]
    return Rows(encodings, [1, 0, 1], known if targets else None)


def test_a_batch_has_the_rows_of_its_places() -> None:
    known = rows()
    batches = list(load_batches(known, PLACES, pad_token_id=0, accelerator=CPU))

    assert [batch.label_ids.tolist() for batch in batches] == [[1, 1], [0], [1, 0, 1]]
    for batch, places in zip(batches, PLACES, strict=True):
        assert batch.targets is batch.label_ids
        read = [[token for token in ids if token] for ids in batch.inputs.input_ids.tolist()]
        assert read == [list(known.encodings[place].input_ids) for place in places]


def test_targets_are_those_of_the_rows() -> None:
    first, *_ = load_batches(rows(targets=True), PLACES, pad_token_id=0, accelerator=CPU)

    assert first.label_ids.tolist() == [1, 1]
    torch.testing.assert_close(first.targets, torch.tensor([[0.1, 0.9], [0.3, 0.7]]))


def test_one_batch_is_made_before_it_is_asked_for() -> None:
    made: list[int] = []

    def places() -> Iterator[list[int]]:
        for number, chosen in enumerate(PLACES):
            made.append(number)
            yield chosen

    seen = [list(made) for _ in load_batches(rows(), places(), pad_token_id=0, accelerator=CPU)]

    assert seen == [[0, 1], [0, 1, 2], [0, 1, 2]]


def test_no_places_no_batches() -> None:
    assert not list(load_batches(rows(), [], pad_token_id=0, accelerator=CPU))

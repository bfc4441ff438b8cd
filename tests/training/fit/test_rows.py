"""Steps: what is in them, how they are divided, and when they are loaded."""

import threading
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import tiny_tokenizer
from training.device import Accelerator
from training.fit.rows import EncodedRows, StepShare, load_steps

TEXTS = ["good film", "a bad, bad film", "good"]
PLACES = [[0, 2], [1], [2, 1, 0]]
CPU = Accelerator(torch.device("cpu"))


def rows(*, targets: bool = False) -> EncodedRows:
    tokenizer = tiny_tokenizer()
    known = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], np.float32)
    encodings = [tokenizer.encode(text) for text in TEXTS]
    return EncodedRows(encodings, [1, 0, 1], known if targets else None)


def test_a_step_has_the_rows_of_its_places() -> None:
    known = rows()
    steps = list(load_steps(known, PLACES, pad_token_id=0, accelerator=CPU))
    batches = [batch for step in steps for batch in step.batches]
    parts = [[(part.total, part.count) for part in step.parts] for step in steps]
    assert parts == [[(2, 2)], [(1, 1)], [(3, 3)]]
    assert [batch.label_ids.tolist() for batch in batches] == [[1, 1], [0], [1, 0, 1]]
    for batch, places in zip(batches, PLACES, strict=True):
        assert batch.targets is batch.label_ids
        read = [[token for token in ids if token] for ids in batch.inputs.input_ids.tolist()]
        assert read == [list(known.encodings[place].input_ids) for place in places]


def test_targets_are_those_of_the_rows() -> None:
    step, *_ = load_steps(rows(targets=True), PLACES, pad_token_id=0, accelerator=CPU)
    (first,) = step.batches
    assert first.label_ids.tolist() == [1, 1]
    torch.testing.assert_close(first.targets, torch.tensor([[0.1, 0.9], [0.3, 0.7]]))


def test_the_next_steps_are_loaded_while_a_gpu_is_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [threading.Event() for _ in PLACES]

    def load(*given: Any) -> Any:  # noqa: ANN401
        assert threading.current_thread().name.startswith("load")
        loaded[PLACES.index(given[-1])].set()
        return given[-1]

    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr("training.fit.rows._load", load)
    threads = threading.active_count()
    gpu = Accelerator(torch.device("cuda", 0))
    steps: Any = load_steps(rows(), PLACES, pad_token_id=0, accelerator=gpu)

    assert next(steps) == PLACES[0]
    assert all(each.wait(300) for each in loaded)  # and nothing asks for them
    assert list(steps) == PLACES[1:]
    ended = load_steps(rows(), PLACES, pad_token_id=0, accelerator=gpu)
    with closing(ended):
        next(ended)
    assert threading.active_count() == threads


@given(rows=st.integers(1, 40), processes=st.integers(1, 5), passes=st.integers(1, 4))
def test_every_row_counts_once_in_one_pass_of_one_process(
    rows: int, processes: int, passes: int
) -> None:
    places = np.arange(rows)
    counted: list[int] = []
    for process in range(processes):
        share = StepShare(process, processes, passes)
        for part in share.parts(rows):
            taken = places[part.first :: part.step].tolist()
            assert taken  # every pass has a row, because all processes exchange gradients
            counted += taken[: part.count]
            assert part.count in (0, len(taken))
    assert sorted(counted) == places.tolist()


def test_all_passes_of_a_step_have_the_length_of_its_longest_text() -> None:
    (step,) = load_steps(
        rows(), [[0, 1, 2]], pad_token_id=0, accelerator=CPU, share=StepShare(passes=3)
    )
    longest = max(len(encoding.input_ids) for encoding in rows().encodings)
    assert [batch.inputs.input_ids.shape for batch in step.batches] == [(1, longest)] * 3
    assert [batch.label_ids.tolist() for batch in step.batches] == [[1], [0], [1]]

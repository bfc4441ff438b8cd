"""The peer that batches by tokens, with an engine that records its batches."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from benchmarks.peers.by_hand_app import (
    Batcher,
    Ids,
    Logits,
    TransformersEngine,
    create_app,
    padded,
    read_network,
)
from tests.builders import tiny_checkpoint

BUDGET = 12


class FakeEngine:
    """Says of each text how many tokens it has, and waits while the test holds it."""

    def __init__(self, streams: int = 1, *, fails_on: int | None = None) -> None:
        self.streams = streams
        self.passes: list[tuple[list[int], bool]] = []
        self._fails_on = fails_on
        self._may_run = threading.Event()
        self._may_run.set()

    def run(self, ids: Ids, mask: Ids, *, use_all_cores: bool) -> Logits:
        assert self._may_run.wait(30)
        assert ids.shape == mask.shape
        assert np.array_equal(ids != 0, mask == 1)
        lengths = mask.sum(axis=1)
        assert ids.shape[1] == lengths.max()
        self.passes.append((lengths.tolist(), use_all_cores))
        if self._fails_on in lengths:
            raise RuntimeError("the engine failed")
        # The first label is more probable for every text of more than 4 tokens.
        return np.stack([lengths, np.full_like(lengths, 4)], axis=1).astype(np.float32)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._may_run.clear()
        try:
            yield
        finally:
            self._may_run.set()


def text(tokens: int) -> list[int]:
    return [7] * tokens


async def asked(batcher: Batcher, *requests: list[int]) -> list[object]:
    """What requests at the same time get: the lengths that the engine saw, or its error."""
    found = await asyncio.wait_for(
        asyncio.gather(
            *(batcher.logits([text(tokens) for tokens in request]) for request in requests),
            return_exceptions=True,
        ),
        30,
    )
    return [
        each if isinstance(each, BaseException) else [int(row[0]) for row in each] for each in found
    ]


def test_requests_that_wait_share_batches_of_similar_length_within_the_budget() -> None:
    engine = FakeEngine()

    async def ask() -> list[object]:
        batcher = Batcher(engine, max_batch_tokens=BUDGET)
        with engine.held():
            first = asyncio.create_task(asked(batcher, [1]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            others = asyncio.create_task(asked(batcher, [2, 6, 3], [5], [3, 40, 2]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return [*await first, *await others]

    assert asyncio.run(ask()) == [[1], [2, 6, 3], [5], [3, 40, 2]]
    # Each is the batch of the oldest text that waits, when all are sorted by length.
    assert engine.passes == [([1], True), ([2, 2, 3, 3], False), ([5, 6], False), ([40], True)]


def test_idle_streams_share_what_waits() -> None:
    engine = FakeEngine(streams=2)
    batcher = Batcher(engine, max_batch_tokens=100)
    assert asyncio.run(asked(batcher, [4, 5, 5, 4])) == [[4, 5, 5, 4]]
    assert sorted(engine.passes) == [([4, 4], False), ([5, 5], False)]


def test_an_error_of_the_engine_reaches_its_requests_and_no_others() -> None:
    engine = FakeEngine(fails_on=9)

    async def ask() -> tuple[list[object], list[object]]:
        batcher = Batcher(engine, max_batch_tokens=BUDGET)
        return await asked(batcher, [3], [9, 2], [4]), await asked(batcher, [5, 1])

    (one, failed, two), after = asyncio.run(ask())
    assert (one, two, after) == ([3], [4], [[5, 1]])
    assert isinstance(failed, RuntimeError)
    assert str(failed) == "the engine failed"


def test_the_server_answers_in_the_form_of_the_peers(checkpoint_folder: Path) -> None:
    app = create_app(checkpoint_folder, FakeEngine(streams=2), max_batch_tokens=512)
    with TestClient(app) as client:
        long, short = "a good film " * 600, "a"
        answer = client.post("/predict", json={"sentences": [short, long, short]})
    assert answer.status_code == 200
    first, _, third = found = answer.json()
    assert first == third
    assert [set(each) for each in found] == [{"label", "score"}] * 3
    # Of a text of 3 tokens the engine says 3 and 4.
    assert (first["label"], first["score"]) == ("positive", pytest.approx(1 / (1 + np.exp(-1))))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_networks_answer_as_that_of_transformers(tmp_path: Path) -> None:
    network = read_network(tiny_checkpoint(tmp_path / "tiny"))
    texts = [[3, 4, 5, 6], [3, 7], [5, 3, 9]]
    with torch.inference_mode():
        exported_logits = network(*map(torch.from_numpy, padded(texts)))
        expected = [network.classifier(torch.tensor([text])).logits[0] for text in texts]
    torch.testing.assert_close(exported_logits, torch.stack(expected), atol=1e-5, rtol=0)
    engine = TransformersEngine(tmp_path / "tiny", "cpu")
    logits = torch.from_numpy(engine.run(*padded(texts), use_all_cores=False))
    torch.testing.assert_close(logits, torch.stack(expected), atol=1e-5, rtol=0)

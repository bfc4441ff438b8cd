"""The peers that batch by tokens, with an engine that tells what it was given."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from benchmarks.passes import batches
from benchmarks.peers import exported
from benchmarks.peers.batching import Batcher, Ids, Logits, padded
from benchmarks.peers.batching_app import answers, create_app
from benchmarks.peers.limit import rate

BUDGET = 12


class FakeEngine:
    """Says of each text how many tokens it has, and waits while the test holds it."""

    def __init__(self, lanes: int = 1, *, fails_on: int | None = None) -> None:
        self.lanes = lanes
        self.passes: list[tuple[list[int], bool]] = []
        self.lanes_used: set[int] = set()
        self._fails_on = fails_on
        self._may_run = threading.Event()
        self._may_run.set()

    def run(self, ids: Ids, mask: Ids, *, lane: int, alone: bool) -> Logits:
        assert self._may_run.wait(30)
        assert ids.shape == mask.shape
        assert np.array_equal(ids != 0, mask == 1)
        lengths = mask.sum(axis=1)
        assert ids.shape[1] == lengths.max()
        self.passes.append((lengths.tolist(), alone))
        self.lanes_used.add(lane)
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
    assert engine.passes == [
        ([1], True),
        ([2, 2, 3, 3], False),
        ([5, 6], False),
        ([40], True),
    ]


def test_a_text_on_an_idle_engine_starts_at_once_and_alone() -> None:
    engine = FakeEngine(lanes=2)

    assert asyncio.run(asked(Batcher(engine, max_batch_tokens=BUDGET), [4])) == [[4]]

    assert engine.passes == [([4], True)]


def test_idle_lanes_share_what_waits() -> None:
    engine = FakeEngine(lanes=2)

    batcher = Batcher(engine, max_batch_tokens=100)
    assert asyncio.run(asked(batcher, [4, 5, 5, 4])) == [[4, 5, 5, 4]]

    assert sorted(engine.passes) == [([4, 4], False), ([5, 5], False)]
    assert engine.lanes_used == {0, 1}


def test_an_error_of_the_engine_reaches_its_requests_and_no_others() -> None:
    engine = FakeEngine(fails_on=9)

    async def ask() -> tuple[list[object], list[object]]:
        batcher = Batcher(engine, max_batch_tokens=BUDGET)
        return await asked(batcher, [3], [9, 2], [4]), await asked(batcher, [5, 1])

    (one, failed, two), after = asyncio.run(ask())

    assert (one, two, after) == ([3], [4], [[5, 1]])
    assert isinstance(failed, RuntimeError)
    assert str(failed) == "the engine failed"


def test_a_request_without_texts_is_answered() -> None:
    assert asyncio.run(asked(Batcher(FakeEngine(), max_batch_tokens=BUDGET), [])) == [[]]


def test_the_server_answers_in_the_form_of_the_peers(checkpoint_folder: Path) -> None:
    app = create_app(checkpoint_folder, FakeEngine(lanes=2), max_batch_tokens=512)

    with TestClient(app) as client:
        long, short = "a good film " * 600, "a"
        answer = client.post("/predict", json={"sentences": [short, long, short]})

    assert answer.status_code == 200
    first, _, third = found = answer.json()
    assert first == third
    assert [set(each) for each in found] == [{"label", "score"}] * 3


def test_a_label_has_the_probability_of_the_softmax() -> None:
    rows = [np.log(np.array([1, 3], np.float32)), np.array([1000, 0], np.float32)]

    low, high = answers(rows, ["negative", "positive"])

    assert low["label"] == "positive"
    assert low["score"] == pytest.approx(0.75)
    assert high == {"label": "negative", "score": 1.0}


def test_batches_are_sorted_and_within_the_budget_unless_one_text_exceeds_it() -> None:
    assert batches([5, 2, 30, 2, 3], BUDGET, length=int) == [[2, 2, 3], [5], [30]]


def test_texts_are_padded_to_the_longest() -> None:
    ids, mask = padded([[5], [6, 7]])

    assert ids.tolist() == [[5, 0], [6, 7]]
    assert mask.tolist() == [[1, 0], [1, 1]]


def test_an_engine_is_measured_alone_on_all_its_lanes_and_with_the_same_batches() -> None:
    engine = FakeEngine(lanes=2)
    texts = [text(tokens) for tokens in (2, 5, 6, 2)]

    assert rate(engine, texts, max_batch_tokens=BUDGET, seconds=0.01) > 0

    assert {tuple(lengths) for lengths, _ in engine.passes} == {(2, 2), (5, 6)}
    assert not any(alone for _, alone in engine.passes)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    return tmp_path


def test_a_checkpoint_is_exported_once_until_its_weights_change(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> None:
        assert check
        called.append(command[1:-1])
        file = Path(command[-1])
        file.write_text("network", encoding="utf-8")
        file.with_suffix(".bin").write_text("weights", encoding="utf-8")

    monkeypatch.setattr("subprocess.run", run)

    def export(precision: str) -> Path:
        exporter = "benchmarks.peers.openvino_export"
        return exported.exported(
            checkpoint, exporter, precision, ".xml", folder=tmp_path / "exported"
        )

    first = export("bf16")
    assert export("bf16") == first
    assert export("int8").parent == first.parent
    (checkpoint / "model.safetensors").write_text("others", encoding="utf-8")
    assert export("bf16").parent != first.parent

    options = ["-m", "benchmarks.peers.openvino_export", "--checkpoint", str(checkpoint)]
    assert called == [
        [*options, "--precision", precision] for precision in ("bf16", "int8", "bf16")
    ]
    assert sorted(path.name for path in first.parent.iterdir()) == [
        "bf16.bin",
        "bf16.xml",
        "int8.bin",
        "int8.xml",
    ]

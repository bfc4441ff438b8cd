"""The queue: nothing is mixed, lost or reordered, and nobody waits for ever."""

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import Encoding, Explanation, Prediction
from service.batcher import Batcher
from service.errors import DrainingError, InternalError, OverloadedError
from service.metrics import Metrics

Result = TypeVar("Result")
FAILING = 13  # a text with this id makes its pass fail


def encoding(identity: int, length: int = 1) -> Encoding:
    """A text of some length that can be told from all others."""
    return Encoding([identity] * length, truncated=False)


def prediction(text: Encoding) -> Prediction:
    """What `Recorder` says of a text: which one it was."""
    return Prediction(str(text.input_ids[0]), 1.0, {"a": 1.0}, len(text.input_ids), False)


class Recorder:
    """Stands for the network: notes what came together."""

    def __init__(self) -> None:
        self.batches: list[list[Encoding]] = []

    def classify(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Tells each text which it was, unless one of them makes the pass fail."""
        self.batches.append(list(encodings))
        if any(text.input_ids[0] == FAILING for text in encodings):
            raise RuntimeError("told to fail")
        return [prediction(text) for text in encodings]


class Setting:
    """A batcher with what surrounds it."""

    def __init__(self, *, max_batch_tokens: int = 8, max_queue_tokens: int = 1000) -> None:
        self.recorder = Recorder()
        self.metrics = Metrics([])
        self.passes: list[Exception | None] = []
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.batcher = Batcher(
            self.recorder.classify,
            executor=self.executor,
            max_batch_tokens=max_batch_tokens,
            max_queue_tokens=max_queue_tokens,
            metrics=self.metrics,
            on_pass=self.passes.append,
        )

    def value(self, name: str) -> float | None:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name)

    async def close(self) -> None:
        """Ends the batcher and its thread."""
        await self.batcher.close()
        self.executor.shutdown()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs on an event loop, and never for ever."""
    return asyncio.run(asyncio.wait_for(work, 30))


requests = st.lists(
    st.tuples(
        st.lists(st.integers(1, 12), min_size=1, max_size=8),  # lengths of the texts
        st.sampled_from(["wait", "wait", "wait", "cancel", "fail"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(requests, st.integers(1, 30))
def test_random_requests_get_their_own_answers_in_their_order(
    plans: list[tuple[list[int], str]], max_batch_tokens: int
) -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=max_batch_tokens)
        requested = _texts_of(plans)
        tasks = []
        for texts, (_, fate) in zip(requested, plans, strict=True):
            tasks.append(asyncio.create_task(setting.batcher.predict(texts)))
            await asyncio.sleep(0)
            if fate == "cancel":
                tasks[-1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [batch for batch in setting.recorder.batches if _fails(batch)]
        victims = {text.input_ids[0] for batch in failed for text in batch}
        for texts, (_, fate), result in zip(requested, plans, results, strict=True):
            _check_result(texts, fate, result, victims)
        _check_batches(setting, max_batch_tokens)
        assert setting.passes.count(None) == len(setting.recorder.batches) - len(failed)
        assert setting.value("headlight_queue_tokens") == 0
        assert setting.value("headlight_queue_requests") == 0
        await setting.close()

    run(work())


def _texts_of(plans: list[tuple[list[int], str]]) -> list[list[Encoding]]:
    """Texts with identities of their own; the last of a failing request makes its pass fail."""
    identities = itertools.count(100)
    requested = []
    for lengths, fate in plans:
        texts = [encoding(next(identities), length) for length in lengths]
        if fate == "fail":
            texts[-1] = encoding(FAILING, lengths[-1])
        requested.append(texts)
    return requested


def _check_result(
    texts: list[Encoding], fate: str, result: list[Prediction] | BaseException, victims: set[int]
) -> None:
    """A request fails only with a pass that it was part of; else it gets its own answers."""
    if isinstance(result, InternalError):
        assert victims & {text.input_ids[0] for text in texts}
    elif isinstance(result, asyncio.CancelledError):
        assert fate == "cancel"
    else:
        assert fate != "fail"
        assert result == [prediction(text) for text in texts]


def _fails(batch: list[Encoding]) -> bool:
    return any(text.input_ids[0] == FAILING for text in batch)


def _check_batches(setting: Setting, max_batch_tokens: int) -> None:
    seen: set[int] = set()
    for batch in setting.recorder.batches:
        longest = max(len(text.input_ids) for text in batch)
        assert len(batch) == 1 or longest * len(batch) <= max_batch_tokens
        identities = [text.input_ids[0] for text in batch if text.input_ids[0] != FAILING]
        assert not seen & set(identities)
        seen |= set(identities)


def test_requests_that_wait_share_a_pass() -> None:
    async def work() -> list[int]:
        setting = Setting(max_batch_tokens=100)
        await asyncio.gather(
            *(setting.batcher.predict([encoding(number)]) for number in range(20, 30))
        )
        await setting.close()
        return [len(batch) for batch in setting.recorder.batches]

    assert run(work()) == [10]


def test_a_large_request_is_spread_and_sorted_so_that_little_is_padding() -> None:
    async def work() -> list[list[int]]:
        setting = Setting(max_batch_tokens=6)
        texts = [encoding(20 + place, length) for place, length in enumerate((6, 1, 2, 1, 3, 3, 9))]
        answers = await setting.batcher.predict(texts)
        assert answers == [prediction(text) for text in texts]
        await setting.close()
        return [[len(text.input_ids) for text in batch] for batch in setting.recorder.batches]

    assert run(work()) == [[1, 1, 2], [3, 3], [6], [9]]


def test_the_queue_admits_up_to_its_last_token() -> None:
    async def work() -> None:
        setting = Setting(max_queue_tokens=10)
        waiting = [
            asyncio.create_task(setting.batcher.predict([encoding(20, 6)])),
            asyncio.create_task(setting.batcher.predict([encoding(21, 4)])),
        ]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as refused:
            await setting.batcher.predict([encoding(22, 1)])
        assert refused.value.detail == (
            "10 tokens are waiting, the request has 1, and the queue holds 10: come back later, "
            "or try another replica."
        )
        # 10 tokens at the first guess of 8 tokens a second
        assert refused.value.retry_after == 2
        for task in waiting:
            assert len(await task) == 1
        assert len(await setting.batcher.predict([encoding(22, 10)])) == 1
        await setting.close()

    run(work())


def test_a_cancelled_waiter_leaves_its_place_at_once() -> None:
    async def work() -> None:
        setting = Setting(max_queue_tokens=10)
        gone = asyncio.create_task(setting.batcher.predict([encoding(20, 10)]))
        await asyncio.sleep(0)
        assert setting.value("headlight_queue_tokens") == 10
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert setting.value("headlight_queue_tokens") == 0
        assert await setting.batcher.predict([encoding(21, 10)]) == [prediction(encoding(21, 10))]
        assert [[text.input_ids[0] for text in batch] for batch in setting.recorder.batches] == [
            [21]
        ]
        await setting.close()

    run(work())


def test_closing_answers_all_who_wait_and_refuses_the_rest() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=1)
        waiting = [
            asyncio.create_task(setting.batcher.predict([encoding(20 + number)]))
            for number in range(5)
        ]
        await asyncio.sleep(0)
        await setting.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        served = [result for result in results if not isinstance(result, DrainingError)]
        assert len(served) == len(setting.recorder.batches)
        assert len(results) - len(served) >= 3
        with pytest.raises(DrainingError):
            await setting.batcher.predict([encoding(30)])
        assert setting.value("headlight_queue_tokens") == 0

    run(work())


def test_an_explanation_has_a_pass_of_its_own_in_the_order_of_coming() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=100)

        def explain() -> Explanation:
            text = encoding(50)
            return Explanation(
                prediction(text), text, (0,), (0,), np.ones((1, 1, 1, 1), np.float32)
            )

        first = asyncio.create_task(setting.batcher.predict([encoding(20)]))
        await asyncio.sleep(0)
        explaining = asyncio.create_task(setting.batcher.explain(encoding(50), explain))
        await asyncio.sleep(0)
        last = asyncio.create_task(setting.batcher.predict([encoding(21)]))
        assert (await explaining).prediction == prediction(encoding(50))
        assert await first == [prediction(encoding(20))]
        assert await last == [prediction(encoding(21))]
        assert len(setting.recorder.batches) == 2  # not one: the explanation stood between them
        assert setting.value("headlight_batch_texts_count") == 3
        await setting.close()

    run(work())


def test_a_failing_explanation_fails_alone() -> None:
    async def work() -> None:
        setting = Setting()

        def explain() -> Explanation:
            raise ValueError("told to fail")

        with pytest.raises(InternalError):
            await setting.batcher.explain(encoding(50), explain)
        assert await setting.batcher.predict([encoding(20)]) == [prediction(encoding(20))]
        assert [type(error) for error in setting.passes] == [ValueError, type(None)]
        assert setting.value("headlight_forward_failures_total") == 1
        await setting.close()

    run(work())

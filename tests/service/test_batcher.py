"""The queue: nothing is mixed, lost or reordered, and nobody waits for ever."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
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
HOLDING = 7
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
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.begun: list[list[Encoding]] = []

    def classify(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Tells each text which it was, unless one of them makes the pass fail."""
        self.begun.append(list(encodings))
        self.entered.release()
        assert self.gate.wait(20)
        self.batches.append(list(encodings))
        if any(text.input_ids[0] == FAILING for text in encodings):
            raise RuntimeError("told to fail")
        return [prediction(text) for text in encodings]


class Setting:
    """A batcher with what surrounds it."""

    def __init__(
        self, *, max_batch_tokens: int = 8, max_queue_tokens: int = 1000, lanes: int = 1
    ) -> None:
        self.recorder = Recorder()
        self.metrics = Metrics([])
        self.passes: list[Exception | None] = []
        self.threads: list[int] = []
        self.executor = ThreadPoolExecutor(max_workers=lanes)
        self.batcher = Batcher(
            self.recorder.classify,
            executor=self.executor,
            lanes=lanes,
            use_threads=self.threads.append,
            max_batch_tokens=max_batch_tokens,
            max_queue_tokens=max_queue_tokens,
            metrics=self.metrics,
            on_pass=self.passes.append,
        )

    def value(self, name: str) -> float | None:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keeps a lane in a pass of one token, so that with one lane what comes waits."""
        self.recorder.gate.clear()
        holding = asyncio.create_task(self.batcher.predict([encoding(HOLDING)]))
        while not any(
            text.input_ids[0] == HOLDING for batch in self.recorder.begun for text in batch
        ):
            assert await asyncio.to_thread(self.recorder.entered.acquire, timeout=20)
        try:
            yield
        finally:
            self.recorder.gate.set()
            await asyncio.gather(holding, return_exceptions=True)

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
@given(requests, st.integers(1, 30), st.integers(1, 3))
def test_random_requests_get_their_own_answers_in_their_order(
    plans: list[tuple[list[int], str]], max_batch_tokens: int, lanes: int
) -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=max_batch_tokens, lanes=lanes)
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
        assert setting.value("headlight_queue_tokens") == 0
        assert setting.value("headlight_queue_requests") == 0
        await setting.close()
        _check_batches(setting, max_batch_tokens)
        # A pass that nobody waits for any more may have failed after the answers came.
        failed = [batch for batch in setting.recorder.batches if _fails(batch)]
        assert setting.passes.count(None) == len(setting.recorder.batches) - len(failed)

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
        async with setting.held():
            waiting = [
                asyncio.create_task(setting.batcher.predict([encoding(number)]))
                for number in range(20, 30)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        await setting.close()
        return [len(batch) for batch in setting.recorder.batches]

    assert run(work()) == [1, 10]


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
        async with setting.held():
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
        async with setting.held():
            gone = asyncio.create_task(setting.batcher.predict([encoding(20, 10)]))
            await asyncio.sleep(0)
            assert setting.value("headlight_queue_tokens") == 10
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            assert setting.value("headlight_queue_tokens") == 0
        assert await setting.batcher.predict([encoding(21, 10)]) == [prediction(encoding(21, 10))]
        assert [[text.input_ids[0] for text in batch] for batch in setting.recorder.batches] == [
            [HOLDING],
            [21],
        ]
        await setting.close()

    run(work())


def test_closing_answers_all_who_wait_and_refuses_the_rest() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=1)
        async with setting.held():
            waiting = [
                asyncio.create_task(setting.batcher.predict([encoding(20 + number)]))
                for number in range(5)
            ]
            await asyncio.sleep(0)
            closing = asyncio.create_task(setting.close())
            await asyncio.sleep(0)
        await closing
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [DrainingError] * 5
        assert [len(batch) for batch in setting.recorder.batches] == [1]  # the one in hand
        with pytest.raises(DrainingError):
            await setting.batcher.predict([encoding(30)])
        assert setting.value("headlight_queue_tokens") == 0

    run(work())


def test_an_explanation_has_a_pass_of_its_own() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=100)

        def explain() -> Explanation:
            text = encoding(50)
            return Explanation(
                prediction(text), text, (0,), (0,), np.ones((1, 1, 1, 1), np.float32)
            )

        async with setting.held():
            first = asyncio.create_task(setting.batcher.predict([encoding(20)]))
            explaining = asyncio.create_task(setting.batcher.explain(encoding(50), explain))
            last = asyncio.create_task(setting.batcher.predict([encoding(21)]))
            await asyncio.sleep(0)
        assert (await explaining).prediction == prediction(encoding(50))
        assert await first == [prediction(encoding(20))]
        assert await last == [prediction(encoding(21))]
        await setting.close()
        assert [len(batch) for batch in setting.recorder.batches] == [1, 2]
        assert setting.value("headlight_batch_texts_count") == 3

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


def test_as_many_passes_run_at_once_as_there_are_lanes() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def explain() -> Explanation:
        meeting.wait()  # breaks unless all three are in their passes
        text = encoding(50)
        return Explanation(prediction(text), text, (0,), (0,), np.ones((1, 1, 1, 1), np.float32))

    async def work() -> None:
        setting = Setting(lanes=3)
        explanations = await asyncio.gather(
            *(setting.batcher.explain(encoding(50), explain) for _ in range(3))
        )
        assert [each.prediction for each in explanations] == [prediction(encoding(50))] * 3
        await setting.close()

    run(work())


def test_what_waits_is_shared_among_the_lanes() -> None:
    async def work() -> list[int]:
        setting = Setting(max_batch_tokens=1000, lanes=2)
        await setting.batcher.predict([encoding(20 + number, 10) for number in range(40)])
        await setting.close()
        return [len(batch) for batch in setting.recorder.batches]

    assert max(run(work())) == 20


def test_a_long_text_that_comes_alone_has_all_threads() -> None:
    async def work() -> list[int]:
        setting = Setting(max_batch_tokens=1000, lanes=4)
        await setting.batcher.predict([encoding(20, 300)])
        async with setting.held():
            await setting.batcher.run(lambda: None)
        await setting.close()
        return setting.threads

    first, *others = run(work())
    assert first == 4
    assert set(others) == {1}


def test_while_short_texts_come_one_lane_is_theirs() -> None:
    async def work() -> list[list[int]]:
        setting = Setting(max_batch_tokens=1000, lanes=2)
        recorder = setting.recorder
        recorder.gate.clear()
        waiting = [asyncio.create_task(setting.batcher.predict([encoding(20, 300)]))]
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=20)
        texts = [encoding(21, 300), encoding(22, 10)]  # the long one was there first
        with setting.batcher._changed:  # so that no lane sees the one without the other
            for text in texts:
                waiting.append(asyncio.create_task(setting.batcher.predict([text])))
                await asyncio.sleep(0)
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=20)
        begun = [[len(text.input_ids) for text in batch] for batch in recorder.begun]
        recorder.gate.set()
        await asyncio.gather(*waiting)
        await setting.close()
        return begun

    assert run(work()) == [[300], [10]]


def test_without_short_texts_all_lanes_take_long_ones() -> None:
    meeting = threading.Barrier(2, timeout=20)

    async def work() -> None:
        setting = Setting(max_batch_tokens=1000, lanes=2)
        answer = setting.recorder.classify

        def meet(encodings: Sequence[Encoding]) -> list[Prediction]:
            meeting.wait()  # breaks unless both are in their passes
            return answer(encodings)

        setting.batcher._classify = meet
        await asyncio.gather(
            *(setting.batcher.predict([encoding(20 + number, 300)]) for number in range(2))
        )
        await setting.close()

    run(work())


def test_something_else_runs_on_a_lane_and_is_no_pass() -> None:
    async def work() -> None:
        setting = Setting()
        names: list[str] = []
        await setting.batcher.run(lambda: names.append(threading.current_thread().name))
        assert names != [threading.current_thread().name]

        def fail() -> None:
            raise ValueError("told to fail")

        with pytest.raises(InternalError) as failed:
            await setting.batcher.run(fail)
        assert isinstance(failed.value.__cause__, ValueError)
        await setting.close()
        assert setting.passes == []
        assert setting.value("headlight_forward_failures_total") == 0

    run(work())

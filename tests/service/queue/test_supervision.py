"""Faults that only a later success clears, and workers that stop unexpectedly."""

import asyncio
import threading
from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import Encoding, Prediction
from service.errors import InternalError, NotReadyError
from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue.engine import Faults
from service.queue.scheduler import Schedule
from service.queue.waiting import MOST_ENDS, WITHIN_PASSES, Ends, Workers
from service.queue.work_items import Job
from tests.matching import exactly
from tests.service.connections import until
from tests.service.queueing import Setting, encoding, prediction

events = st.lists(
    st.tuples(st.sampled_from([FUSED, EXPLICIT, GRADIENT]), st.booleans(), st.integers(0, 9))
)


@given(events)
def test_only_what_began_after_a_fault_clears_it(
    passes: list[tuple[str, bool, int]],
) -> None:
    faults = Faults()
    newest: dict[str, int] = {}
    for now, (path, works, earlier) in enumerate(passes, start=10):
        began = now - earlier
        if works:
            faults.clear(path, began)  # type: ignore[arg-type]
            if newest.get(path, -1) <= began:
                newest.pop(path, None)
        else:
            faults.note(path, now)  # type: ignore[arg-type]
            newest[path] = now
        assert sorted(faults.paths) == sorted(newest)
        assert bool(faults) == bool(newest)


def test_a_worker_may_end_now_and_then_but_not_again_and_again() -> None:
    ends = Ends()
    assert [ends.note(0) for _ in range(MOST_ENDS)] == [True] * (MOST_ENDS - 1) + [False]
    seldom = Ends()
    assert all(seldom.note(number * WITHIN_PASSES) for number in range(10))


class Panic(BaseException):
    """What is no Exception."""


async def test_the_texts_of_a_worker_that_ends_are_answered_and_the_next_worker_goes_on() -> None:
    setting = Setting(max_batch_tokens=2)
    classify = setting.recorder.classify

    def panic(encodings: Sequence[Encoding]) -> list[Prediction]:
        if any(text.input_ids[0] == 20 for text in encodings):
            raise Panic
        return classify(encodings)

    setting.recorder.classify = panic  # type: ignore[method-assign]
    async with setting.held():
        asked = [
            asyncio.create_task(setting.batcher.predict([encoding(number)]))
            for number in (20, 20, 21, 22, 23)
        ]
        await asyncio.sleep(0)
    first, second, *others = await asyncio.gather(*asked, return_exceptions=True)
    for lost in (first, second):
        assert isinstance(lost, InternalError)
        assert isinstance(lost.__cause__, Panic)
    assert others == [[prediction(encoding(number))] for number in (21, 22, 23)]
    assert setting.lost == []
    assert setting.passes == [None] * 3  # a worker that ended is no pass
    assert setting.batcher.queue.longest_pass() == 0.0
    assert setting.value("headlight_queue_tokens") == 0
    await setting.close()


FAULTS = [(Schedule, "take"), (Workers, "begin"), (Workers, "end")]


@pytest.mark.parametrize(("owner", "name"), FAULTS)
@pytest.mark.parametrize("workers", [1, 3])
async def test_whatever_ends_a_worker_nobody_waits_for_ever(
    owner: type[object], name: str, workers: int
) -> None:
    """Every request has an answer, and afterwards the queue works as before."""
    real = getattr(owner, name)
    failing = threading.Event()

    def misbehave(*args: object, **options: object) -> object:
        if failing.is_set():
            failing.clear()
            raise MemoryError("told to fail")
        return real(*args, **options)

    setting = Setting(max_batch_tokens=4, workers=workers)
    for _ in range(20):
        assert len(await setting.batcher.predict([encoding(1)])) == 1
    with mock.patch.object(owner, name, misbehave):
        failing.set()
        asked = [
            asyncio.create_task(setting.batcher.predict([encoding(20 + number, 2)]))
            for number in range(9)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for number, answer in enumerate(answers):
            if not isinstance(answer, InternalError):
                assert answer == [prediction(encoding(20 + number, 2))]
        await until(lambda: not failing.is_set())
        texts = [encoding(40 + number, 3) for number in range(20)]
        assert await setting.batcher.predict(texts) == [prediction(text) for text in texts]
    assert setting.lost == []
    assert setting.value("headlight_queue_tokens") == 0
    assert setting.value("headlight_queue_requests") == 0
    assert not setting.batcher.queue._started
    assert not setting.batcher.queue._admission._shares
    await setting.close()
    assert all(worker.done() for worker in setting.batcher._workers)


async def test_a_worker_that_ends_again_and_again_is_given_up_and_all_who_wait_are_told() -> None:
    setting = Setting(max_batch_tokens=1)
    setting.recorder.classify = mock.Mock(side_effect=Panic)  # type: ignore[method-assign]
    for _ in range(MOST_ENDS):
        assert setting.lost == []
        with pytest.raises(InternalError):
            await setting.batcher.predict([encoding(20)])
    await until(lambda: bool(setting.lost))
    waiting = asyncio.create_task(setting.batcher.predict([encoding(21)]))
    await asyncio.sleep(0)
    setting.batcher.give_up("It is over.")
    with pytest.raises(NotReadyError, match=exactly("It is over.")) as told:
        await waiting
    assert told.value.retry_after == 1
    assert await setting.batcher.close(1.0)
    setting.executor.shutdown()


async def test_an_executor_without_threads_cannot_replace_a_worker() -> None:
    setting = Setting()
    setting.executor.shutdown(wait=False)
    setting.recorder.classify = mock.Mock(side_effect=Panic)  # type: ignore[method-assign]
    with pytest.raises(InternalError):
        await setting.batcher.predict([encoding(20)])
    await until(lambda: bool(setting.lost))
    await setting.close()


async def test_a_report_that_fails_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    with mock.patch.object(setting.metrics, "observe_pass", side_effect=RuntimeError):
        assert len(await setting.batcher.predict([encoding(20)])) == 1
        await asyncio.sleep(0)
    assert len(await setting.batcher.predict([encoding(21)])) == 1
    await setting.close()
    assert [record.getMessage() for record in caplog.records] == ["the report of a pass failed"]


async def test_a_pass_with_too_few_results_fails() -> None:
    def fewer(encodings: Sequence[Encoding]) -> list[Prediction]:
        return [prediction(text) for text in encodings[:-1]]

    setting = Setting()
    setting.recorder.classify = fewer  # type: ignore[method-assign]
    with pytest.raises(InternalError) as failed:
        await setting.batcher.predict([encoding(20), encoding(21)])
    assert str(failed.value.__cause__) == "2 items got 1 results"
    await setting.close()


async def test_an_error_of_one_text_comes_in_its_place_or_is_the_answer() -> None:
    def bad_last(encodings: Sequence[Encoding]) -> list[Prediction | Exception]:
        return [*(prediction(text) for text in encodings[:-1]), ValueError("its own")]

    setting = Setting()
    setting.recorder.classify = bad_last  # type: ignore[method-assign, assignment]
    first, second = await setting.batcher.predict([encoding(20), encoding(21)])
    assert first == prediction(encoding(20))
    assert isinstance(second, InternalError)
    assert isinstance(second.__cause__, ValueError)
    with pytest.raises(InternalError) as failed:
        await setting.batcher.run([Job(lambda: ValueError("its own"), [encoding(20)])])
    assert isinstance(failed.value.__cause__, ValueError)
    await setting.close()
    assert setting.passes == [None, None]
    assert setting.value("headlight_forward_failures_total") == 0

"""The queue: nothing is mixed, lost or reordered, and nobody waits for ever."""

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import Encoding, Prediction
from service.errors import DrainingError, InternalError
from tests.service.queueing import FAILING, HOLDING, Setting, encoding, prediction, run

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
    plans: list[tuple[list[int], str]], max_batch_tokens: int, workers: int
) -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=max_batch_tokens, workers=workers)
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
    texts: list[Encoding], fate: str, result: Sequence[object] | BaseException, victims: set[int]
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


async def test_a_large_request_is_spread_and_sorted_so_that_little_is_padding() -> None:
    setting = Setting(max_batch_tokens=6)
    texts = [encoding(20 + place, length) for place, length in enumerate((6, 1, 2, 1, 3, 3, 9))]
    answers = await setting.batcher.predict(texts)
    assert answers == [prediction(text) for text in texts]
    await setting.close()
    assert [[len(text.input_ids) for text in batch] for batch in setting.recorder.batches] == [
        [1, 1, 2],
        [3, 3],
        [6],
        [9],
    ]


async def test_closing_answers_all_who_wait_and_refuses_the_rest() -> None:
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
    assert {getattr(result, "retry_after", None) for result in results} == {1}
    assert [len(batch) for batch in setting.recorder.batches] == [1]  # the one that runs
    with pytest.raises(DrainingError) as refused:
        await setting.batcher.predict([encoding(30)])
    assert refused.value.retry_after == 1
    assert setting.value("headlight_queue_tokens") == 0


async def test_a_large_request_goes_before_newer_ones_when_its_time_gets_short() -> None:
    # After each batch that is urgent, the others have one.
    setting = Setting(max_batch_tokens=3)
    async with setting.held():
        now = asyncio.get_running_loop().time()
        plans = [([20] * 6, now + 0.01), *(([21], now + 1000.0) for _ in range(6))]
        waiting = [
            asyncio.create_task(
                setting.batcher.predict([encoding(text) for text in texts], deadline=deadline)
            )
            for texts, deadline in plans
        ]
        await asyncio.sleep(0.02)
    await asyncio.gather(*waiting)
    await setting.close()
    assert setting.recorder.ids == [
        [HOLDING],
        [20] * 3,
        [21] * 3,
        [20] * 3,
        [21] * 3,
    ]


async def test_the_age_of_the_oldest_request_that_waits() -> None:
    setting = Setting(max_batch_tokens=4)
    assert setting.value("headlight_queue_oldest_seconds") == 0
    async with setting.held():
        before = setting.value("headlight_queue_oldest_seconds")
        assert before is not None
        later = asyncio.create_task(setting.batcher.predict([encoding(20, 4)]))
        await asyncio.sleep(0.02)
        age = setting.value("headlight_queue_oldest_seconds")
        assert age is not None
        assert age >= before + 0.02  # of the first, not of the one that came later
        assert setting.value("headlight_queue_requests") == 2
        later.cancel()
        await asyncio.gather(later, return_exceptions=True)
        assert setting.value("headlight_queue_requests") == 1
        assert setting.value("headlight_queue_tokens") == 0
    assert setting.value("headlight_queue_oldest_seconds") == 0
    await setting.close()


@pytest.mark.parametrize(("computes", "padding"), [(True, 3), (False, 0)])
async def test_padding_is_counted_where_it_is_computed(padding: int, *, computes: bool) -> None:
    setting = Setting(max_batch_tokens=10, computes_padding=computes)
    async with setting.held():
        texts = [encoding(20, 5), encoding(21, 2)]
        waiting = asyncio.create_task(setting.batcher.predict(texts))
        await asyncio.sleep(0)
    assert len(await waiting) == 2
    assert setting.value("headlight_padding_tokens_total") == padding
    assert setting.value("headlight_batch_fill_ratio_sum") == pytest.approx(0.1 + 1.0)
    await setting.close()


async def test_what_is_not_there_in_time_is_none_and_its_rest_is_dropped() -> None:
    setting = Setting(max_batch_tokens=4)
    loop, real = asyncio.get_running_loop(), time.monotonic
    holds, later = threading.Event(), threading.Event()
    classify = setting.recorder.classify

    def hold(encodings: Sequence[Encoding]) -> list[Prediction]:
        if encodings[0].input_ids[0] == HOLDING:
            holds.set()
            assert later.wait(20)
        return classify(encodings)

    with mock.patch.object(setting.recorder, "classify", hold):
        texts = [encoding(60, 4), encoding(61, 2), encoding(HOLDING, 3)]
        partly = asyncio.create_task(setting.batcher.predict_until(texts, loop.time() + 60))
        assert await asyncio.to_thread(holds.wait, 20)
        assert setting.value("headlight_queue_tokens") == 4
        with mock.patch.object(loop, "time", side_effect=lambda: real() + 61):
            first, second, third = await partly
        assert (first, third) == (None, None)
        assert isinstance(second, Prediction)
        assert second.label == "61"
        assert setting.value("headlight_queue_tokens") == 0
        later.set()
        assert await setting.batcher.predict_until([], 0.0) == []
        soon = setting.batcher.predict_until([encoding(62)], loop.time() + 60)
        assert [each and each.label for each in await soon] == ["62"]  # type: ignore[union-attr]
    await setting.close()
    assert setting.recorder.ids == [[61], [HOLDING], [62]]

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

from model import AttentionOptions, Encoding, Explanation, Prediction
from service.errors import DrainingError, InternalError
from service.metrics import EXPLICIT, FUSED
from service.queue.admission import WorkLimits
from service.queue.scheduler import Job
from tests.service.queueing import FAILING, HOLDING, Setting, encoding, label_of, prediction, run

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
            tasks.append(asyncio.create_task(setting.queue.predict(texts)))
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
    answers = await setting.queue.predict(texts)
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
            asyncio.create_task(setting.queue.predict([encoding(20 + number)]))
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
        await setting.queue.predict([encoding(30)])
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
                setting.queue.predict([encoding(text) for text in texts], deadline=deadline)
            )
            for texts, deadline in plans
        ]
        await asyncio.sleep(0.02)
    await asyncio.gather(*waiting)
    await setting.close()
    assert setting.recorder.ids == [[HOLDING], [20] * 3, [21] * 3, [20] * 3, [21] * 3]


async def test_what_is_let_in_during_one_round_of_the_loop_counts_as_waiting() -> None:
    setting = Setting()
    with mock.patch.object(setting.queue._admission, "check_room") as check:
        for _ in range(2):
            setting.queue.check_room("a", "/predict", 5.0)
        await asyncio.sleep(0)
        setting.queue.check_room("a", "/predict", 5.0)
    assert [call.kwargs["ahead"] for call in check.mock_calls] == [0, 1, 0]
    await setting.close()


async def test_a_request_counts_by_what_its_path_and_its_numbers_cost() -> None:
    setting = Setting(limits=WorkLimits({FUSED: 0.001, EXPLICIT: 0.002}))
    real = setting.queue._admission.admit
    with mock.patch.object(setting.queue._admission, "admit", side_effect=real) as admit:
        options = [AttentionOptions(encoding(1, 4))]
        await setting.queue.explain(options, label_of, numbers=8000)
    (request, _) = admit.call_args.args
    assert (request.tokens, request.cost) == (4, 6.0)  # twice, for 4 tokens and 8 tokens' worth
    await setting.close()


async def test_a_pass_tells_what_a_token_takes_unless_several_threads_computed_it() -> None:
    setting = Setting(workers=2, max_batch_tokens=1000)
    rate = setting.queue._admission.rate
    await setting.queue.predict([encoding(20, 300)])
    assert rate.seconds == 0.0
    await setting.queue.predict([encoding(20, 4)])
    assert 0.0 < rate.seconds < 1.0
    await setting.close()


async def test_the_age_of_the_oldest_request_that_waits() -> None:
    setting = Setting(max_batch_tokens=4)
    assert setting.value("headlight_queue_oldest_seconds") == 0
    async with setting.held():
        before = setting.value("headlight_queue_oldest_seconds")
        assert before is not None
        later = asyncio.create_task(setting.queue.predict([encoding(20, 4)]))
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
        partly = asyncio.create_task(setting.queue.predict_until(texts, loop.time() + 60))
        assert await asyncio.to_thread(holds.wait, 20)
        assert setting.value("headlight_queue_tokens") == 4
        with mock.patch.object(loop, "time", side_effect=lambda: real() + 61):
            first, second, third = await partly
        assert (first, third) == (None, None)
        assert isinstance(second, Prediction)
        assert second.label == "61"
        assert setting.value("headlight_queue_tokens") == 0
        later.set()
        assert await setting.queue.predict_until([], 0.0) == []
        soon = setting.queue.predict_until([encoding(62)], loop.time() + 60)
        assert [each and each.label for each in await soon] == ["62"]  # type: ignore[union-attr]
    await setting.close()
    assert setting.recorder.ids == [[61], [HOLDING], [62]]


async def test_the_first_of_a_pass_is_answered_while_the_next_is_being_finished() -> None:
    answered = threading.Event()

    def second(_: int, explanation: Explanation) -> tuple[str, bool]:
        return explanation.prediction.best, answered.wait(20)

    setting = Setting()
    async with setting.held():
        first = asyncio.create_task(
            setting.queue.explain([AttentionOptions(encoding(1))], lambda number, _: number)
        )
        first.add_done_callback(lambda _: answered.set())
        await asyncio.sleep(0)
        last = asyncio.create_task(setting.queue.explain([AttentionOptions(encoding(2))], second))
        await asyncio.sleep(0)
    found = await first, await last
    await setting.close()
    assert [len(batch) for batch in setting.recorder.batches] == [1, 2]
    assert found == ([0], [("2", True)])


async def test_what_cannot_be_finished_leaves_alone_who_waits_for_more() -> None:
    def fail(_: int, __: Explanation) -> None:
        raise RuntimeError("made to fail")

    setting = Setting(max_batch_tokens=8)
    async with setting.held():
        two = [AttentionOptions(encoding(1, 3)), AttentionOptions(encoding(2, 8))]
        one = asyncio.create_task(setting.queue.explain([AttentionOptions(encoding(3, 3))], fail))
        await asyncio.sleep(0)
        both = asyncio.create_task(setting.queue.explain(two, label_of))
        await asyncio.sleep(0)
    found: list[object] = list(await asyncio.gather(both, one, return_exceptions=True))
    await setting.close()
    assert [len(batch) for batch in setting.recorder.batches] == [1, 2, 1]
    answers, failed = found
    assert (answers, type(failed)) == (["1", "2"], InternalError)
    assert setting.passes == [None] * 3  # finishing is no pass
    assert setting.value("headlight_forward_failures_total") == 0


async def test_something_else_runs_on_a_worker_and_is_no_pass() -> None:
    setting = Setting()
    names: list[str] = []
    await setting.queue.run([Job(lambda: names.append(threading.current_thread().name))])
    assert names != [threading.current_thread().name]
    await setting.close()
    assert setting.passes == []
    assert setting.value("headlight_forward_failures_total") == 0


def gradient_job(made: list[str], name: str, length: int = 1, *, fails: bool = False) -> Job[str]:
    """A job of some tokens that notes when it ran."""

    def work() -> str:
        made.append(name)
        if fails:
            raise ValueError("made to fail")
        return name

    return Job(work, [encoding(50, length)])


async def test_jobs_give_their_results_in_order_and_count_as_passes() -> None:
    setting = Setting(workers=2)
    made: list[str] = []
    jobs = [gradient_job(made, name, 8) for name in "abcdef"]
    assert await setting.queue.run(jobs) == list("abcdef")
    assert sorted(made) == list("abcdef")
    await setting.close()
    assert setting.passes == [None] * 6
    path = {"path": "gradient"}
    registry = setting.metrics.registry
    assert registry.get_sample_value("headlight_forward_seconds_count", path) == 6
    assert setting.value("headlight_texts_total") == 6
    assert setting.value("headlight_tokens_total") == 48
    assert setting.value("headlight_queue_tokens") == 0


async def test_between_the_jobs_of_a_request_others_have_their_turn() -> None:
    setting = Setting(max_batch_tokens=100)
    order: list[str] = []
    classify = setting.recorder.classify

    def note(encodings: Sequence[Encoding]) -> list[Prediction]:
        order.extend("text" for text in encodings if text.input_ids[0] != HOLDING)
        return classify(encodings)

    with mock.patch.object(setting.recorder, "classify", note):
        async with setting.held():
            jobs = [gradient_job(order, "job", 100) for _ in range(8)]
            # Its time is nearly over, and still it does not go before all others.
            soon = asyncio.get_running_loop().time() + 0.01
            heavy = asyncio.create_task(setting.queue.run(jobs, deadline=soon))
            await asyncio.sleep(0.02)
            light = asyncio.create_task(setting.queue.predict([encoding(20, 10)]))
            await asyncio.sleep(0)
        await asyncio.gather(heavy, light)
    await setting.close()
    assert order.index("text") <= 1


async def test_a_job_that_fails_answers_its_request_and_drops_the_rest() -> None:
    setting = Setting(max_batch_tokens=4)
    made: list[str] = []
    heard = threading.Event()

    def wait() -> str:
        assert heard.wait(20)
        return "waited"

    jobs = [gradient_job(made, "bad", 4, fails=True), Job(wait, [encoding(50, 4)])]
    with pytest.raises(InternalError) as failed:
        await setting.queue.run([*jobs, *(gradient_job(made, "rest", 4) for _ in range(5))])
    assert isinstance(failed.value.__cause__, ValueError)
    assert setting.value("headlight_queue_tokens") == 0
    heard.set()
    assert await setting.queue.run([gradient_job(made, "next", 4)]) == ["next"]
    await setting.close()
    assert made == ["bad", "next"]
    assert setting.value("headlight_forward_failures_total") == 1
    assert [type(error) for error in setting.passes if error is not None] == [ValueError]

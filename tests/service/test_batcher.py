"""The queue: nothing is mixed, lost or reordered, and nobody waits for ever."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import Encoding, Explanation, Prediction, Question
from service.batcher import Batcher
from service.errors import DrainingError, InternalError, OverloadedError
from service.metrics import Metrics
from service.work import Job

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

    def explain(self, questions: Sequence[Question]) -> list[Explanation]:
        """The same, with a weight of 1."""
        texts = [question.encoding for question in questions]
        return [
            Explanation(
                said,
                question.encoding,
                tuple(question.layers or [0]),
                tuple(question.heads or [0]),
                np.ones((1, 1, 1, 1), np.float32),
            )
            for said, question in zip(self.classify(texts), questions, strict=True)
        ]


def label_of(_: int, explanation: Explanation) -> str:
    """What a request makes of its explanation, in these tests."""
    return explanation.prediction.label


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
            lambda encodings: self.recorder.classify(encodings),
            self.recorder.explain,
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
        assert refused.value.retry_after == 1  # nothing is known yet of how fast it works
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


def test_explanations_share_passes_with_each_other_alone() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=100)
        async with setting.held():
            waiting = [
                asyncio.create_task(each)
                for each in (
                    setting.batcher.predict([encoding(20)]),
                    setting.batcher.explain([Question(encoding(50))], label_of),
                    setting.batcher.predict([encoding(21)]),
                    setting.batcher.explain([Question(encoding(51))], label_of),
                )
            ]
            await asyncio.sleep(0)
        assert await asyncio.gather(*waiting) == [
            [prediction(encoding(20))],
            ["50"],
            [prediction(encoding(21))],
            ["51"],
        ]
        await setting.close()
        together = [[text.input_ids[0] for text in batch] for batch in setting.recorder.batches]
        assert together == [[HOLDING], [20, 21], [50, 51]]
        assert setting.value("headlight_batch_texts_count") == 3

    run(work())


def test_what_a_question_asks_for_reaches_the_pass() -> None:
    async def work() -> Explanation:
        setting = Setting()
        question = Question(encoding(50), layers=[3], heads=[1, 2])
        (explanation,) = await setting.batcher.explain([question], lambda _, each: each)
        await setting.close()
        return explanation

    explanation = run(work())
    assert (explanation.layers, explanation.heads) == ((3,), (1, 2))


def test_the_texts_of_one_request_come_back_in_their_order() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=100)
        questions = [Question(encoding(number, length)) for number, length in ((50, 9), (51, 3))]
        found = await setting.batcher.explain(
            questions, lambda number, each: (number, label_of(number, each))
        )
        assert found == [(0, "50"), (1, "51")]
        await setting.close()

    run(work())


@pytest.mark.parametrize("culprit", ["pass", "finish"])
def test_an_explanation_that_fails_leaves_the_next_alone(culprit: str) -> None:
    def finish(_: int, __: Explanation) -> None:
        raise ValueError("told to fail")

    async def work() -> None:
        setting = Setting()
        identity = FAILING if culprit == "pass" else 50
        with pytest.raises(InternalError):
            await setting.batcher.explain([Question(encoding(identity))], finish)
        assert await setting.batcher.predict([encoding(20)]) == [prediction(encoding(20))]
        error = RuntimeError if culprit == "pass" else ValueError
        assert [type(error) for error in setting.passes] == [error, type(None)]
        assert setting.value("headlight_forward_failures_total") == 1
        await setting.close()

    run(work())


def test_the_first_of_a_pass_is_answered_while_the_next_is_being_finished() -> None:
    answered = threading.Event()

    def second(_: int, explanation: Explanation) -> tuple[str, bool]:
        return explanation.prediction.label, answered.wait(20)

    async def work() -> object:
        setting = Setting()
        async with setting.held():
            first = asyncio.create_task(
                setting.batcher.explain([Question(encoding(1))], lambda number, _: number)
            )
            first.add_done_callback(lambda _: answered.set())
            await asyncio.sleep(0)
            last = asyncio.create_task(setting.batcher.explain([Question(encoding(2))], second))
            await asyncio.sleep(0)
        found = await first, await last
        await setting.close()
        assert [len(batch) for batch in setting.recorder.batches] == [1, 2]
        return found

    assert run(work()) == ([0], [("2", True)])


def test_what_cannot_be_finished_fails_alone() -> None:
    def fail(_: int, __: Explanation) -> None:
        raise RuntimeError("told to fail")

    async def work() -> list[object]:
        setting = Setting()
        async with setting.held():
            waiting = []
            for identity, finish in ((1, label_of), (2, fail), (3, label_of)):
                asking = setting.batcher.explain([Question(encoding(identity))], finish)
                waiting.append(asyncio.create_task(asking))
                await asyncio.sleep(0)
        found: list[object] = list(await asyncio.gather(*waiting, return_exceptions=True))
        await setting.close()
        assert [len(batch) for batch in setting.recorder.batches] == [1, 3]
        return found

    first, failed, last = run(work())
    assert (first, type(failed), last) == (["1"], InternalError, ["3"])


def test_what_cannot_be_finished_leaves_alone_who_waits_for_more() -> None:
    def fail(_: int, __: Explanation) -> None:
        raise RuntimeError("told to fail")

    async def work() -> list[object]:
        setting = Setting(max_batch_tokens=8)
        async with setting.held():
            two = [Question(encoding(1, 3)), Question(encoding(2, 8))]
            both = asyncio.create_task(setting.batcher.explain(two, label_of))
            await asyncio.sleep(0)
            one = asyncio.create_task(setting.batcher.explain([Question(encoding(3, 3))], fail))
            await asyncio.sleep(0)
        found: list[object] = list(await asyncio.gather(both, one, return_exceptions=True))
        await setting.close()
        assert [len(batch) for batch in setting.recorder.batches] == [1, 2, 1]
        return found

    both, failed = run(work())
    assert (both, type(failed)) == (["1", "2"], InternalError)


def test_as_many_passes_run_at_once_as_there_are_lanes() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def meet(number: int, explanation: Explanation) -> str:
        meeting.wait()  # breaks unless all three are in their passes
        return label_of(number, explanation)

    async def work() -> None:
        setting = Setting(lanes=3)
        # Too long to share a pass.
        questions = [Question(encoding(number, 10)) for number in (50, 51, 52)]
        labels = await asyncio.gather(
            *(setting.batcher.explain([each], meet) for each in questions)
        )
        assert labels == [["50"], ["51"], ["52"]]
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
            await setting.batcher.run([Job(lambda: None)])
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

        with mock.patch.object(setting.recorder, "classify", meet):
            await asyncio.gather(
                *(setting.batcher.predict([encoding(20 + number, 300)]) for number in range(2))
            )
        await setting.close()

    run(work())


def test_something_else_runs_on_a_lane_and_is_no_pass() -> None:
    async def work() -> None:
        setting = Setting()
        names: list[str] = []
        await setting.batcher.run([Job(lambda: names.append(threading.current_thread().name))])
        assert names != [threading.current_thread().name]

        def fail() -> None:
            raise ValueError("told to fail")

        with pytest.raises(InternalError) as failed:
            await setting.batcher.run([Job(fail)])
        assert isinstance(failed.value.__cause__, ValueError)
        await setting.close()
        assert setting.passes == []
        assert setting.value("headlight_forward_failures_total") == 0

    run(work())


def gradient_job(made: list[str], name: str, length: int = 1, *, fails: bool = False) -> Job[str]:
    """A job of some tokens that notes when it ran."""

    def work() -> str:
        made.append(name)
        if fails:
            raise ValueError("told to fail")
        return name

    return Job(work, [encoding(50, length)])


def test_jobs_give_their_results_in_order_and_count_as_passes() -> None:
    async def work() -> None:
        setting = Setting(lanes=2)
        made: list[str] = []
        jobs = [gradient_job(made, name, 8) for name in "abcdef"]
        assert await setting.batcher.run(jobs) == list("abcdef")
        assert sorted(made) == list("abcdef")
        await setting.close()
        assert setting.passes == [None] * 6
        path = {"path": "gradient"}
        registry = setting.metrics.registry
        assert registry.get_sample_value("headlight_forward_seconds_count", path) == 6
        assert setting.value("headlight_texts_total") == 6
        assert setting.value("headlight_tokens_total") == 48
        assert setting.value("headlight_queue_tokens") == 0

    run(work())


def test_between_the_jobs_of_a_request_others_have_their_turn() -> None:
    async def work() -> list[str]:
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
                heavy = asyncio.create_task(setting.batcher.run(jobs, deadline=soon))
                await asyncio.sleep(0.02)
                light = asyncio.create_task(setting.batcher.predict([encoding(20, 10)]))
                await asyncio.sleep(0)
            await asyncio.gather(heavy, light)
        await setting.close()
        return order

    assert run(work()).index("text") <= 1


def test_jobs_are_admitted_by_their_tokens_all_at_once() -> None:
    async def work() -> None:
        setting = Setting(max_queue_tokens=10)
        made: list[str] = []
        async with setting.held():
            waiting = asyncio.create_task(
                setting.batcher.run([gradient_job(made, name, 4) for name in "ab"])
            )
            await asyncio.sleep(0)
            assert setting.value("headlight_queue_tokens") == 8
            with pytest.raises(OverloadedError, match="8 tokens are waiting, the request has 3"):
                await setting.batcher.run([gradient_job(made, "c", 1) for _ in range(3)])
        assert await waiting == ["a", "b"]
        await setting.close()
        assert "c" not in made

    run(work())


def test_jobs_that_nobody_waits_for_are_dropped() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=4)
        made: list[str] = []
        entered, leave = threading.Event(), threading.Event()

        def hold() -> str:
            entered.set()
            assert leave.wait(20)
            return "held"

        jobs = [Job(hold, [encoding(50, 4)]), *(gradient_job(made, "late", 4) for _ in range(5))]
        gone = asyncio.create_task(setting.batcher.run(jobs))
        assert await asyncio.to_thread(entered.wait, 20)
        assert setting.value("headlight_queue_tokens") == 20
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert setting.value("headlight_queue_tokens") == 0
        leave.set()
        assert await setting.batcher.run([gradient_job(made, "next")]) == ["next"]
        await setting.close()
        assert made == ["next"]

    run(work())


def test_a_job_that_fails_answers_its_waiter_and_drops_the_rest() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=4)
        made: list[str] = []
        heard = threading.Event()

        def wait() -> str:
            assert heard.wait(20)
            return "waited"

        jobs = [gradient_job(made, "bad", 4, fails=True), Job(wait, [encoding(50, 4)])]
        with pytest.raises(InternalError) as failed:
            await setting.batcher.run([*jobs, *(gradient_job(made, "rest", 4) for _ in range(5))])
        assert isinstance(failed.value.__cause__, ValueError)
        assert setting.value("headlight_queue_tokens") == 0
        heard.set()
        assert await setting.batcher.run([gradient_job(made, "next", 4)]) == ["next"]
        await setting.close()
        assert made == ["bad", "next"]
        assert setting.value("headlight_forward_failures_total") == 1
        assert [type(error) for error in setting.passes if error is not None] == [ValueError]

    run(work())


def test_closing_answers_who_waits_for_jobs() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=4)
        made: list[str] = []
        async with setting.held():
            jobs = [gradient_job(made, "never", 4) for _ in range(3)]
            waiting = asyncio.create_task(setting.batcher.run(jobs))
            await asyncio.sleep(0)
            closing = asyncio.create_task(setting.close())
            await asyncio.sleep(0)
        await closing
        with pytest.raises(DrainingError):
            await waiting
        assert made == []

    run(work())

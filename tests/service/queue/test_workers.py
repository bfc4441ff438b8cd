"""Which worker takes what and with how many threads, and what happens when one stops."""

import asyncio
import math
import threading
from collections.abc import Sequence
from unittest import mock

import pytest

from model import AttentionOptions, Encoding, Explanation, Prediction
from service.errors import InternalError
from service.queue import queue as workers_module
from service.queue.admission import Admission
from service.queue.queue import MOST_STOPS, Queue
from service.queue.scheduler import ClientId, Job, Schedule
from tests.service.connections import until
from tests.service.queueing import Setting, encoding, label_of, prediction


@pytest.mark.parametrize("cores", [None, 1])
async def test_as_many_passes_run_at_once_as_there_are_workers(cores: int | None) -> None:
    """Also on a device that computes apart, with its one core."""
    meeting = threading.Barrier(3, timeout=20)

    def meet(number: int, explanation: Explanation) -> str:
        meeting.wait()  # breaks unless all three are in their passes
        return label_of(number, explanation)

    setting = Setting(workers=3, cores=cores)
    # Too long to share a pass.
    questions = [AttentionOptions(encoding(number, 300)) for number in (50, 51, 52)]
    labels = await asyncio.gather(*(setting.queue.explain([each], meet) for each in questions))
    assert labels == [["50"], ["51"], ["52"]]
    await setting.close()


@pytest.mark.parametrize(("workers", "cores", "largest"), [(2, None, 20), (3, 1, 40)])
async def test_what_waits_is_shared_among_the_cores(
    workers: int, cores: int | None, largest: int
) -> None:
    setting = Setting(max_batch_tokens=1000, workers=workers, cores=cores)
    await setting.queue.predict([encoding(20 + number, 10) for number in range(40)])
    await setting.close()
    assert max([len(batch) for batch in setting.recorder.batches]) == largest


async def test_where_lengths_are_mixed_the_next_pass_takes_what_came_during_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers_module, "_LONG_SECONDS", math.inf)
    setting = Setting(
        max_batch_tokens=32_768, max_queue_tokens=20_000, workers=3, cores=1, mixes_lengths=True
    )
    async with setting.held():
        texts = [[encoding(20 + number, 1 + 8 * number)] for number in range(64)]
        waiting = [asyncio.create_task(setting.queue.predict(text)) for text in texts]
        question = setting.queue.explain([AttentionOptions(encoding(19))], label_of)
        explaining = asyncio.create_task(question)  # waits for no pass of another kind
        assert await asyncio.to_thread(setting.recorder.entered.acquire, timeout=20)
    assert await asyncio.gather(*waiting) == [[prediction(text)] for (text,) in texts]
    assert await explaining == ["19"]
    await setting.close()
    assert [len(batch) for batch in setting.recorder.begun] == [1, 1, 64]


async def test_where_lengths_are_mixed_nothing_waits_for_a_pass_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers_module, "_LONG_SECONDS", 0.0)
    setting = Setting(max_batch_tokens=32_768, workers=3, cores=1, mixes_lengths=True)
    async with setting.held():
        asked = asyncio.create_task(setting.queue.predict([encoding(20)]))
        assert await asyncio.to_thread(setting.recorder.entered.acquire, timeout=20)
    assert await asked == [prediction(encoding(20))]
    await setting.close()


@pytest.mark.parametrize(
    ("worth_sharing", "tokens", "threads"),
    [(100, 99, 1), (100, 100, 4), (16, 15, 1), (16, 16, 2), (16, 31, 3), (8, 8, 2), (8, 12, 3)],
)
async def test_who_is_alone_has_as_many_threads_as_there_is_work_for(
    worth_sharing: int, tokens: int, threads: int
) -> None:
    setting = Setting(max_batch_tokens=1000, workers=4, worth_sharing=worth_sharing)
    await setting.queue.predict([encoding(20, tokens)])
    async with setting.held():
        await setting.queue.run([Job(lambda: None)])  # not alone
    await setting.close()
    first, *others = setting.threads
    assert first == threads
    assert set(others) <= {1}


@pytest.mark.parametrize(
    ("holding", "asked", "passes"),
    [
        ("predictions", 10, True),
        ("predictions", 300, False),
        ("gradients", 10, True),
        ("gradients", 300, True),
        ("one core", 10, True),
    ],
)
async def test_heavy_passes_that_keep_all_cores_hold_up_no_lighter_request(
    holding: str, asked: int, *, passes: bool
) -> None:
    """Light requests have a worker beside heavy ones, and heavy ones beside gradients."""
    setting = Setting(max_batch_tokens=1000, workers=2, extra=True)
    recorder, count = setting.recorder, 1 if holding == "one core" else 2
    recorder.gate.clear()
    waiting: list[asyncio.Task[object]] = []
    if holding == "gradients":
        texts = [encoding(20, 300)]
        jobs = [Job(lambda: recorder.classify(texts), texts) for _ in range(4)]
        waiting.append(asyncio.create_task(setting.queue.run(jobs)))
    else:
        heavy = [encoding(20, 300)] * (4 if count == 2 else 1)
        waiting.append(asyncio.create_task(setting.queue.predict(heavy)))
    for _ in range(count):
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=20)
    other = setting.queue.predict([encoding(30, asked)], caller=ClientId("another"))
    waiting.append(asyncio.create_task(other))
    assert await asyncio.to_thread(recorder.entered.acquire, timeout=20 if passes else 0.1) is (
        passes
    )
    begun = [batch[0].input_ids[0] for batch in recorder.begun]
    assert begun == [20] * count + [30] * passes
    recorder.gate.set()
    await asyncio.gather(*waiting)
    await setting.close()


class Panic(BaseException):
    """What is no Exception."""


async def test_the_texts_of_a_worker_that_stops_are_answered_and_the_next_goes_on() -> None:
    setting = Setting(max_batch_tokens=2)
    classify = setting.recorder.classify

    def panic(encodings: Sequence[Encoding]) -> list[Prediction]:
        if any(text.input_ids[0] == 20 for text in encodings):
            raise Panic
        return classify(encodings)

    setting.recorder.classify = panic  # type: ignore[method-assign]
    async with setting.held():
        asked = [
            asyncio.create_task(setting.queue.predict([encoding(number)]))
            for number in (20, 20, 21, 22, 23)
        ]
        await asyncio.sleep(0)
    first, second, *others = await asyncio.gather(*asked, return_exceptions=True)
    for lost in (first, second):
        assert isinstance(lost, InternalError)
        assert isinstance(lost.__cause__, Panic)
    assert others == [[prediction(encoding(number))] for number in (21, 22, 23)]
    assert setting.lost == []
    assert setting.passes == [None] * 3  # a worker that stopped is no pass
    assert setting.queue.longest_pass() == 0.0
    assert setting.value("headlight_queue_tokens") == 0
    await setting.close()


FAULTS = [(Schedule, "take"), (Queue, "_begin"), (Admission, "note_done")]


@pytest.mark.parametrize(("owner", "name"), FAULTS)
@pytest.mark.parametrize("workers", [1, 3])
async def test_whatever_stops_a_worker_nobody_waits_for_ever(
    owner: type[object], name: str, workers: int
) -> None:
    """Every request has an answer, and afterwards the queue works as before."""
    real = getattr(owner, name)
    failing = threading.Event()

    def misbehave(*args: object, **options: object) -> object:
        if failing.is_set():
            failing.clear()
            raise MemoryError("made to fail")
        return real(*args, **options)

    setting = Setting(max_batch_tokens=4, workers=workers)
    for _ in range(20):
        assert len(await setting.queue.predict([encoding(1)])) == 1
    with mock.patch.object(owner, name, misbehave):
        failing.set()
        asked = [
            asyncio.create_task(setting.queue.predict([encoding(20 + number, 2)]))
            for number in range(9)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for number, answer in enumerate(answers):
            if not isinstance(answer, InternalError):
                assert answer == [prediction(encoding(20 + number, 2))]
        await until(lambda: not failing.is_set())
        texts = [encoding(40 + number, 3) for number in range(20)]
        assert await setting.queue.predict(texts) == [prediction(text) for text in texts]
    assert setting.lost == []
    assert setting.value("headlight_queue_tokens") == 0
    assert setting.value("headlight_queue_requests") == 0
    await setting.close()
    assert not setting.queue._busy
    assert not setting.queue._admission._shares
    assert all(thread.done() for thread in setting.queue._threads)


async def test_a_worker_may_stop_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "WITHIN_PASSES", 4)
    setting = Setting(max_batch_tokens=1)
    for _ in range(2 * MOST_STOPS):
        with (
            mock.patch.object(setting.recorder, "classify", side_effect=Panic),
            pytest.raises(InternalError),
        ):
            await setting.queue.predict([encoding(20)])
        for _ in range(2):
            assert len(await setting.queue.predict([encoding(20)])) == 1
    assert setting.lost == []
    await setting.close()


async def test_an_executor_without_threads_cannot_replace_a_worker() -> None:
    setting = Setting()
    setting.executor.shutdown(wait=False)
    setting.recorder.classify = mock.Mock(side_effect=Panic)  # type: ignore[method-assign]
    with pytest.raises(InternalError):
        await setting.queue.predict([encoding(20)])
    await until(lambda: bool(setting.lost))
    await setting.close()


async def test_a_report_that_fails_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting(max_batch_tokens=1)
    with mock.patch.object(setting.metrics, "observe_pass", side_effect=RuntimeError):
        # Two passes: what the first has delivered stays.
        assert len(await setting.queue.predict([encoding(20), encoding(21)])) == 2
        await asyncio.sleep(0)
    assert len(await setting.queue.predict([encoding(22)])) == 1
    await setting.close()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["the report of a pass failed"] * 2


async def test_a_pass_with_too_few_results_fails() -> None:
    setting = Setting()
    setting.recorder.classify = mock.Mock(return_value=[])  # type: ignore[method-assign]
    with pytest.raises(InternalError) as failed:
        await setting.queue.predict([encoding(20), encoding(21)])
    assert str(failed.value.__cause__) == "2 items got 0 results"
    await setting.close()


async def test_an_error_of_one_text_comes_in_its_place_or_is_the_answer() -> None:
    def bad_last(encodings: Sequence[Encoding]) -> list[Prediction | Exception]:
        return [*(prediction(text) for text in encodings[:-1]), ValueError("its own")]

    setting = Setting()
    setting.recorder.classify = bad_last  # type: ignore[method-assign, assignment]
    first, second = await setting.queue.predict([encoding(20), encoding(21)])
    assert first == prediction(encoding(20))
    assert isinstance(second, InternalError)
    assert isinstance(second.__cause__, ValueError)
    with pytest.raises(InternalError) as failed:
        await setting.queue.run([Job(lambda: ValueError("its own"), [encoding(20)])])
    assert isinstance(failed.value.__cause__, ValueError)
    await setting.close()
    assert setting.passes == [None, None]
    assert setting.value("headlight_forward_failures_total") == 0

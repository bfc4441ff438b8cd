"""Other work in the queue, such as gradients: its order, its share and its end."""

import asyncio
import threading
from collections.abc import Sequence
from unittest import mock

import pytest

from model import Encoding, Prediction
from service.errors import InternalError, OverloadedError
from service.queue.work_items import Job
from tests.service.queueing import HOLDING, Setting, encoding


async def test_something_else_runs_on_a_worker_and_is_no_pass() -> None:
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


def gradient_job(made: list[str], name: str, length: int = 1, *, fails: bool = False) -> Job[str]:
    """A job of some tokens that notes when it ran."""

    def work() -> str:
        made.append(name)
        if fails:
            raise ValueError("told to fail")
        return name

    return Job(work, [encoding(50, length)])


async def test_jobs_give_their_results_in_order_and_count_as_passes() -> None:
    setting = Setting(workers=2)
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
            heavy = asyncio.create_task(setting.batcher.run(jobs, deadline=soon))
            await asyncio.sleep(0.02)
            light = asyncio.create_task(setting.batcher.predict([encoding(20, 10)]))
            await asyncio.sleep(0)
        await asyncio.gather(heavy, light)
    await setting.close()
    assert order.index("text") <= 1


async def test_jobs_are_admitted_by_their_tokens_all_at_once() -> None:
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


async def test_jobs_that_nobody_waits_for_are_dropped() -> None:
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


async def test_a_job_that_fails_answers_its_request_and_drops_the_rest() -> None:
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

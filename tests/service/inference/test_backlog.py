"""What a replica says of its work: idle, busy, and when a pass does not end."""

import asyncio
import threading
from pathlib import Path
from unittest import mock

import pytest
import torch

from model import Encoding, load_predictor, open_checkpoint
from model.backends import base as base_module
from model.network.batch import collate
from service.errors import OverloadedError, Refusal
from service.inference.admission import Admission, ClientId, Cost, RequestCost
from service.inference.engine import Engine
from service.inference.work_items import Job
from tests.service.inference.test_engine import make as make_engine
from tests.service.inference.test_engine import until
from tests.service.queueing import Setting, encoding, run

FULL = 0.5  # seconds


def make(*, workers: int, max_queue_tokens: int = 1000) -> Admission:
    """Admission where a token takes 10 milliseconds of a worker."""
    cost = Cost()
    cost.note(100, 1.0, full=True)
    return Admission(max_queue_tokens, workers=workers, max_batch_tokens=100, cost=cost)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 3.0), (2, 1.5)])
def test_the_backlog_is_the_work_of_all_clients_over_the_measured_rate(
    workers: int, seconds: float
) -> None:
    admission = make(workers=workers)
    assert admission.seconds == 0
    admission.begin("a", RequestCost(100, 100))
    admission.begin("b", RequestCost(100, 200))  # a token of it costs twice
    assert admission.seconds == pytest.approx(seconds)
    admission.take("a", 100)
    assert admission.seconds == pytest.approx(seconds)  # it is being computed, and not done
    admission.end("a", 100, 100)
    assert admission.seconds == pytest.approx(seconds * 2 / 3)
    admission.leave(ClientId("a"), RequestCost(100, 100), answered=True)
    admission.take("b", 100)
    admission.end("b", 100, 200)
    admission.leave(ClientId("b"), RequestCost(100, 200), answered=True)
    assert admission.seconds == 0


def test_a_refusal_tells_a_full_queue_from_work_that_would_end_too_late() -> None:
    admission = make(workers=1, max_queue_tokens=300)
    admission.begin("a", RequestCost(290, 290))
    with pytest.raises(OverloadedError) as refused:
        admission.check(ClientId("a"), RequestCost(20, 20), 60.0)
    assert refused.value.refusal is Refusal.QUEUE_FULL
    with pytest.raises(OverloadedError) as refused:
        admission.check(
            ClientId("a"), RequestCost(10, 10), 4.0
        )  # 3 seconds, of 2.8 that it may take
    assert refused.value.refusal is Refusal.DEADLINE
    admission.check(ClientId("a"), RequestCost(10, 10), 60.0)


def test_the_age_of_the_oldest_request_that_waits() -> None:
    async def work() -> None:
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
        await later
        assert setting.value("headlight_queue_oldest_seconds") == 0
        assert setting.value("headlight_queue_requests") == 0
        await setting.close()

    run(work())


def test_a_request_that_was_given_up_is_not_the_oldest() -> None:
    async def work() -> None:
        setting = Setting()
        async with setting.held():
            given_up = asyncio.create_task(setting.batcher.predict([encoding(20, 4)]))
            await asyncio.sleep(0)
            assert setting.value("headlight_queue_requests") == 2
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            assert setting.value("headlight_queue_requests") == 1
        assert setting.value("headlight_queue_oldest_seconds") == 0
        await setting.close()

    run(work())


@pytest.mark.parametrize(("computes", "padding"), [(True, 3), (False, 0)])
def test_padding_is_counted_where_it_is_computed(padding: int, *, computes: bool) -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=10, computes_padding=computes)
        async with setting.held():
            texts = [encoding(20, 5), encoding(21, 2)]
            waiting = asyncio.create_task(setting.batcher.predict(texts))
            await asyncio.sleep(0)
        assert len(await waiting) == 2
        assert setting.value("headlight_padding_tokens_total") == padding
        assert setting.value("headlight_batch_fill_ratio_sum") == pytest.approx(0.1 + 1.0)
        await setting.close()

    run(work())


def test_gradients_have_no_padding() -> None:
    async def work() -> None:
        setting = Setting(max_batch_tokens=10)
        rows: list[Encoding] = [encoding(20, 3)] * 2
        await setting.batcher.run([Job(lambda: None, rows), Job(lambda: None, rows[:1])])
        assert setting.value("headlight_tokens_total") == 9
        assert setting.value("headlight_padding_tokens_total") == 0
        await setting.close()

    run(work())


@pytest.fixture
def engine(checkpoint_folder: Path) -> Engine:
    """An engine of the tiny checkpoint, for which a pass of a second is stuck."""
    checkpoint = open_checkpoint(checkpoint_folder)
    predictor = load_predictor(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return make_engine(lambda: predictor, watchdog_seconds=1.0)


def test_a_pass_that_does_not_end_makes_a_replica_look_full_and_not_idle(engine: Engine) -> None:
    release = threading.Event()

    async def work() -> None:
        assert engine.backlog_seconds(full=FULL) == 0  # it loads
        engine.start()
        await until(lambda: engine.fault is None)
        assert engine.backlog_seconds(full=FULL) == 0
        text = engine.predictor.encode("good")

        def hold(*arguments: object, **options: object) -> object:
            release.wait(20)
            return collate(*arguments, **options)  # type: ignore[arg-type]

        with mock.patch.object(base_module, "collate", side_effect=hold):
            waiting = asyncio.create_task(engine.batcher.predict([text]))
            await until(lambda: engine.backlog_seconds(full=FULL) > 0)
            first = engine.backlog_seconds(full=FULL)
            assert first <= FULL
            await until(lambda: engine.backlog_seconds(full=FULL) > first)
            await until(lambda: engine.backlog_seconds(full=FULL) == FULL)
            waiting.cancel()  # nobody waits any more, and the worker is still lost
            await until(lambda: engine.stuck is not None)
            assert engine.backlog_seconds(full=FULL) == FULL
            release.set()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: engine.backlog_seconds(full=FULL) == 0)
        assert engine.fault is None
        await engine.close()

    run(work())

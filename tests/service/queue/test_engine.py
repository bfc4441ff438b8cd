"""The model as the service sees it: loading, its pace, failing, healing, ending."""

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from model import AttentionOptions, Explanation, Predictor, load_predictor, open_checkpoint
from model.backends.base import Backend
from model.backends.eager import CpuBackend
from service.errors import DrainingError, InternalError, NotInstalledError, NotReadyError
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics
from service.queue import engine as engine_module
from service.queue.engine import Engine, measure_pace
from service.queue.scheduler import Job
from tests.matching import exactly
from tests.service.connections import until

LOADING = "The model is still loading: come back in a moment."
FAILED = "The model could not be loaded; the log of the service says why."
LOST = "The device cpu is lost to this process: it has to be restarted."


@pytest.fixture(autouse=True)
def _quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_PROBE_SECONDS", 0.01)


def make(
    load: Callable[[], Predictor],
    *,
    watchdog_seconds: float = 30.0,
    threads: int = 1,
    dtype: str = "float32",
    kind: type[CpuBackend] = CpuBackend,
) -> Engine:
    return Engine(
        load,
        kind("cpu", dtype, threads=threads),
        max_batch_tokens=100,
        max_queue_tokens=1000,
        watchdog_seconds=watchdog_seconds,
        metrics=Metrics([]),
    )


async def start(predictor: Predictor, **options: Any) -> Engine:  # noqa: ANN401
    """An engine that has loaded, with some options of `make`."""
    engine = make(lambda: predictor, **options)
    engine.start()
    await until(lambda: engine.not_ready is None)
    return engine


async def explain(engine: Engine) -> list[Explanation]:
    options = AttentionOptions(engine.predictor.encode("good"))
    return await engine.queue.explain([options], lambda _, each: each)


@pytest.mark.parametrize("error", [None, ImportError("no torch", name="torch")])
async def test_garbage_waits_while_torch_is_imported(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, error: ImportError | None
) -> None:
    engine = await start(predictor)
    monkeypatch.setattr(predictor, "_gradients", None)
    seen: list[bool] = []

    def imported() -> str:
        seen.append(gc.isenabled())
        if error is not None:
            raise error
        return "derivatives"

    with mock.patch.object(Predictor, "gradients", mock.PropertyMock(side_effect=imported)):
        if error is None:
            assert str(await engine.gradients()) == "derivatives"
        else:
            with pytest.raises(NotInstalledError, match="need the package torch"):
                await engine.gradients()
    assert (seen, gc.isenabled()) == ([False], True)
    await engine.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("out of memory"), "out of memory"), (KeyError("a text of a user"), None)],
)
async def test_the_log_tells_what_torch_says_and_nothing_that_may_hold_a_text(
    predictor: Predictor, caplog: pytest.LogCaptureFixture, error: Exception, told: str | None
) -> None:
    with caplog.at_level("ERROR", "headlight.engine"):
        engine = await start(predictor)
        with (
            mock.patch.object(predictor._runner, "run", side_effect=error),
            mock.patch.object(predictor, "probe", side_effect=[error, error, None]),
        ):
            with pytest.raises(InternalError):
                await explain(engine)
            await until(lambda: engine.not_ready is None)
        await engine.close()
    records = [record for record in caplog.records if record.name == "headlight.engine"]
    assert [(record.getMessage(), vars(record).get("fault")) for record in records] == [
        ("a forward pass failed", told),
        ("a probe failed", told),
    ]


async def test_a_pass_that_works_ends_the_probes(predictor: Predictor) -> None:
    engine = await start(predictor)
    with mock.patch.object(predictor, "probe", side_effect=RuntimeError):
        with mock.patch.object(predictor._runner, "run", side_effect=RuntimeError):
            for _ in range(2):
                with pytest.raises(InternalError):
                    await explain(engine)
        assert len(engine._tasks) == 1  # a second failure starts no second round of probes
        await engine.queue.predict([predictor.encode("good")])
        assert engine.not_ready is not None  # the path that failed has not worked yet
        await explain(engine)
        assert engine.not_ready is None
        await until(lambda: not engine._tasks)  # though no probe ever worked
    assert engine.not_ready is None
    await engine.close()


async def test_a_pass_that_began_before_an_error_does_not_clear_it(predictor: Predictor) -> None:
    entered, leave = threading.Event(), threading.Event()

    run = predictor._runner.run

    def hold(*args: Any, **options: Any) -> object:  # noqa: ANN401
        if threading.current_thread().name.startswith("forward") and not entered.is_set():
            entered.set()
            assert leave.wait(20)
            return run(*args, **options)
        raise RuntimeError

    engine = await start(predictor, threads=2)
    with (
        mock.patch.object(predictor._runner, "run", side_effect=hold),
        mock.patch.object(predictor, "probe", side_effect=RuntimeError),
    ):
        early = asyncio.create_task(engine.queue.predict([predictor.encode("good")]))
        assert await asyncio.to_thread(entered.wait, 20)
        with pytest.raises(InternalError):
            await engine.queue.predict([predictor.encode("bad")])
        leave.set()
        assert len(await early) == 1
        assert engine.not_ready is not None
    await engine.queue.predict([predictor.encode("good")])
    assert engine.not_ready is None
    await engine.close()


class PanicException(BaseException):
    """As the Rust code of a library raises it."""


class Fragile(CpuBackend):
    """A device that a certain error takes away."""

    niceness = 0

    def is_fatal(self, error: BaseException) -> bool:
        return str(error) == "the device fell off the bus"


@pytest.mark.parametrize(
    ("error", "reason", "stuck"),
    [
        (RuntimeError("made to fail"), FAILED, None),
        (PanicException("made to fail"), FAILED, None),
        (SystemExit(3), FAILED, None),
        (RuntimeError("the device fell off the bus"), LOST, LOST),
    ],
)
async def test_whatever_ends_the_loading_is_no_loading_for_ever(
    predictor: Predictor, error: BaseException, reason: str, stuck: str | None
) -> None:
    with mock.patch.object(predictor, "warm_up", side_effect=error):
        engine = make(lambda: predictor, kind=Fragile)
        engine.start()
        await until(lambda: engine.not_ready != LOADING)
    assert engine.stuck == stuck
    with pytest.raises(NotReadyError, match=exactly(reason)):
        _ = engine.predictor
    with pytest.raises(NotReadyError, match=exactly(reason)):
        _ = engine.queue
    await engine.close()


async def test_closing_while_it_loads_or_probes(predictor: Predictor) -> None:
    loading = make(lambda: predictor)
    loading.start()
    await loading.close()
    probing = await start(predictor)
    with (
        mock.patch.object(predictor._runner, "run", side_effect=RuntimeError),
        mock.patch.object(predictor, "probe", side_effect=RuntimeError),
    ):
        with pytest.raises(InternalError):
            await explain(probing)
        await probing.close()
    with pytest.raises(DrainingError):
        await probing.queue.predict([predictor.encode("good")])


@pytest.mark.parametrize("kind", [CpuBackend, Fragile])
async def test_its_threads_give_way_and_what_stays_is_no_garbage(
    predictor: Predictor, kind: type[CpuBackend]
) -> None:
    """Unless the threads launch kernels, as those of `Fragile`."""
    gc.unfreeze()
    engine = await start(predictor, kind=kind)
    seen: list[int] = []
    await engine.queue.run(
        [Job(lambda: seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))]
    )
    await engine.close()
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    gives_way = kind is CpuBackend and sys.platform == "linux"
    assert seen == [max(own, 10) if gives_way else own]
    assert own == os.getpriority(os.PRIO_PROCESS, os.getpid())
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


async def test_a_pass_that_does_not_end_makes_a_replica_look_full_and_not_idle(
    predictor: Predictor,
) -> None:
    release = threading.Event()

    engine = make(lambda: predictor, watchdog_seconds=1.0)
    assert engine.backlog_seconds(full=0.5) == 0  # it loads
    engine.start()
    await until(lambda: engine.not_ready is None)
    assert engine.backlog_seconds(full=0.5) == 0
    text = engine.predictor.encode("good")

    run = predictor._runner.run

    def hold(*arguments: Any, **options: Any) -> object:  # noqa: ANN401
        release.wait(20)
        return run(*arguments, **options)

    with mock.patch.object(predictor._runner, "run", side_effect=hold):
        waiting = asyncio.create_task(engine.queue.predict([text]))
        await until(lambda: engine.backlog_seconds(full=0.5) > 0)
        first = engine.backlog_seconds(full=0.5)
        assert first <= 0.5
        await until(lambda: engine.backlog_seconds(full=0.5) > first)
        await until(lambda: engine.backlog_seconds(full=0.5) == 0.5)
        waiting.cancel()  # nobody waits any more, and the worker is still lost
        await until(lambda: engine.stuck is not None)
        assert engine.backlog_seconds(full=0.5) == 0.5
        release.set()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: engine.backlog_seconds(full=0.5) == 0)
    assert engine.not_ready is None
    await engine.close()


class Elsewhere(CpuBackend):
    """Says that it computes on another device than the processor."""

    def __init__(self) -> None:
        super().__init__("cpu", "float32", threads=2)
        self.device = "meta"


@pytest.mark.parametrize(
    ("backend", "clock"),
    [(CpuBackend("cpu", "float32", threads=2), "thread_time"), (Elsewhere(), "perf_counter")],
)
def test_the_pace_is_that_of_the_processor_or_of_the_clock_on_every_core(
    backend: Backend, clock: str, checkpoint_folder: Path
) -> None:
    predictor = load_predictor(open_checkpoint(checkpoint_folder), device="cpu", dtype="float32")
    readings: dict[int, Iterator[float]] = {}  # of two runs, the first takes longer

    def tick() -> float:
        return next(readings.setdefault(threading.get_ident(), cycle([0.0, 2.0, 3.0, 4.0])))

    fake = mock.Mock(wraps=time, **{clock: tick})
    with mock.patch.object(engine_module, "time", fake):
        pace = measure_pace(predictor, backend, 100)
    # Texts of 32 tokens: three in a pass, and one for gradients.
    assert pace == {FUSED: 1 / 96, EXPLICIT: 1 / 96, GRADIENT: 1 / 32}

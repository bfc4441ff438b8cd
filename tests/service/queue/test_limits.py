"""How much work one request may have, by a pace that is measured once."""

import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model import load_predictor, open_checkpoint
from model.backends.base import Backend
from model.backends.eager import CpuBackend
from service.errors import TooMuchWorkError
from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue import engine as engine_module
from service.queue.admission import WorkLimits
from service.queue.engine import measure_pace
from service.queue.scheduler import ClientId, Job
from tests.service.queueing import Setting, encoding

LIMITS = WorkLimits(
    {FUSED: 0.01, EXPLICIT: 0.02, GRADIENT: 0.05},
    cores=2,
    max_length=32,
    max_batch_tokens=100,
    max_queue_tokens=2000,
)


@pytest.mark.parametrize(
    ("path", "seconds", "most"),
    [
        (FUSED, 10.0, 1400),  # 0.7 of 10 seconds on two cores
        (EXPLICIT, 10.0, 700),
        (GRADIENT, 10.0, 256),  # 280, in whole rows of 32
        (FUSED, 0.1, 100),  # a pass
        (GRADIENT, 0.1, 96),  # three rows: one step, the text and its baseline
        (FUSED, 100.0, 2000),  # what the queue holds
        (GRADIENT, 100.0, 1984),
    ],
)
def test_the_most_tokens(path: str, seconds: float, most: int) -> None:
    assert LIMITS.most_tokens(path, seconds) == most  # type: ignore[arg-type]


def test_an_idle_replica_computes_on_all_cores_and_always_tries_a_pass() -> None:
    assert LIMITS.seconds(FUSED, 1400) == 7.0
    assert [LIMITS.seconds(FUSED, 100), LIMITS.seconds(GRADIENT, 96)] == [0.0, 0.0]


def test_a_text_by_itself_is_a_pass_and_what_is_not_measured_has_no_limit() -> None:
    assert WorkLimits({FUSED: 1.0}, max_length=32, max_batch_tokens=8).most_tokens(FUSED, 1) == 32
    WorkLimits().check(FUSED, 10**9, 0.001)


@given(st.integers(1, 32), st.floats(0.01, 1000))
def test_the_steps_of_the_longest_text_say_those_of_every_text(length: int, seconds: float) -> None:
    steps = LIMITS.most_steps(32, seconds)
    assert LIMITS.most_steps(length, seconds) == (steps + 2) * 32 // length - 2
    assert steps >= 1


def test_beyond_it_the_error_says_what_fits() -> None:
    LIMITS.check(FUSED, 1400, 10.0)
    with pytest.raises(TooMuchWorkError) as caught:
        LIMITS.check(FUSED, 1401, 10.0)
    assert caught.value.problem() == {
        "type": "/problems/too-much-work",
        "title": "The request is too much work",
        "status": 413,
        "detail": "The request takes 1401 tokens through the network, and a request that has 10 "
        "seconds may take at most 1400: send fewer or shorter texts at once.",
        "fits": {"tokens": 1400},
    }
    LIMITS.check_steps(14, 16, 10.0)
    with pytest.raises(TooMuchWorkError) as caught:
        LIMITS.check_steps(15, 16, 10.0)
    assert caught.value.fits == {"steps": 14}
    assert caught.value.detail == (
        "15 steps are too many for a text of 16 tokens, and a request that has 10 seconds may take "
        "at most 14: ask for fewer, or shorten it."
    )


async def test_the_queue_refuses_by_it_whatever_it_does() -> None:
    setting = Setting(limits=WorkLimits({FUSED: 0.0625, GRADIENT: 0.0625}, max_length=4))
    caller = ClientId("a", seconds=1.0)  # 11 tokens, or three rows
    job = Job(lambda: "done", [encoding(50, 4)] * 3)
    for _ in range(2):
        assert len(await setting.queue.predict([encoding(1, 11)], caller=caller)) == 1
        assert await setting.queue.run([job], caller=caller) == ["done"]
        with pytest.raises(TooMuchWorkError, match="takes 12 tokens"):
            await setting.queue.predict([encoding(1, 5), encoding(2, 7)], caller=caller)
        with pytest.raises(TooMuchWorkError, match="takes 16 tokens"):
            await setting.queue.run([job, Job(lambda: "", [encoding(50, 4)])], caller=caller)
        setting.queue._admission.rate.note(1000, 1000.0, full=True)  # now it is slow
    await setting.close()


class Elsewhere(CpuBackend):
    """Says that it computes on another device than the processor."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"), torch.float32, threads=2)
        self.device = torch.device("meta")


@pytest.mark.parametrize(
    ("backend", "clock"),
    [
        (CpuBackend(torch.device("cpu"), torch.float32, threads=2), "thread_time"),
        (Elsewhere(), "perf_counter"),
    ],
)
def test_the_pace_is_that_of_the_processor_or_of_the_clock_on_every_core(
    backend: Backend, clock: str, checkpoint_folder: Path
) -> None:
    predictor = load_predictor(
        open_checkpoint(checkpoint_folder), device=torch.device("cpu"), dtype=torch.float32
    )
    readings: dict[int, Iterator[float]] = {}  # of two runs, the first takes longer

    def tick() -> float:
        return next(readings.setdefault(threading.get_ident(), cycle([0.0, 2.0, 3.0, 4.0])))

    fake = mock.Mock(wraps=time, **{clock: tick})
    with mock.patch.object(engine_module, "time", fake):
        pace = measure_pace(predictor, backend, 100)
    # Texts of 32 tokens: three in a pass, and one for gradients.
    assert pace == {FUSED: 1 / 96, EXPLICIT: 1 / 96, GRADIENT: 1 / 32}

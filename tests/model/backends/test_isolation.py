"""Passes with bad texts, or too large for memory: the others get their results, in few passes."""

import gc
import math
import weakref
from collections.abc import Sequence
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.backends import base
from model.backends.base import in_halves, isolate
from model.backends.eager import CpuBackend
from tests.matching import exactly


class Fragile(CpuBackend):
    """A device that a certain error takes away."""

    def is_fatal(self, error: BaseException) -> bool:
        return str(error) == "lost"


BACKEND = Fragile("cpu", "float32", threads=1)


class Work:
    """Passes that fail if a bad entry is among theirs."""

    def __init__(self, bad: set[int], *, sound: bool = True, message: str = "bad") -> None:
        self.bad = bad
        self.sound = sound
        self.message = message
        self.failed: list[int] = []
        self.worked: list[int] = []
        self.controls = 0

    def run(self, entries: Sequence[int]) -> list[int | Exception]:
        if self.bad & set(entries):
            self.failed.append(len(entries))
            raise RuntimeError(self.message)
        self.worked.append(len(entries))
        return [-entry for entry in entries]

    def control(self) -> None:
        self.controls += 1
        if not self.sound:
            raise RuntimeError("the control fails too")


@given(st.integers(2, 300), st.booleans(), st.data())
def test_bad_entries_fail_alone_and_cost_a_bounded_number_of_passes(
    count: int, one: bool, data: st.DataObject
) -> None:
    most = 1 if one else count - 1
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=int(one), max_size=most))
    work = Work(bad)

    results = isolate(work.run, range(count), BACKEND, control=work.control)

    assert len(results) == count
    for entry, result in enumerate(results):
        assert isinstance(result, RuntimeError) if entry in bad else result in {-entry, result}
    depth = math.ceil(math.log2(count))
    assert len(work.failed) <= (depth + 1 if one else 3 * count.bit_length() + 1)
    if one:
        assert len(work.worked) <= depth
        assert work.controls == 0
    if len(bad) <= 2:  # there was enough for both
        assert {entry for entry, each in enumerate(results) if isinstance(each, Exception)} == bad
        assert all(results[entry] == -entry for entry in range(count) if entry not in bad)


@pytest.mark.parametrize("count", [1, 7, 256])
def test_if_all_fail_a_sound_entry_tells_whose_fault_it_is(count: int) -> None:
    work = Work(set(range(count)))
    results = isolate(work.run, range(count), BACKEND, control=work.control)
    assert [type(result) for result in results] == [RuntimeError] * count
    assert work.controls == 1
    broken = Work(set(range(count)), sound=False)
    with pytest.raises(RuntimeError, match=exactly("bad")):
        isolate(broken.run, range(count), BACKEND, control=broken.control)
    assert broken.controls == 1
    assert len(broken.failed) <= 3 * count.bit_length() + 1


def test_errors_in_place_of_results_cost_no_other_pass() -> None:
    passes: list[int] = []

    def run(entries: Sequence[int]) -> list[int | Exception]:
        passes.append(len(entries))
        return [ValueError() if entry == 3 else entry for entry in entries]

    results = isolate(run, range(8), BACKEND, control=pytest.fail)
    assert isinstance(results.pop(3), ValueError)
    assert results == [0, 1, 2, 4, 5, 6, 7]
    assert passes == [8]


def test_a_lost_device_ends_the_search() -> None:
    work = Work({3}, message="lost")
    with pytest.raises(RuntimeError, match=exactly("lost")):
        isolate(work.run, range(8), BACKEND, control=work.control)
    assert work.failed == [8]


class Large:
    """A result that takes memory."""


def test_an_error_keeps_no_result_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base._isolation_log, "disabled", True)  # pytest keeps what is logged

    def run(entries: Sequence[int]) -> list[Large | Exception]:
        if 1 in entries:
            raise RuntimeError("bad")
        return [Large() for _ in entries]

    gc.disable()
    try:
        first, error = isolate(run, range(2), BACKEND, control=pytest.fail)
        assert isinstance(first, Large)
        assert isinstance(error, RuntimeError)
        gone = weakref.ref(first)
        del first
        assert gone() is None
    finally:
        gc.enable()


CPU_BACKEND = CpuBackend("cpu", "float32", threads=1)
ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("[enforce fail] . DefaultCPUAllocator: not enough memory: you tried to allocate"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@given(st.integers(1, 40), st.integers(1, 40))
def test_it_halves_until_it_fits(error: Exception, count: int, room: int) -> None:
    passes: list[int] = []

    def run(texts: Sequence[int]) -> list[int]:
        passes.append(len(texts))
        if len(texts) > room:
            raise error
        return [-text for text in texts]

    assert in_halves(run, range(count), CPU_BACKEND) == [-text for text in range(count)]
    assert sum(size for size in passes if size <= room) == count


def test_memory_is_freed_before_a_pass_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = Mock()
    monkeypatch.setattr(CPU_BACKEND, "free_memory", freed)

    def run(texts: Sequence[int]) -> list[int]:
        if len(texts) > 1:
            raise MemoryError
        return list(texts)

    assert in_halves(run, range(2), CPU_BACKEND) == [0, 1]
    assert freed.call_count == 1
    assert isolate(run, range(2), CPU_BACKEND, control=pytest.fail) == [0, 1]
    assert freed.call_count == 2


def test_a_single_text_or_another_error_is_not_tried_again() -> None:
    passes: list[int] = []

    def run(texts: Sequence[int]) -> list[int]:
        passes.append(len(texts))
        raise ERRORS[0] if len(texts) < 4 else RuntimeError("shapes do not fit")

    with pytest.raises(MemoryError):
        in_halves(run, range(1), CPU_BACKEND)
    with pytest.raises(RuntimeError):
        in_halves(run, range(4), CPU_BACKEND)
    assert passes == [1, 4]


def test_what_torch_says_when_a_processor_has_no_memory_left() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert CPU_BACKEND.is_out_of_memory(failed.value)
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2) + torch.empty(3)
    assert not CPU_BACKEND.is_out_of_memory(failed.value)

"""Passes that memory does not hold: in halves, and never twice for who was answered."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.backends.base import in_halves
from model.backends.eager import CpuBackend

BACKEND = CpuBackend(torch.device("cpu"), torch.float32, threads=1)
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

    assert in_halves(run, range(count), BACKEND) == [-text for text in range(count)]
    assert sum(size for size in passes if size <= room) == count


def test_a_single_text_that_does_not_fit_fails() -> None:
    def run(_: Sequence[int]) -> list[int]:
        raise ERRORS[0]

    with pytest.raises(MemoryError):
        in_halves(run, range(4), BACKEND)


def test_other_errors_are_not_tried_again() -> None:
    passes: list[int] = []

    def run(texts: Sequence[int]) -> list[int]:
        passes.append(len(texts))
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError):
        in_halves(run, range(4), BACKEND)
    assert passes == [4]


def test_what_torch_says_when_a_processor_has_no_memory_left() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert BACKEND.is_out_of_memory(failed.value)
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2) + torch.empty(3)
    assert not BACKEND.is_out_of_memory(failed.value)

"""Where a run computes, and what the record says of the machine."""

import platform

import pytest
import torch

from model.backends.device import computes_bfloat16
from training.device import Accelerator, choose_accelerator, describe

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("dtype", "bfloat16"),
    [("float32", False), ("bfloat16", True), ("auto", computes_bfloat16(CPU))],
)
def test_a_run_on_the_cpu_is_deterministic(dtype: str, *, bfloat16: bool) -> None:
    chosen = choose_accelerator("cpu", threads=2, dtype=dtype)

    assert chosen == Accelerator(CPU, bfloat16)
    assert torch.get_num_threads() == 2
    assert torch.are_deterministic_algorithms_enabled()


def test_the_machine_in_one_line() -> None:
    torch.set_num_threads(3)

    assert describe(CPU).endswith(
        f", 3 threads, Python {platform.python_version()}, torch {torch.__version__}"
    )

"""Where a run computes, and what the record says of the machine."""

import os
import platform
import sys

import pytest
import torch

from model.backends.device import computes_bfloat16
from tests.programs import run_python
from training.device import Accelerator, choose_accelerator, describe

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("dtype", "bfloat16"),
    [("float32", False), ("bfloat16", True), ("auto", computes_bfloat16("cpu"))],
)
def test_a_run_on_the_cpu_is_deterministic(dtype: str, *, bfloat16: bool) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    chosen = choose_accelerator("cpu", threads=2, dtype=dtype)
    assert chosen == Accelerator(CPU, bfloat16)
    assert torch.get_num_threads() == 2
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]


@pytest.mark.skipif(sys.platform != "linux", reason="the OpenMP of torch on Linux says it")
@pytest.mark.parametrize("module", ["service.app", "scoring.scorer", "training.estimator"])
def test_threads_that_wait_for_others_sleep(module: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    done = run_python(
        "-c", f"import {module}, torch", env={**inherited, "OMP_DISPLAY_ENV": "verbose"}
    )
    assert "GOMP_SPINCOUNT = '0'" in done.stderr


def test_the_machine_in_one_line() -> None:
    torch.set_num_threads(3)
    assert describe(CPU).endswith(
        f", 3 threads, Python {platform.python_version()}, torch {torch.__version__}"
    )

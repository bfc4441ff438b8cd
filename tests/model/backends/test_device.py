"""The device, type and threads that settings choose, on machines that are only described."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import torch

from model import open_checkpoint
from model.backends import device as devices
from model.backends import kernels, threads
from model.backends.base import Backend, pass_threads, use_threads
from model.backends.cpu_kernels import KernelBackend
from model.backends.cuda import CudaBackend
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.backends.eager import CpuBackend
from model.backends.kernels import InstructionSet
from model.backends.threads import choose_threads
from model.checkpoint.records import Precision
from model.errors import ConfigurationError
from tests.builders import precision, precision_set, tiny_checkpoint, tiny_conv_checkpoint
from tests.matching import exactly

CPU, GPU = "cpu", "cuda:0"
FINE = precision()
POOR = precision(precision_set(lost=9, gained=1))
WITHIN = "int8 was measured within 0.2 points of float32 (+0.00 over 1,000 rows)"
OUTSIDE = "int8 was not within 0.2 points of float32 (-0.80 over 1,000 rows)"
NO_RECORD = "the checkpoint has no record of int8"


def have_sets(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Describes a processor with these sets of instructions."""
    sets = [InstructionSet(name.encode(), 0b101, 16) for name in names]
    reason = None if sets else "this processor has no AVX2"
    monkeypatch.setattr(kernels, "_load", lambda: (sets, reason))


def have_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(devices, "version", lambda _: "2.13.0+cu130")
    monkeypatch.setattr(devices, "_DRIVERS", ["/"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


TOO_MANY = (
    "device {} was asked for, but torch finds {} CUDA devices: use cpu or auto, or install torch "
    "with CUDA"
)
UNKNOWN = "device must be auto, cpu, cuda or cuda:N, got {}"


@pytest.mark.parametrize(
    ("gpus", "name", "device"),
    [(0, "auto", "cpu"), (2, "auto", "cuda:0"), (2, "cpu", "cpu"), (2, "cuda:1", "cuda:1")],
)
def test_a_device(gpus: int, name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, gpus)
    assert choose_device(name) == device


@pytest.mark.parametrize(
    ("gpus", "name", "message"),
    [
        (0, "cuda", TOO_MANY.format("cuda", 0)),
        (2, "cuda:2", TOO_MANY.format("cuda:2", 2)),
        *((2, name, UNKNOWN.format(name)) for name in ("", "cuda:x", "cpu:0", "CPU")),
    ],
)
def test_a_device_that_is_not_there(
    gpus: int, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_gpus(monkeypatch, gpus)
    with pytest.raises(ConfigurationError, match=exactly(message)):
        choose_device(name)


@pytest.mark.parametrize(
    ("device", "sets", "conv", "kind"),
    [
        ("cpu", ["avx512_vnni"], False, (KernelBackend, "kernels (avx512)")),
        ("cpu", ["neon_i8mm", "neon"], False, (KernelBackend, "kernels (neon)")),
        ("cpu", [], False, (CpuBackend, "eager")),
        ("cpu", ["avx2"], True, (CpuBackend, "eager")),
        ("cuda:0", ["avx2"], False, (CudaBackend, "cuda")),
    ],
)
def test_a_backend_for_each_device_and_network(
    device: str,
    sets: list[str],
    conv: bool,
    kind: tuple[type[Backend], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have_sets(monkeypatch, *sets)
    make = tiny_conv_checkpoint if conv else tiny_checkpoint
    checkpoint = open_checkpoint(make(tmp_path / "tiny"))
    backend = choose_backend(checkpoint, device=device, dtype="float32", threads=3)
    assert (type(backend), backend.name) == kind
    assert (backend.device, backend.dtype, backend.threads) == (device, "float32", 3)


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("float16", "cpu", "dtype float16 is for GPUs, which cpu is not: use auto"),
        (
            "int8",
            "cpu",
            "dtype int8 needs the kernels on a processor, and this processor has no AVX2: use auto",
        ),
        (
            "int8",
            "cuda:1",
            "dtype int8 needs the kernels on a processor, and cuda:1 is none: use auto",
        ),
        ("double", "cpu", "dtype must be auto, float32, bfloat16, float16, int8, got double"),
    ],
)
def test_a_type_that_a_device_lacks(
    name: str, device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_sets(monkeypatch)
    with pytest.raises(ConfigurationError, match=exactly(message)):
        choose_dtype(name, device)


@pytest.mark.parametrize(
    ("instructions", "have", "record", "dtype", "reason"),
    [
        ("avx512_vnni", {"avx512_bf16"}, FINE, "int8", f"is fastest in int8, and {WITHIN}"),
        ("avx512_vnni", {"avx512_bf16"}, POOR, "bfloat16", f"is fastest in int8, but {OUTSIDE}"),
        ("avx2", set(), None, "float32", f"is fastest in int8, but {NO_RECORD}"),
        ("neon", set(), FINE, "float32", "has no fast int8 (no products of bytes)"),
        (None, {"bf16"}, FINE, "bfloat16", "has no fast int8 (this processor has no AVX2)"),
    ],
)
def test_the_type_of_a_processor(
    instructions: str | None,
    have: set[str],
    record: Precision | None,
    dtype: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a table, so that replicas on the same processor choose alike."""
    have_sets(monkeypatch, *([instructions] if instructions else []))
    monkeypatch.setattr(threads, "processor_features", lambda: have)
    monkeypatch.setattr(devices, "processor_features", lambda: have)
    choice = choose_dtype("auto", CPU, [record] if record else [])
    next_best = "" if dtype == "int8" else f"; next is {dtype}"
    assert choice.dtype == dtype
    assert choice.reason == f"auto: this processor {reason}{next_best}"


@pytest.mark.parametrize(
    ("capability", "dtype", "reason"),
    [
        ((8, 0), "bfloat16", "multiplies bfloat16 natively"),
        ((7, 0), "float16", "has no bfloat16, and multiplies float16 natively"),
        ((6, 1), "float32", "has neither bfloat16 nor float16"),
    ],
)
def test_a_gpu_never_computes_in_int8(
    capability: tuple[int, int], dtype: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    have_sets(monkeypatch, "avx512_vnni")
    choice = choose_dtype("auto", GPU, [FINE])
    assert choose_dtype("float16", GPU).dtype == "float16"
    assert (choice.dtype, choice.reason) == (dtype, f"auto: this GPU {reason}")


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "900000 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 4),
        # The smallest of all groups round the process counts.
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "100000 50000\n"}, 2),
        *(
            (
                "4:memory:/other\n5:cpu,cpuacct:/job\n",
                {"cpu/job/cpu.cfs_quota_us": quota, "cpu/job/cpu.cfs_period_us": "100000\n"},
                expected,
            )
            for quota, expected in [("-1\n", 4), ("75000\n", 1), ("300000\n", 3)]
        ),
        ("", {}, 4),
    ],
)
def test_threads_by_the_quota_of_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], expected: int
) -> None:
    for name, content in {**files, "own": own}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
    monkeypatch.setattr(threads, "_ROOT", tmp_path)
    monkeypatch.setattr(threads, "_OWN", tmp_path / "own")
    assert choose_threads(0) == expected


def test_a_setting_or_no_group_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_OWN", tmp_path / "nothing")
    assert (choose_threads(7), choose_threads(0)) == (7, 4)


def test_threads_hold_before_and_after_another_thread_imports_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadPoolExecutor(1) as worker:
        with monkeypatch.context() as importing:
            importing.setitem(sys.modules, "torch", ModuleType("torch"))  # not yet at its end
            assert pass_threads() >= 1
            worker.submit(use_threads, 1).result()
            assert worker.submit(pass_threads).result() == 1
        worker.submit(use_threads, 1).result()
        assert worker.submit(torch.get_num_threads).result() == 1

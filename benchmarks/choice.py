"""Chooses which servers and which loads are measured, by the device and the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import gpu
from benchmarks.errors import BenchmarkError
from benchmarks.loads import GPU_LOADS, LOADS, Load, Open
from benchmarks.servers import Program
from model.backends.device import computes_bfloat16, computes_int8

OURS = Program("headlight", "service", explains=True, alone=("benchmarks.limit",))
OURS_INT8 = Program(
    "headlight-int8",
    "service",
    ("--dtype", "int8"),
    explains=True,
    alone=("benchmarks.limit", "--dtype", "int8"),
)
PIPELINE = Program("pipeline", "benchmarks.peers.pipeline_app", explains=True)
_LITSERVE = "benchmarks.peers.litserve_app"
_LITSERVE_BF16 = "litserve-bf16"
_OPENVINO_BF16 = "openvino-bf16"
_OPENVINO_INT8 = "openvino-int8"
_ONNXRUNTIME_INT8 = "onnxruntime-int8"


def programs(peers: Path) -> tuple[Program, ...]:
    """Lists all servers that can be measured, ours first.

    Args:
        peers: folder of the virtual environments of those peers that need their own.
    """
    litserve = peers / "litserve"
    return (
        OURS,
        OURS_INT8,
        PIPELINE,
        Program("litserve", _LITSERVE, environment=litserve),
        Program(_LITSERVE_BF16, _LITSERVE, ("--dtype", "bfloat16"), environment=litserve),
        Program("bentoml", "benchmarks.peers.bentoml_app", environment=peers / "bentoml"),
        _engine(_OPENVINO_BF16, peers),
        _engine(_OPENVINO_INT8, peers),
        _engine(_ONNXRUNTIME_INT8, peers),
    )


def _engine(name: str, peers: Path) -> Program:
    """A peer that is named by its engine and the type of its numbers."""
    engine, _, precision = name.rpartition("-")
    options = ("--precision", precision)
    return Program(
        name,
        f"benchmarks.peers.{engine}_app",
        options,
        environment=peers / engine,
        alone=("benchmarks.peers.limit", "--engine", engine, *options),
    )


def chosen_programs(names: Sequence[str], folder: Path, device: str = "cpu") -> list[Program]:
    """Returns the service and the other servers that are asked for.

    Args:
        names: of the others; if empty, all that this device computes fast.
        folder: of the virtual environments.
        device: `cpu` or `cuda`.

    Raises:
        BenchmarkError: one of them is not installed, or is not for the device.
    """
    on_gpu = device == "cuda"
    ours, *others = gpu.programs(folder) if on_gpu else programs(folder)
    known = [each.name for each in others]
    _check_names("--servers", names, known, device)
    wanted = set(names) or set(known) - (_slower_on_gpu() if on_gpu else _slow_here())
    missing = [
        each.name
        for each in others
        if each.name in wanted and each.environment and not Path(each.python).exists()
    ]
    if missing:
        raise BenchmarkError(
            f"{', '.join(missing)}: not installed in {folder}: run make "
            f"{'gpu-benchmark' if on_gpu else 'benchmark'}, "
            "which does that, or choose others with --servers"
        )
    return [ours, *(each for each in others if each.name in wanted)]


def _check_names(option: str, names: Sequence[str], known: Sequence[str], device: str) -> None:
    for name in names:
        if name not in known:
            raise BenchmarkError(
                f"{option} {name}: is not measured with --device {device}: choose of "
                f"{', '.join(known)}"
            )


def _slower_on_gpu() -> set[str]:
    return gpu.slower_type(has_bfloat16=computes_bfloat16(torch.device("cuda")))


def _slow_here() -> set[str]:
    """Names the servers whose number type this processor has no instructions for."""
    cpu = torch.device("cpu")
    in_bfloat16, in_bytes = computes_bfloat16(cpu), computes_int8(cpu)
    native = {
        **dict.fromkeys((_LITSERVE_BF16, _OPENVINO_BF16), in_bfloat16),
        **dict.fromkeys((OURS_INT8.name, _OPENVINO_INT8, _ONNXRUNTIME_INT8), in_bytes),
    }
    slow = {name for name, is_native in native.items() if not is_native}
    if slow:
        report(f"left out, as this processor computes it slowly: {', '.join(sorted(slow))}")
    return slow


def chosen_loads(names: Sequence[str], device: str = "cpu") -> list[Load]:
    """Returns the named loads and those whose rates they need; all if none is named.

    Args:
        names: of loads.
        device: `cpu` or `cuda`.

    Raises:
        BenchmarkError: one of them is not for the device.
    """
    loads = GPU_LOADS if device == "cuda" else LOADS
    _check_names("--loads", names, [load.name for load in loads], device)
    wanted = {*names, *(load.of for load in LOADS if isinstance(load, Open) and load.name in names)}
    return [load for load in loads if not names or load.name in wanted]


def names_of(found: Sequence[Program | Load]) -> list[str]:
    """Returns each name once, in order."""
    return list(dict.fromkeys(each.name for each in found))


def report(line: str) -> None:
    """Tells a step of the work on stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()

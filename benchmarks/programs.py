"""Lists the servers that can be measured, and chooses those that this device computes fast."""

from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.errors import BenchmarkError
from benchmarks.servers import Program
from model.backends.device import computes_bfloat16

OURS = "headlight"

_PIPELINE = "benchmarks.peers.pipeline_app"
_LITSERVE = "benchmarks.peers.litserve_app"


def programs(peers: Path, device: str) -> tuple[Program, ...]:
    """Lists all servers for a device, ours first; `peers` has the environments of some."""
    if device == "cuda":
        return _gpu_programs(peers / "litserve")

    def engine(name: str, precision: str) -> Program:
        options = ("--precision", precision)
        module = f"benchmarks.peers.{name}_app"
        return Program(f"{name}-{precision}", module, options, environment=peers / name)

    bfloat16 = ("--dtype", "bfloat16")
    return (
        Program(OURS, "service", explains=True, dtype="auto"),
        Program(f"{OURS}-bf16", "service", bfloat16, explains=True, dtype="bfloat16"),
        Program("pipeline", _PIPELINE, explains=True),
        Program("litserve", _LITSERVE, environment=peers / "litserve"),
        Program("litserve-bf16", _LITSERVE, bfloat16, environment=peers / "litserve"),
        engine("openvino", "bf16"),
        engine("openvino", "int8"),
        engine("openvino", "fp32"),
        engine("onnxruntime", "int8"),
        engine("onnxruntime", "fp32"),
    )


def _gpu_programs(litserve: Path) -> tuple[Program, ...]:
    on_gpu = ("--device", "cuda")
    # One text after the other would leave a GPU idle; its manual advises batches there.
    batched = (*on_gpu, "--batch-size", "64")
    types = {"": "float32", "-bf16": "bfloat16", "-fp16": "float16"}
    return (
        Program(OURS, "service", on_gpu, explains=True, dtype="auto", sees_gpu=True),
        Program("pipeline", _PIPELINE, batched, explains=True, sees_gpu=True),
        *(
            Program(
                f"litserve{suffix}",
                _LITSERVE,
                (*on_gpu, "--dtype", dtype),
                environment=litserve,
                sees_gpu=True,
            )
            for suffix, dtype in types.items()
        ),
    )


def choose_programs(names: Sequence[str], peers: Path, device: str) -> list[Program]:
    """Returns the service and the named servers, or all that the device computes natively."""
    ours, *others = programs(peers, device)
    known = [each.name for each in others]
    for name in names:
        if name not in known:
            raise BenchmarkError(
                f"--servers {name}: not measured with --device {device}; choose from "
                f"{', '.join(known)}"
            )
    slow = _slow_suffixes(device)
    wanted = names or [name for name in known if not name.endswith(slow)]
    chosen = [each for each in others if each.name in wanted]
    missing = [each.name for each in chosen if each.environment and not Path(each.python).exists()]
    if missing:
        target = "gpu-benchmark" if device == "cuda" else "benchmark"
        raise BenchmarkError(
            f"{', '.join(missing)}: not installed in {peers}; run make {target}, or choose other "
            "servers with --servers"
        )
    return [ours, *chosen]


def _slow_suffixes(device: str) -> tuple[str, ...]:
    """Returns how the names of servers end whose number type the device computes slowly."""
    has_bfloat16 = computes_bfloat16(torch.device(device))
    if device == "cuda":
        return ("-fp16",) if has_bfloat16 else ("-bf16",)
    return ("-bf16",) * (not has_bfloat16)

"""Says what is measured on a GPU, and samples how busy the GPU is."""

import resource
import shutil
import statistics
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from benchmarks.errors import BenchmarkError
from benchmarks.servers import Program

_DEVICE = ("--device", "cuda")
_LITSERVE = "benchmarks.peers.litserve_app"
_BF16, _FP16 = "litserve-bf16", "litserve-fp16"
# The connections of the largest load, and some that are about to close.
MOST_CONNECTIONS = 1280
# The service holds 2,048 files for connections that arrive at once, and 56 of its own.
_OPEN_FILES = 4096
# What nvidia-smi tells is the share of up to a second before.
_BETWEEN_SECONDS = 0.5
_PATIENCE = 10.0


def programs(peers: Path) -> tuple[Program, ...]:
    """Lists all servers that can be measured on a GPU, ours first.

    Args:
        peers: folder of the virtual environments of those peers that need their own.
    """
    connections = ("--max-connections", str(MOST_CONNECTIONS))
    options = {
        "litserve": _DEVICE,
        _BF16: (*_DEVICE, "--dtype", "bfloat16"),
        _FP16: (*_DEVICE, "--dtype", "float16"),
    }
    return (
        Program(
            "headlight",
            "service",
            (*_DEVICE, *connections),
            explains=True,
            alone=("benchmarks.limit", *_DEVICE),
            sees_gpu=True,
        ),
        # One text after the other would leave a GPU idle; its manual advises batches there.
        Program(
            "pipeline",
            "benchmarks.peers.pipeline_app",
            (*_DEVICE, "--batch-size", "64"),
            explains=True,
            sees_gpu=True,
        ),
        *(
            Program(name, _LITSERVE, given, environment=peers / "litserve", sees_gpu=True)
            for name, given in options.items()
        ),
    )


def slower_type(*, has_bfloat16: bool) -> set[str]:
    """Names the server in the 16-bit type that `auto` does not choose on this GPU."""
    return {_FP16 if has_bfloat16 else _BF16}


def check() -> None:
    """Checks that there is a GPU, and lets the servers and the client open enough files.

    Raises:
        BenchmarkError: torch finds no GPU, or the limit of open files cannot be raised so far.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise BenchmarkError(
            "--device cuda was asked for, but torch finds 0 CUDA devices: use --device cpu, or "
            "install torch with CUDA (make gpu-benchmark TORCH=cuda)"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _OPEN_FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < _OPEN_FILES:
        raise BenchmarkError(
            f"a process may open {hard} files, and the loads on a GPU need {_OPEN_FILES}: raise "
            f"the limit with ulimit -Hn {_OPEN_FILES}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))


def query() -> tuple[str, ...]:
    """Returns the command that tells how busy the first GPU is; empty without nvidia-smi."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return ()
    # nvidia-smi numbers the GPUs of a machine in another order, and knows no CUDA_VISIBLE_DEVICES.
    uuid = torch.cuda.get_device_properties(0).uuid
    return (
        *(found, f"--id=GPU-{uuid}", "--query-gpu=utilization.gpu"),
        "--format=csv,noheader,nounits",
    )


@contextmanager
def watching(command: Sequence[str]) -> Iterator[list[float]]:
    """Samples the busy share of a GPU on a thread for the duration of the block.

    Args:
        command: from `query`; if empty, nothing is sampled.

    Returns:
        The samples, 0 to 1, complete when the block has ended.
    """
    samples: list[float] = []
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_BETWEEN_SECONDS):
            found = _ask(command)
            if found is not None:
                samples.append(found)

    if not command:
        yield samples
        return
    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def mean(samples: Sequence[float]) -> float | None:
    """Returns the mean of samples; None if there are none."""
    return statistics.fmean(samples) if samples else None


def _ask(command: Sequence[str]) -> float | None:
    """Returns the share that nvidia-smi tells; None if it tells none, as of a part of a GPU."""
    try:
        done = subprocess.run(  # noqa: S603 - the installed nvidia-smi
            command, capture_output=True, text=True, check=True, timeout=_PATIENCE
        )
        return int(done.stdout) / 100
    except (OSError, subprocess.SubprocessError, ValueError):
        return None

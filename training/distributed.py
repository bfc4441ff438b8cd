"""Joins the processes that `torchrun` starts, and exchanges what all of them must agree on.

Only sums, maxima and bytes are exchanged, over gloo even beside GPUs; nothing is unpickled.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from model.tables.lines import first_line
from training.errors import TrainingError

_COUNT, _NUMBER = "WORLD_SIZE", "RANK"
_LOCAL_COUNT, _LOCAL_NUMBER = "LOCAL_WORLD_SIZE", "LOCAL_RANK"
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a run."""

    number: int = 0
    count: int = 1
    local_number: int = 0
    local_count: int = 1
    restarts: int = 0  # how often torchrun has started them again
    group: Any = None  # exchanges over gloo, among several processes
    store: Any = None  # counts which errors they have reported

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.number == 0

    def wait(self) -> None:
        """Waits until every process is here."""
        if self.count > 1:
            distributed.barrier(group=self.group)

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Adds up the arrays of all processes, which have one shape."""
        if self.count == 1:
            return values
        total = torch.from_numpy(np.array(values, dtype=np.float64))
        distributed.all_reduce(total, group=self.group)
        result: NDArray[np.float64] = total.numpy()
        return result

    def agree(self, stop: Callable[[], int | None]) -> Callable[[], int | None]:
        """Makes a function that all processes call together, and that returns their maximum."""
        if self.count == 1:
            return stop

        def agreed() -> int | None:
            number = torch.tensor(stop() or 0)
            distributed.all_reduce(number, op=distributed.ReduceOp.MAX, group=self.group)
            return int(number) or None

        return agreed

    def share(self, content: bytes | None) -> bytes:
        """Sends bytes of the first process to all; the argument of the others is not read."""
        if self.count == 1:
            return content or b""
        size = torch.tensor(len(content or b"") if self.is_first else 0)
        distributed.broadcast(size, src=0, group=self.group)
        if not int(size):
            return b""
        if self.is_first:
            data = torch.frombuffer(bytearray(content or b""), dtype=torch.uint8)
        else:
            data = torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(data, src=0, group=self.group)
        return data.numpy().tobytes()

    def share_object(self, content: Any) -> Any:  # noqa: ANN401 - what JSON holds
        """Sends a value of the first process to all, as JSON."""
        return json.loads(self.share(json.dumps(content).encode() if self.is_first else None))

    def share_tensors(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """Sends tensors of the first process to all; they arrive on the CPU."""
        if self.count == 1:
            return dict(tensors or {})
        stored = None
        if self.is_first:
            copies = {
                name: each.detach().cpu().contiguous() for name, each in (tensors or {}).items()
            }
            stored = safetensors.torch.save(copies)
        return safetensors.torch.load(self.share(stored))


SINGLE_PROCESS = Ranks()
_current = SINGLE_PROCESS


def current() -> Ranks:
    """Returns the processes of this run; one if `torchrun` has not started it."""
    return _current


@contextmanager
def joined(device: str, *, timeout: float) -> Iterator[Ranks]:
    """Joins the other processes, if there are any; raises `TrainingError` if one does not come."""
    global _current
    count = int(os.environ.get(_COUNT, "1"))
    restarts = int(os.environ.get(_RESTARTS, "0"))
    if count == 1:
        _current = Ranks(restarts=restarts)
        try:
            yield _current
        finally:
            _current = SINGLE_PROCESS
        return
    if not distributed.is_available():
        raise TrainingError("this build of torch has no torch.distributed: run one process")
    on_gpus = device.partition(":")[0] == "cuda" or (device == "auto" and torch.cuda.is_available())
    if on_gpus and not distributed.is_nccl_available():
        raise TrainingError("this build of torch has no NCCL, which GPUs exchange gradients by")
    limit = timedelta(seconds=timeout)
    try:
        met, number, _ = next(rendezvous("env://", timeout=limit))
        # torchrun keeps one store: addresses of processes that it has ended are still there.
        store = PrefixStore(f"headlight/{restarts}", met)
        distributed.init_process_group(
            "nccl" if on_gpus else "gloo", store=store, rank=number, world_size=count, timeout=limit
        )
    except (distributed.DistError, ValueError, RuntimeError) as error:
        raise TrainingError(
            f"not all of the {count} processes that {_COUNT} announces have come within "
            f"{timeout:g} s: start the others, or raise --rank-timeout ({first_line(error)})"
        ) from error
    try:
        _current = Ranks(
            number=number,
            count=count,
            local_number=int(os.environ.get(_LOCAL_NUMBER, "0")),
            local_count=int(os.environ.get(_LOCAL_COUNT, "1")),
            restarts=restarts,
            group=distributed.new_group(backend="gloo", timeout=limit),
            store=store,
        )
        yield _current
    finally:
        _current = SINGLE_PROCESS
        distributed.destroy_process_group()


def is_lost(error: RuntimeError) -> bool:
    """Whether an exchange failed because another process has ended."""
    return isinstance(error, distributed.DistError) or "gloo" in str(error)


def may_report(message: str) -> bool:
    """Whether this process should print an error that others may have found too: the first one."""
    if _current.count == 1:
        return int(os.environ.get(_NUMBER, "0")) == 0
    key = hashlib.sha256(message.encode()).hexdigest()
    try:
        return bool(_current.store.add(f"reported/{key}", 1) == 1)
    except (RuntimeError, ValueError):
        return _current.is_first

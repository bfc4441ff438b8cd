"""Defines the interface to a device, and repeats passes that fail on it.

`in_halves` repeats a pass that runs out of memory; `isolate` finds the texts on which one fails.

Legend: B batch, T tokens, C classes, L chosen layers, H heads.
"""

import logging
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.backends.threads import usable_cores
from model.checkpoint.opening import Checkpoint
from model.errors import FAULTS
from model.explain.attention_steps import Projected
from model.explain.on_demand import OnDemand
from model.types import Encoding

if TYPE_CHECKING:  # it imports torch
    from model.network.architecture import Network

Entry = TypeVar("Entry")
Result = TypeVar("Result")

_isolation_log = logging.getLogger("headlight.isolation")
_memory_log = logging.getLogger("headlight.memory")


@dataclass(frozen=True, slots=True)
class Selection:
    """The layers and the heads of each, ascending, whose weights a pass returns."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PassOutput:
    """The results of a pass: logits float32 [B, C], and each chosen layer's [B, H, T, T]."""

    logits: NDArray[np.float32]
    weights: tuple[NDArray[np.float32], ...] = ()


class Runner(ABC):
    """Passes of one loaded network; several threads may run them at once."""

    network: "OnDemand[Network]"  # the same network in float32, for derivatives

    @abstractmethod
    def run(self, encodings: Sequence[Encoding], selection: Selection | None = None) -> PassOutput:
        """Classifies B texts in one pass; with a selection, by the explicit path."""

    def warm_up(self) -> None:
        """Prepares passes of every size, so that the first ones take no longer."""
        return

    @abstractmethod
    def embed(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """Returns what the classifier reads of B texts, float32 [B, features], in one pass."""

    @abstractmethod
    def project(self, encoding: Encoding, layer: int) -> Projected:
        """Runs the layers before one of them, and its projections, in float32."""


class Backend(ABC):
    """Everything that the project needs to know about a device, before any weight is read."""

    name: str  # what computes passes: `kernels` with the instructions, `eager` or `cuda`
    workers: int  # passes in progress at once, each on its own thread
    cores: int  # parts of the device, each of which computes a pass by itself
    #: tokens of one pass with padding; a setting may give another number before `load`
    default_batch_tokens: int
    #: the same of one pass with maps of attention, whose memory grows by the square of the length
    explained_tokens = sys.maxsize
    niceness: int  # niceness of threads that run passes, as in `nice`
    #: whether padding goes through the projections too, which take most of a pass
    computes_padding = True
    #: whether a pass of any texts costs what its rounded shape does, so that their lengths may mix
    shapes_passes = False
    worth_sharing_tokens: int  # the fewest tokens for which a single pass uses several cores
    #: what a token of a derivative costs, in tokens of a prediction; None: measure it
    gradient_cost: float | None = None
    dtype_reason = "set by the caller"  # why networks run in this type

    def __init__(self, device: str, dtype: str, *, threads: int) -> None:
        self.device = device
        self.dtype = dtype
        self.threads = threads

    @abstractmethod
    def load(self, checkpoint: Checkpoint) -> Runner:
        """Reads the weights, and prepares the network; raises as `Checkpoint.load_weights`."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Returns whether an error means that the machine or the device is out of memory."""
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        """Frees memory that is cached for later passes."""
        return

    def is_fatal(self, error: BaseException) -> bool:
        """Returns whether only a new process can use the device after this error."""
        del error
        return False


class Processor(Backend):
    """A processor, each core of which runs its own passes."""

    default_batch_tokens = 512
    niceness = 10  # threads that compute yield to the one that talks to clients

    def __init__(self, device: str, dtype: str, *, threads: int) -> None:
        super().__init__(device, dtype, threads=threads)
        self.workers = self.cores = threads


_own = threading.local()


def use_threads(count: int) -> None:
    """Sets how many threads share a pass that this thread starts, by the kernels or by torch."""
    _own.threads = count
    # Another thread may be importing torch: it is there, and its functions are not yet.
    if set_threads := getattr(sys.modules.get("torch"), "set_num_threads", None):
        set_threads(count)


def pass_threads() -> int:
    """Returns how many threads share a pass that this thread starts."""
    own: int | None = getattr(_own, "threads", None)
    if own is not None:
        return own
    # Where torch is, its setting holds for the kernels too.
    return int(getattr(sys.modules.get("torch"), "get_num_threads", _default_threads)())


@cache
def _default_threads() -> int:
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else usable_cores()


def join_head_masks(encodings: Sequence[Encoding]) -> NDArray[np.float32] | None:
    """Joins the head masks of texts to [L, B, H]; None if no text has one."""
    masks = [encoding.head_mask for encoding in encodings]
    shape = next((np.shape(mask) for mask in masks if mask is not None), None)
    if shape is None:
        return None
    whole = np.ones(shape, np.float32)
    rows = [whole if mask is None else np.asarray(mask, np.float32) for mask in masks]
    return np.stack(rows, axis=1)


def in_halves(
    run: Callable[[Sequence[Entry]], Sequence[Result]], entries: Sequence[Entry], backend: Backend
) -> list[Result]:
    """Runs a pass, and repeats it in halves as long as memory runs out; raises all other errors."""
    try:
        return list(run(entries))
    except Exception as error:
        if len(entries) == 1 or not backend.is_out_of_memory(error):
            raise
    # After the handler: its traceback would keep the tensors of the failed pass.
    backend.free_memory()
    _memory_log.warning(
        "a pass ran out of memory: once more in halves", extra={"texts": len(entries)}
    )
    middle = len(entries) // 2
    return [*in_halves(run, entries[:middle], backend), *in_halves(run, entries[middle:], backend)]


def isolate(
    run: Callable[[Sequence[Entry]], Sequence[Result | Exception]],
    entries: Sequence[Entry],
    backend: Backend,
    *,
    control: Callable[[], object],
) -> list[Result | Exception]:
    """Runs a pass, and repeats the halves of what fails, about log2 N times for one bad text of N.

    Where everything fails, the search ends early: once two texts could have been found. Then
    `control` runs a sound text; if that fails too, the error lies with the device or the weights.
    It is raised, as that of a device that is lost.
    """
    results: list[Result | Exception] = []
    parts = [entries]  # the first one is last
    most_failures = 2 * len(entries).bit_length() + 1
    failures = 0
    while parts:
        part = parts.pop()
        try:
            results += run(part)
            continue
        except (*FAULTS, MemoryError) as caught:  # no deadline, and no signal
            if backend.is_fatal(caught):
                raise
            if not failures:
                _isolation_log.warning("a pass failed", exc_info=caught, extra={"texts": len(part)})
            # The frames of a traceback would keep the results and the tensors alive.
            error = caught.with_traceback(None)
            error.__context__ = error.__cause__ = None
        if backend.is_out_of_memory(error):
            backend.free_memory()
        failures += 1
        if len(part) == 1 or failures >= most_failures:
            results += [error] * len(part)
        else:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    errors = [result for result in results if isinstance(result, Exception)]
    if len(errors) == len(results):
        try:
            control()
        except (*FAULTS, MemoryError) as other:
            if backend.is_fatal(other):
                raise
            raise errors[0] from None
    return results

"""Defines the interface to a device, and repeats passes that fail on it.

`in_halves` repeats a pass that runs out of memory; `isolate` finds the texts on which one fails.

Legend: B batch, T tokens, C classes, L chosen layers, H chosen heads.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.network.architecture import Network
from model.network.batch import Batch, collate
from model.network.classifier import Classifier
from model.tokenization.tokenizer import Encoding

Entry = TypeVar("Entry")
Result = TypeVar("Result")

_isolation_log = logging.getLogger("headlight.isolation")
_memory_log = logging.getLogger("headlight.memory")

# Messages of torch's CPU allocator, which raises a plain RuntimeError.
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")


@dataclass(frozen=True, slots=True)
class Selection:
    """The layers and the heads of each, ascending, whose weights a pass returns."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that has started; on a GPU it may still be running.

    Args:
        logits: [B, C], on the device or being copied to the host.
        weights: [B, H, T, T] for each chosen layer, or one tensor [L, B, H, T, T] if they leave
            the device in one copy; empty after `predict`.
    """

    logits: Tensor
    weights: Tensor | tuple[Tensor, ...]
    wait: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class HostOutput:
    """The results of a pass on the host: logits float32 [B, C], and each layer's [B, H, T, T]."""

    logits: NDArray[np.float32]
    weights: tuple[NDArray[np.float32], ...]


class Runner:
    """Passes of one loaded network; several threads may run them at once."""

    def __init__(
        self, network: Classifier, *, device: torch.device, pad_token_id: int, num_heads: int
    ) -> None:
        self.network = network
        self._device = device
        self._pad_token_id = pad_token_id
        self._num_heads = num_heads

    def prepare(self, encodings: Sequence[Encoding]) -> Batch:
        """Pads texts to a batch on the device."""
        return collate(encodings, pad_token_id=self._pad_token_id, device=self._device)

    def predict(self, batch: Batch) -> Pass:
        """Starts a pass on the fused path; reads nothing on the host."""
        return self._start(lambda: (self.network(batch).logits, ()))

    def explain(self, batch: Batch, selection: Selection) -> Pass:
        """Starts a pass on the explicit path; reads nothing on the host."""

        def compute() -> tuple[Tensor, tuple[Tensor, ...]]:
            output = self.network(batch, need_weights=True)
            weights = [output.attention_weights[layer] for layer in selection.layers]
            if len(selection.heads) < self._num_heads:
                # One by one: indexing with a list would copy the list to the device first.
                weights = [
                    torch.stack([layer[:, head] for head in selection.heads], dim=1)
                    for layer in weights
                ]
            return output.logits, tuple(weights)

        return self._start(compute)

    def to_host(self, started: Pass) -> HostOutput:
        """Waits for a pass and returns its results."""
        started.wait()
        return HostOutput(
            started.logits.cpu().numpy(), tuple(layer.cpu().numpy() for layer in started.weights)
        )

    def _start(self, compute: Callable[[], tuple[Tensor, tuple[Tensor, ...]]]) -> Pass:
        with torch.inference_mode():
            return Pass(*compute())


class Backend(ABC):
    """Everything that the project needs to know about a device, before any weight is read."""

    #: what computes passes: `kernels` with the instructions, `eager` or `cuda`
    name: str
    #: passes in progress at once, each on its own thread
    workers: int
    #: parts of the device, each of which computes a pass by itself
    cores: int
    #: tokens of one pass with padding, unless a setting gives a number
    default_batch_tokens: int
    #: niceness of threads that run passes, as in `nice`
    niceness: int
    #: whether the network that runs has weights of its own in its layers
    copies_layers = False
    #: whether padding goes through the projections too, which take most of a pass
    computes_padding = True
    #: the fewest tokens for which a single pass uses several cores
    worth_sharing_tokens: int
    #: why networks run in this type
    dtype_reason = "set by the caller"

    def __init__(self, device: torch.device, dtype: torch.dtype, *, threads: int) -> None:
        self.device = device
        self.dtype = dtype
        self.threads = threads

    @abstractmethod
    def load(self, network: Network, *, pad_token_id: int, num_heads: int) -> Runner:
        """Prepares a network for passes."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Returns whether an error means that the machine or the device is out of memory."""
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        return isinstance(error, RuntimeError) and any(
            message in str(error) for message in _CPU_MESSAGES
        )

    def free_memory(self) -> None:
        """Frees memory that is cached for later passes."""
        return

    def is_fatal(self, error: BaseException) -> bool:
        """Returns whether only a new process can use the device after this error."""
        del error
        return False


def in_halves(
    run: Callable[[Sequence[Entry]], Sequence[Result]], entries: Sequence[Entry], backend: Backend
) -> list[Result]:
    """Runs a pass, and repeats it in halves as long as memory runs out.

    Raises:
        Exception: any other error of `run`, or that of a single entry which is too large.
    """
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
    return [
        *in_halves(run, entries[:middle], backend),
        *in_halves(run, entries[middle:], backend),
    ]


def isolate(
    run: Callable[[Sequence[Entry]], Sequence[Result | Exception]],
    entries: Sequence[Entry],
    backend: Backend,
    *,
    control: Callable[[], object],
) -> list[Result | Exception]:
    """Runs a pass, and repeats the halves of what fails, about log2 N times for one bad text of N.

    Where everything fails, the search ends early: once two texts could have been found.

    Args:
        run: returns a result or an error for each entry, in order.
        entries: the batch, at least one entry.
        backend: where the pass runs.
        control: runs a sound text. It is called if every entry failed; if it fails too, the fault
            lies with the device or the weights.

    Raises:
        Exception: the device is lost, or `control` failed too.
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
        except Exception as error:
            if backend.is_fatal(error):
                raise
            if not failures:
                _isolation_log.warning("a pass failed", exc_info=error, extra={"texts": len(part)})
            # The frames of a traceback would keep the results and the tensors alive.
            fault = error.with_traceback(None)
            fault.__context__ = fault.__cause__ = None
        if backend.is_out_of_memory(fault):
            backend.free_memory()
        failures += 1
        if len(part) == 1 or failures >= most_failures:
            results += [fault] * len(part)
        else:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    faults = [result for result in results if isinstance(result, Exception)]
    if len(faults) == len(results):
        _blame(faults[0], backend, control)
    return results


def _blame(fault: Exception, backend: Backend, control: Callable[[], object]) -> None:
    """Raises the fault of a pass if a sound text fails too."""
    try:
        control()
    except Exception as error:
        if backend.is_fatal(error):
            raise
        raise fault from None

"""Defines the interface to a device, pads texts for it, and repeats passes that fail on it.

`in_halves` repeats a pass that runs out of memory; `isolate` finds the texts on which one fails.

Legend: B batch, T tokens, C classes, L chosen layers, H chosen heads.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.errors import FAULTS
from model.network.architecture import Network
from model.types import Batch, Classifier, Encoding

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

    def __init__(self, network: Classifier, *, device: torch.device, pad_token_id: int) -> None:
        self.network = network
        self._device = device
        self._pad_token_id = pad_token_id

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
            if len(selection.heads) < weights[0].shape[1]:
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
    def load(self, network: Network, *, pad_token_id: int) -> Runner:
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


def collate(
    encodings: Sequence[Encoding],
    *,
    pad_token_id: int,
    device: torch.device | None = None,
    pad_to: int | None = None,
) -> Batch:
    """Pads token ids on the right to the longest text of the batch.

    Args:
        encodings: B texts, at least one.
        pad_token_id: the id that fills the rest of a row.
        device: where the tensors go; None means the CPU.
        pad_to: pads to this length instead, for a network that reads one fixed length.

    Returns:
        A batch of B rows. Without padding its mask is None: then fused attention kernels take
        their fastest path.

    Raises:
        ValueError: there is no encoding, one has no tokens, or `pad_to` is below the longest text.
    """
    if not encodings:
        raise ValueError("a batch needs at least one encoding, got 0")
    lengths = np.fromiter((len(encoding.input_ids) for encoding in encodings), np.int64)
    longest = int(lengths.max()) if pad_to is None else pad_to
    if longest < lengths.max():
        raise ValueError(f"pad_to is {pad_to}, but the longest text has {lengths.max()} tokens")
    if lengths.min() < 1:
        raise ValueError(f"text {lengths.argmin()} of the batch has no tokens, needs at least 1")
    # One flat array: a list for each row costs several times as much.
    ids = np.fromiter(chain.from_iterable(item.input_ids for item in encodings), np.int64)
    mask = _join_head_masks(encodings)
    if lengths.min() == longest:
        batch = Batch(torch.from_numpy(ids.reshape(len(lengths), longest)), None, mask)
    else:
        padding = np.arange(longest) >= lengths[:, None]  # [B, T]
        padded = np.full(padding.shape, pad_token_id)
        padded[~padding] = ids
        batch = Batch(torch.from_numpy(padded), torch.from_numpy(padding), mask)
    return batch if device is None else _send_batch(batch, device)


def _join_head_masks(encodings: Sequence[Encoding]) -> Tensor | None:
    """Joins the head masks of texts to [L, B, H]; None if no text has one."""
    masks = [encoding.head_mask for encoding in encodings]
    shape = next((np.shape(mask) for mask in masks if mask is not None), None)
    if shape is None:
        return None
    whole = np.ones(shape, np.float32)
    rows = [whole if mask is None else np.asarray(mask, np.float32) for mask in masks]
    return torch.from_numpy(np.stack(rows, axis=1))


def _send_batch(batch: Batch, device: torch.device) -> Batch:
    parts = (batch.key_padding_mask, batch.head_mask)
    sent = (None if each is None else send(each, device) for each in parts)
    return Batch(send(batch.input_ids, device), *sent)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor from the host to a device; a GPU keeps computing during the copy."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


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
        control: runs a sound text. It is called if every entry failed; if it fails too, the error
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

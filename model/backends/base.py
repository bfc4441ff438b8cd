"""Defines the interface to a device: a `Backend`, and a `Runner` that runs passes.

Legend: B batch, T tokens, C classes, L chosen layers, H chosen heads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.network.architecture import Network
from model.network.batch import Batch, collate
from model.network.classifier import Classifier
from model.tokenization.tokenizer import Encoding

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

    #: what computes passes: `kernels`, `onednn`, `modules` or `cuda`
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
    #: whether it looks tokens up in a table of 16 bits too
    narrow_embeddings = False
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

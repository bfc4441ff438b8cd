"""Defines what the rest of the project asks of a device: a `Backend`, and a `Runner` of passes.

Legend: B batch, T tokens, C classes, L chosen layers, H chosen heads.

    encodings -> prepare -> Batch -> predict or explain -> Pass -> to_host -> HostOutput

Nothing outside of `model.backends` looks at the type of a device.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.architecture import Network
from model.batch import Batch, collate
from model.classifier import Classifier
from model.tokenizer import Encoding

# What torch's allocator for processors says; it raises a plain RuntimeError.
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")


@dataclass(frozen=True, slots=True)
class Selection:
    """The layers and heads whose weights a pass returns.

    Args:
        layers: their numbers, ascending.
        heads: the same of each layer.
    """

    layers: tuple[int, ...]
    heads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that was started; on a GPU it may still run.

    Args:
        logits: [B, C], where the network is or on their way to the host.
        weights: of each chosen layer [B, H, T, T]; one tensor [L, B, H, T, T] if they leave a
            device together; none from `predict`.
        wait: returns once the tensors may be read on the host.
    """

    logits: Tensor
    weights: Tensor | tuple[Tensor, ...]
    wait: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class HostOutput:
    """What a pass computed, on the host.

    Args:
        logits: float32 [B, C].
        weights: of each chosen layer, float32 [B, H, T, T].
    """

    logits: NDArray[np.float32]
    weights: tuple[NDArray[np.float32], ...]


class Runner:
    """Runs passes of one loaded network; several threads may do so at once.

    Args:
        network: in evaluation mode, on `device`.
        device: where it is.
        pad_token_id: the id that pads a batch.
        num_heads: heads of each layer.
    """

    def __init__(
        self, network: Classifier, *, device: torch.device, pad_token_id: int, num_heads: int
    ) -> None:
        self.network = network
        self._device = device
        self._pad_token_id = pad_token_id
        self._num_heads = num_heads

    def prepare(self, encodings: Sequence[Encoding]) -> Batch:
        """Pads texts to a batch on the device.

        Args:
            encodings: B texts, at least one.
        """
        return collate(encodings, pad_token_id=self._pad_token_id, device=self._device)

    def predict(self, batch: Batch) -> Pass:
        """Starts a pass by the fused path; reads nothing on the host."""
        return self._start(lambda: (self.network(batch).logits, ()))

    def explain(self, batch: Batch, selection: Selection) -> Pass:
        """Starts a pass by the explicit path; reads nothing on the host.

        Args:
            batch: B texts.
            selection: what leaves the device; all else stays there.
        """

        def compute() -> tuple[Tensor, tuple[Tensor, ...]]:
            output = self.network(batch, need_weights=True)
            weights = [output.attention_weights[layer] for layer in selection.layers]
            if len(selection.heads) < self._num_heads:
                # One by one: an index made of a list would be copied to the device first.
                weights = [
                    torch.stack([layer[:, head] for head in selection.heads], dim=1)
                    for layer in weights
                ]
            return output.logits, tuple(weights)

        return self._start(compute)

    def to_host(self, started: Pass) -> HostOutput:
        """Waits for a pass and returns what it computed."""
        started.wait()
        return HostOutput(
            started.logits.cpu().numpy(), tuple(layer.cpu().numpy() for layer in started.weights)
        )

    def _start(self, compute: Callable[[], tuple[Tensor, tuple[Tensor, ...]]]) -> Pass:
        with torch.inference_mode():
            return Pass(*compute())


class Backend(ABC):
    """What a device is good at; chosen at the start, before any weight is read.

    Args:
        device: where networks run.
        dtype: what their projections compute in.
        threads: that compute on the processor.
    """

    #: passes that may be in hand at once, each on a thread of its own
    workers: int
    #: parts of the device that passes share; each of them computes a pass by itself
    cores: int
    #: tokens of one pass, padding counted, if no setting says so
    default_batch_tokens: int
    #: of threads that run passes, as of `nice`
    niceness: int
    #: the fewest tokens for which a pass that is alone uses several cores
    worth_sharing_tokens: int

    def __init__(self, device: torch.device, dtype: torch.dtype, *, threads: int) -> None:
        self.device = device
        self.dtype = dtype
        self.threads = threads

    @abstractmethod
    def load(self, network: Network, *, pad_token_id: int, num_heads: int) -> Runner:
        """Makes a network ready to run.

        Args:
            network: float32, on `device`, in evaluation mode. It stays as it is and shares
                memory with what runs.
            pad_token_id: the id that pads a batch.
            num_heads: heads of each layer.
        """

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether an error says that the memory of the machine or of the device is full."""
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        return isinstance(error, RuntimeError) and any(
            message in str(error) for message in _CPU_MESSAGES
        )

    def free_memory(self) -> None:
        """Gives back memory that is kept for later passes."""
        return

    def is_fatal(self, error: BaseException) -> bool:
        """Whether an error means that only a new process can use the device again."""
        del error
        return False

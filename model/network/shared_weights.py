"""Keeps the weights of a network in 16 bits where that is exact, and widens them while in use."""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from model.allocator import return_memory
from model.network.architecture import Network
from model.network.encoder import EncoderClassifier
from model.types import Batch, Encoding

# An attribution runs many passes, and a client often asks for several. Widening takes as long as a
# pass of a short sentence.
_LINGER_SECONDS = 10.0


class SharedWeights:
    """A float32 network that several threads may use at once.

    Args:
        network: float32, in evaluation mode.
        compact: whether the weights of its layers are kept in 16 bits between uses. It changes the
            network, so no other code may run it.
        linger_seconds: how long the wide weights are kept after their last use.
    """

    def __init__(
        self, network: Network, *, compact: bool, linger_seconds: float = _LINGER_SECONDS
    ) -> None:
        self.device = next(network.parameters()).device
        self._network = network
        self._narrow: list[nn.Parameter] = []
        if compact and isinstance(network, EncoderClassifier):
            self._narrow = _narrow(network.layers)
        self._linger_seconds = linger_seconds
        self._lock = threading.Lock()
        self._wide: Network | None = None if self._narrow else network
        self._users = 0
        self._timer: threading.Timer | None = None

    def batch(self, encoding: Encoding, size: int = 1) -> Batch:
        """Repeats a text, for passes over rows that differ in their embeddings."""
        ids = torch.tensor(encoding.input_ids, dtype=torch.int64, device=self.device)  # [T]
        mask: Tensor | None = None
        if encoding.head_mask is not None:
            mask = torch.tensor(encoding.head_mask, device=self.device)  # [L, H]
            mask = mask[:, None].expand(-1, size, -1)
        return Batch(ids.expand(size, -1), None, mask)

    @contextmanager
    def use(self) -> Iterator[Network]:
        """Lends the float32 network for the duration of the block."""
        with self._lock:
            self._users += 1
            self._stop_timer()
            if self._wide is None:
                self._wide = self._widen()
            wide = self._wide
        try:
            yield wide
        finally:
            del wide
            self._give_back()

    def release(self) -> None:
        """Drops the float32 weights at once instead of some seconds after their last use.

        Does nothing while they are in use.
        """
        with self._lock:
            if self._users or not self._narrow:
                return
            self._stop_timer()
            self._wide = None
        return_memory()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or not self._narrow:
                return
            self._timer = threading.Timer(self._linger_seconds, self._drop)
            self._timer.daemon = True
            self._timer.start()

    def _drop(self) -> None:
        if threading.current_thread() is self._timer:  # which may be cancelled too late
            self.release()

    def _widen(self) -> Network:
        """Copies the network; all but the narrow weights is shared."""
        # One block, which goes back to the system as soon as it is free.
        block = torch.empty(sum(each.numel() for each in self._narrow), dtype=torch.float32)
        memo: dict[int, object] = {id(each): each for each in self._network.parameters()}
        at = 0
        for narrow in self._narrow:
            wide = block[at : at + narrow.numel()].view(narrow.shape)
            memo[id(narrow)] = _frozen(wide.copy_(narrow))
            at += narrow.numel()
        return copy.deepcopy(self._network, memo)


def _narrow(part: nn.Module) -> list[nn.Parameter]:
    """Replaces the weights of linear maps and embeddings that fit into 16 bits; returns them."""
    narrowed = []
    for module in part.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            weight = module.weight.detach()
            for narrow in map(weight.to, (torch.float16, torch.bfloat16)):
                if torch.equal(narrow.float(), weight):
                    module.weight = _frozen(narrow)
                    narrowed.append(module.weight)
                    break
    return narrowed


def _frozen(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight, requires_grad=False)

"""Runs the modules of a network by torch, on any device; `cuda` adds what a GPU needs.

Legend: B batch, T tokens, L chosen layers, H heads, C classes.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.backends.base import Backend, PassOutput, Processor, Runner, Selection, join_head_masks
from model.checkpoint.opening import Checkpoint
from model.explain.attention_steps import Projected
from model.explain.on_demand import OnDemand
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.layers import EncoderLayer
from model.types import Batch, Classifier, Encoding

# Messages of torch's CPU allocator, which raises a plain RuntimeError.
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")


@dataclass(eq=False)
class EagerRunner(Runner):
    """Passes of a network of torch, which `served` computes."""

    served: Classifier
    network: OnDemand[Network]
    _: KW_ONLY
    device: torch.device
    pad_token_id: int

    def run(self, encodings: Sequence[Encoding], selection: Selection | None = None) -> PassOutput:
        """Classifies texts in one pass."""
        logits, weights = self.compute(self.prepare(encodings), selection)
        return PassOutput(logits.cpu().numpy(), tuple(layer.cpu().numpy() for layer in weights))

    def prepare(self, encodings: Sequence[Encoding]) -> Batch:
        """Pads texts to a batch on the device."""
        return collate(encodings, pad_token_id=self.pad_token_id, device=self.device)

    def embed(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """Returns what the classifier reads of B texts, float32 [B, features], in one pass."""
        bare: Any = copy.copy(self.served)
        bare._modules = {**bare._modules, "classifier": nn.Identity()}
        with torch.inference_mode():
            return np.asarray(bare(self.prepare(encodings)).logits.cpu())

    def project(self, encoding: Encoding, layer: int) -> Projected:
        """Runs the layers before one of them, and its projections, in float32."""
        length = len(encoding.input_ids)
        with self.network.use() as network, torch.inference_mode():
            attention, states = network.attention_inputs(self.prepare([encoding]), layer)
            # What stands behind the text is padding. A mask hides it, so its weights are 0.
            states = states[:, :length]  # [1, T, hidden size]
            projected = attention.project(states, states, states)
            queries, keys, values = (part[0].float().cpu().numpy() for part in projected)
        return queries, keys, values

    @torch.inference_mode()
    def compute(
        self, batch: Batch, selection: Selection | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Computes logits [B, C], and [B, H, T, T] of chosen layers; reads nothing on the host."""
        if selection is None:
            return self.served(batch).logits, ()
        output = self.served(batch, need_weights=True)
        weights = [output.attention_weights[layer] for layer in selection.layers]
        if weights and len(selection.heads) < weights[0].shape[1]:
            # One by one: indexing with a list would copy the list to the device first.
            weights = [
                torch.stack([layer[:, head] for head in selection.heads], dim=1)
                for layer in weights
            ]
        return output.logits, tuple(weights)


class TorchBackend(Backend):
    """A device that runs networks by torch."""

    runner: Callable[..., EagerRunner] = EagerRunner

    def load(self, checkpoint: Checkpoint) -> EagerRunner:
        """Copies the parameters that compute in 16 bits and shares the rest."""
        device = torch.device(self.device)
        network = checkpoint.load_network().to(device)
        served = ready_copy(network, getattr(torch, self.dtype))
        if device.type == "cpu":
            avoid_kernel_cache(network)
        return self.runner(
            served,
            OnDemand(lambda: network, linger_seconds=None),
            device=device,
            pad_token_id=checkpoint.tokenizer.pad_token_id,
        )

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Returns whether an error means that the machine or the device is out of memory."""
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        return isinstance(error, RuntimeError) and any(
            message in str(error) for message in _CPU_MESSAGES
        )


class CpuBackend(Processor, TorchBackend):
    """A processor where torch computes."""

    name = "eager"
    worth_sharing_tokens = 100

    def __init__(self, device: str, dtype: str, *, threads: int) -> None:
        super().__init__(device, dtype, threads=threads)
        if dtype == "float32":
            # Its products take longer, so threads lose a smaller share by waiting for each other.
            self.worth_sharing_tokens = 16


def ready_copy(network: Network, dtype: torch.dtype) -> Network:
    """Copies a network for inference in another type, with joined projections of attention."""
    kinds = nn.Module if dtype == torch.float32 else nn.Embedding
    shared = [module for module in network.modules() if isinstance(module, kinds)]
    memo = {id(parameter): parameter for part in shared for parameter in part.parameters()}
    served = copy.deepcopy(network, memo)
    served.compute_in(dtype)
    for module in served.modules():
        if isinstance(module, MultiHeadAttention):
            module.join_projections()
    return served


def avoid_kernel_cache(network: Network) -> None:
    """Prevents oneDNN from compiling and keeping GELU for each size of a batch."""
    for module in network.modules():
        if isinstance(module, EncoderLayer):
            module.gelu_by_erf = True


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
    padding: NDArray[np.bool_] | None = None
    if lengths.min() == longest:
        table = ids.reshape(len(lengths), longest)
    else:
        padding = np.arange(longest) >= lengths[:, None]  # [B, T]
        table = np.full(padding.shape, pad_token_id)
        table[~padding] = ids
    mask = join_head_masks(encodings)

    def put(array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor if device is None else send(tensor, device)

    return Batch(
        put(table),
        None if padding is None else put(padding),
        None if mask is None else put(mask),
    )


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor from the host to a device; a GPU keeps computing during the copy."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)

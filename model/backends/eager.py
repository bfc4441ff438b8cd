"""Runs the modules of a network without compiling or packing them, on any device."""

import copy
import threading
from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.backends.base import Backend, Pass, Runner
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.encoder import EncoderClassifier
from model.types import Classifier

# After these errors, CUDA answers every call of the process with the same error. The codes and
# messages are those of cudaError_t in the CUDA Runtime API. Out of memory is not among them.
_FATAL_CODES = frozenset({46, 100, 214, 220, 226, 700, 702, 709, *range(710, 722), 999})
_FATAL_MESSAGES = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
    "uncorrectable",
    "unspecified launch failure",
    "launch timed out",
    "context is destroyed",
    "device(s) is/are busy or unavailable",
    "no CUDA-capable device",
    "unknown error",
)


class CpuBackend(Backend):
    """Any processor; each core runs its own passes."""

    name = "eager"
    default_batch_tokens = 512
    # Threads that compute yield to the one that talks to clients.
    niceness = 10
    worth_sharing_tokens = 100

    def __init__(self, device: torch.device, dtype: torch.dtype, *, threads: int) -> None:
        super().__init__(device, dtype, threads=threads)
        self.workers = self.cores = threads
        if dtype == torch.float32:
            # Its products take longer, so threads lose a smaller share by waiting for each other.
            self.worth_sharing_tokens = 16

    def load(self, network: Network, *, pad_token_id: int) -> Runner:
        """Copies the parameters that compute in 16 bits and shares the rest."""
        served = ready_copy(network, self.dtype)
        if isinstance(network, EncoderClassifier):
            network.avoid_onednn_gelu()
        return Runner(served, device=self.device, pad_token_id=pad_token_id)


class CudaBackend(Backend):
    """A GPU, which runs one pass after the other while Python prepares and answers others."""

    name = "cuda"
    workers = 3
    cores = 1
    # Not yet measured on a GPU. At 25 tokens a text, this is 650 texts.
    default_batch_tokens = 16_384
    niceness = 0
    worth_sharing_tokens = 100

    def load(self, network: Network, *, pad_token_id: int) -> Runner:
        """Copies the parameters that compute in 16 bits, shares the rest, and turns TF32 off.

        TF32 keeps 10 bits of a float32 factor. A text by itself and in a batch would differ by more
        than the 1e-5 that float32 promises. For speed there are the 16-bit types.
        """
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]
        served = ready_copy(network, self.dtype)
        return CudaRunner(served, device=self.device, pad_token_id=pad_token_id)

    def free_memory(self) -> None:
        """Frees the blocks that torch's allocator caches."""
        torch.cuda.empty_cache()

    def is_fatal(self, error: BaseException) -> bool:
        """Returns whether this process has lost CUDA: a sticky error, or no device."""
        if not isinstance(error, RuntimeError) or self.is_out_of_memory(error):
            return False
        code = getattr(error, "error_code", None)
        if isinstance(error, torch.AcceleratorError) and code is not None:
            return code in _FATAL_CODES
        text = str(error)
        return "CUDA" in text and any(message in text for message in _FATAL_MESSAGES)


class CudaRunner(Runner):
    """Passes on a GPU; results leave it in pinned, non-blocking copies."""

    def __init__(self, network: Classifier, *, device: torch.device, pad_token_id: int) -> None:
        super().__init__(network, device=device, pad_token_id=pad_token_id)
        # The passes of several threads share one stream. Each queues its kernels and its copy
        # together, so that no result waits for another pass.
        self._launching = threading.Lock()

    def _start(self, compute: Callable[[], tuple[Tensor, tuple[Tensor, ...]]]) -> Pass:
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with self._launching, torch.cuda.device(self._device), torch.inference_mode():
            logits, weights = compute()
            on_host = _copy_out(logits)
            # Stacked: all maps leave in one copy.
            together = _copy_out(torch.stack(weights)) if weights else ()
            done.record()
        return Pass(on_host, together, done.synchronize)


def _copy_out(tensor: Tensor) -> Tensor:
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


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

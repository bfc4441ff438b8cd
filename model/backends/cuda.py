"""Runs the modules of a network on a GPU.

Legend: B batch, T tokens, L chosen layers, H heads, C classes.
"""

import threading

import torch
from torch import Tensor

from model.backends.base import Selection
from model.backends.eager import EagerRunner, Pass, TorchBackend
from model.checkpoint.opening import Checkpoint
from model.explain.on_demand import OnDemand
from model.network.architecture import Network
from model.types import Batch, Classifier

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


class CudaRunner(EagerRunner):
    """Passes on a GPU; results leave it in pinned, non-blocking copies."""

    def __init__(
        self,
        served: Classifier,
        network: OnDemand[Network],
        *,
        device: torch.device,
        pad_token_id: int,
    ) -> None:
        super().__init__(served, network, device=device, pad_token_id=pad_token_id)
        # The passes of several threads share one stream of a GPU. Each queues its kernels and its
        # copy together, so that no result waits for another pass.
        self._launching = threading.Lock()

    def start(self, batch: Batch, selection: Selection | None = None) -> Pass:
        """Starts a pass; reads nothing on the host."""
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with self._launching, torch.cuda.device(self._device), torch.inference_mode():
            logits, weights = self._compute(batch, selection)
            on_host = _copy_out(logits)
            # Stacked: all maps leave in one copy.
            together = _copy_out(torch.stack(weights)) if weights else ()
            done.record()
        return Pass(on_host, together, done.synchronize)


class CudaBackend(TorchBackend):
    """A GPU, which runs one pass after the other while Python prepares and answers others."""

    name = "cuda"
    runner = CudaRunner
    workers = 3
    cores = 1
    # Not yet measured on a GPU. At 25 tokens a text, this is 650 texts.
    default_batch_tokens = 16_384
    niceness = 0
    shapes_passes = True
    worth_sharing_tokens = 100

    def load(self, checkpoint: Checkpoint) -> EagerRunner:
        """Loads as on a processor, and turns TF32 and cuDNN's attention off.

        TF32 keeps 10 bits of a float32 factor. A text by itself and in a batch would differ by more
        than the 1e-5 that float32 promises. For speed there are the 16-bit types.
        """
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]
        avoid_cudnn_attention()
        return super().load(checkpoint)

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


def avoid_cudnn_attention() -> None:
    """Keeps attention off cuDNN, which builds a plan for each new shape: 72 ms on an H100."""
    torch.backends.cuda.enable_cudnn_sdp(False)


def _copy_out(tensor: Tensor) -> Tensor:
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)

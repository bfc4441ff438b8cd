"""Runs the modules of a network on a GPU, by graphs of few shapes.

To launch the kernels of a small pass takes longer than to run them. A CUDA graph launches all of
them at once, for one shape. So texts are padded to few shapes, each of which is captured once.

Legend: N texts, B rows, T tokens, L chosen layers, H heads, C classes.
"""

import logging
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.base import PassOutput, Selection
from model.backends.eager import EagerRunner, TorchBackend
from model.checkpoint.opening import Checkpoint
from model.types import Batch, Encoding

Shape = tuple[int, int]  # B and T of a pass

_log = logging.getLogger("headlight.graphs")

_ROWS = (1, 4, 16, 64, 256, 1_024)
_FEWEST_COLUMNS = 16  # others are twice as many, up to the longest text
# The fixed cost of a pass, in tokens: this much padding is cheaper than one more pass. On an H100,
# a graph of one text took 0.35 ms, and one of 1,024 texts 4.1 ms.
_PASS_TOKENS = 3_000
# The first passes of a shape load kernels and choose among them, which a graph cannot hold.
_PASSES_BEFORE = 2

# After these errors, CUDA answers every call of the process with the same error. The codes and
# messages are those of cudaError_t in the CUDA Runtime API. Out of memory is not among them.
_FATAL_CODES = frozenset({46, 100, 214, 220, 226, 700, 702, 709, *range(710, 722), 999})
_FATAL_MESSAGES = re.compile(
    "device-side assert|illegal memory access|illegal instruction|misaligned address|invalid "
    r"program counter|hardware stack error|uncorrectable|unspecified launch failure|launch timed "
    r"out|context is destroyed|device\(s\) is/are busy or unavailable|no CUDA-capable device|"
    "unknown error"
)


@dataclass(eq=False)
class CudaRunner(EagerRunner):
    """Passes on a GPU: graphs, or kernel by kernel for maps, head masks and derivatives."""

    _: KW_ONLY
    max_length: int  # the most tokens of a text
    batch_tokens: int  # the most of a graph, padding counted, unless a text has more

    def __post_init__(self) -> None:
        most = self.max_length
        doubled = [_FEWEST_COLUMNS << times for times in range(most.bit_length())]
        columns = [*(each for each in doubled if each < most), most]
        self._columns = np.array(columns)
        shapes = [(rows, width) for width in columns for rows in _ROWS if self._fits(rows, width)]
        #: of passes, the largest first, whose memory is enough for the others
        self.shapes: list[Shape] = sorted(shapes, key=math.prod, reverse=True)
        self._replays: dict[Shape, Callable[[], Tensor]] = {}
        # What all graphs read: the length of each row, and its ids.
        numbers = max(rows * (1 + width) for rows, width in shapes)
        self._input = torch.empty(numbers, dtype=torch.int32, device=self.device)
        # A pass is queued whole before the next, from the copy of its ids to that of its logits.
        self._launching = threading.Lock()

    def _fits(self, rows: int, columns: int) -> bool:
        return rows == 1 or rows * columns <= self.batch_tokens

    def warm_up(self) -> None:
        """Captures the graphs of all shapes; without this, the first pass of a shape does."""
        for shape in self.shapes:
            self._replay(shape, [], np.zeros(0, np.int64))[0]()

    def run(self, encodings: Sequence[Encoding], selection: Selection | None = None) -> PassOutput:
        """Classifies texts, without maps and head masks in as many graphs as they take."""
        lengths = np.fromiter((len(encoding.input_ids) for encoding in encodings), np.int64)
        is_plain = selection is None and all(each.head_mask is None for each in encodings)
        fit = lengths.all() and 0 < lengths.max(initial=0) <= self._columns[-1]
        if not (is_plain and fit):
            return super().run(encodings, selection)
        started = [
            (texts, *self._replay(shape, [encodings[at] for at in texts], lengths[texts]))
            for shape, texts in self._divide(lengths)
        ]
        logits = np.empty((len(encodings), started[0][2].shape[1]), np.float32)
        for texts, wait, found in started:
            wait()
            logits[texts] = found[: len(texts)]
        return PassOutput(logits)

    def _divide(self, lengths: NDArray[np.int64]) -> Iterator[tuple[Shape, NDArray[np.intp]]]:
        """Divides N texts among passes; yields the shape of each, and the numbers of its texts."""
        order = np.argsort(-lengths, kind="stable")
        widths = self._columns[np.searchsorted(self._columns, lengths[order])]  # descending
        start = 0
        while start < len(order):
            width, left = int(widths[start]), len(order) - start
            alike = int(np.count_nonzero(widths[start:] == width))
            # As many rows as little padding allows; shorter texts fill the rest.
            rows = max(
                rows
                for rows in _ROWS
                if self._fits(rows, width)
                and (rows - alike) * width <= _PASS_TOKENS
                and (rows == 1 or rows < _ROWS[1] * left)
            )
            yield (rows, width), order[start : start + rows]
            start += rows

    def _replay(
        self, shape: Shape, encodings: Sequence[Encoding], lengths: NDArray[np.int64]
    ) -> tuple[Callable[[], None], NDArray[np.float32]]:
        """Queues a pass; returns what waits for it, and where its logits are then, [B, C]."""
        rows, columns = shape
        # torch gives this memory to nobody else before the copy has run.
        host = torch.empty(
            rows * (1 + columns), dtype=torch.int32, pin_memory=self.device.type == "cuda"
        )
        table = host.numpy().reshape(rows, 1 + columns)
        table.fill(self.pad_token_id)
        table[:, 0] = 1  # of a row without a text too: softmax over nothing is not a number
        table[: len(lengths), 0] = lengths
        is_text = np.arange(columns) < lengths[:, None]  # [N, T]
        ids = chain.from_iterable(encoding.input_ids for encoding in encodings)
        table[: len(lengths), 1:][is_text] = np.fromiter(ids, np.int32)
        with self._launching, torch.cuda.stream(self._stream), torch.inference_mode():
            # Before a capture, whose passes read it too.
            self._input[: len(host)].copy_(host, non_blocking=True)
            replay = self._replays.get(shape) or self._capture(shape)
            logits = replay()
            copied = torch.empty(logits.shape, dtype=logits.dtype, pin_memory=logits.is_cuda)
            copied.copy_(logits, non_blocking=True)
            return self.mark(), copied.numpy()

    def _capture(self, shape: Shape) -> Callable[[], Tensor]:
        rows, columns = shape
        table = self._input[: rows * (1 + columns)].view(rows, 1 + columns)

        def compute() -> Tensor:
            padding = torch.arange(columns, device=table.device) >= table[:, :1]  # [B, T]
            return self.served(Batch(table[:, 1:].long(), padding)).logits

        try:
            replay = self.capture(compute)
        except RuntimeError:
            message = "passes of a shape have no CUDA graph, so they are slower"
            _log.warning(message, exc_info=True, extra={"rows": rows, "columns": columns})
            replay = compute
        self._replays[shape] = replay
        return replay

    @cached_property
    def _stream(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @cached_property
    def _pool(self) -> "torch.cuda._POOL_HANDLE":
        return torch.cuda.graph_pool_handle()

    def capture(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Captures what a function queues on the stream of the graphs; raises RuntimeError.

        What queues it again has a result that lasts until the next replay of any graph.
        """
        torch.cuda.synchronize(self.device)  # until the weights are there
        for _ in range(_PASSES_BEFORE):
            compute()
        graph = torch.cuda.CUDAGraph()
        # Graphs share memory, as they never run at once. Other threads may use the device.
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        ):
            result = compute()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay

    def mark(self) -> Callable[[], None]:
        """Returns what waits until the current stream has done all that is queued so far."""
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return done.synchronize


class CudaBackend(TorchBackend):
    """A GPU, which runs one pass after the other while Python prepares and answers others."""

    name = "cuda"
    workers = 3
    cores = 1
    # 1,024 texts of 32 tokens. In float32 their states take less than 1 GB.
    default_batch_tokens = 32_768
    explained_tokens = 1_024  # maps of the default network take up to 150 MB then
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
        length, tokens = checkpoint.manifest.max_length, self.default_batch_tokens
        self.runner = partial(CudaRunner, max_length=length, batch_tokens=tokens)
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
        return "CUDA" in str(error) and _FATAL_MESSAGES.search(str(error)) is not None


def avoid_cudnn_attention() -> None:
    """Keeps attention off cuDNN, which builds a plan for each new shape: 72 ms on an H100."""
    torch.backends.cuda.enable_cudnn_sdp(False)

"""Encodes N rows of C classes, loads them in batches of B, and measures a network on them."""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor, nn

from model.backends.eager import collate
from model.cli.progress import silent
from model.tokenization.tokenizer import Tokenizer
from model.types import Batch, Encoding
from training.device import Accelerator
from training.distributed import SINGLE_PROCESS, Ranks
from training.fit.dropout import RowSlice
from training.measure.history import LossAndAccuracy
from training.measure.inference import encode_all, predict_together
from training.measure.metrics import fit_temperature

LEFT_OUT = -1.0  # the target of a class of which a row says nothing


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Encoded texts and their classes."""

    encodings: Sequence[Encoding]
    label_ids: Sequence[int]
    # probabilities, or `LEFT_OUT`, to learn instead of the classes [N, C]
    targets: NDArray[np.float32] | None = None
    perturbed: Sequence[Encoding] | None = None  # with changes that should not matter

    @property
    def versions(self) -> Sequence[Sequence[Encoding]]:
        """The texts, and the perturbed ones if there are any."""
        return [self.encodings] if self.perturbed is None else [self.encodings, self.perturbed]

    @property
    def leave_out(self) -> bool:
        """Whether some row leaves a class out."""
        return self.targets is not None and bool((self.targets < 0.0).any())


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """What a step reads, on the device."""

    inputs: Batch
    label_ids: Tensor  # int64 [B]
    targets: Tensor  # the classes, or probabilities of them, float32 [B, C]
    perturbed: Batch | None = None


@dataclass(frozen=True, slots=True)
class StepShare:
    """What a process does of each step."""

    process: int = 0
    processes: int = 1
    passes: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether one pass has all rows of a step."""
        return self.processes * self.passes == 1

    def parts(self, rows: int) -> Sequence[RowSlice]:
        """Divides a step into passes of this process, each with some row, as all exchange."""
        parts = self.processes * self.passes
        return [
            RowSlice(rows, first if first < rows else 0, parts, len(range(first, rows, parts)))
            for first in range(self.process, parts, self.processes)
        ]


@dataclass(frozen=True, slots=True)
class Step:
    """What a process reads in a step."""

    parts: Sequence[RowSlice]
    batches: Sequence[TrainingBatch]
    token_ids: Tensor | None  # in the texts of all processes, ascending; None for one


def encode_rows(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    label_ids: Sequence[int],
    targets: NDArray[np.float32] | None = None,
    *,
    perturbed: Sequence[str] | None = None,
) -> EncodedRows:
    """Encodes every text, and every perturbed text if there are any."""
    others = None if perturbed is None else encode_all(tokenizer, perturbed)
    return EncodedRows(encode_all(tokenizer, texts), label_ids, targets, others)


def load_steps(
    rows: EncodedRows,
    batches: Iterable[Sequence[int]],
    *,
    pad_token_id: int,
    accelerator: Accelerator,
    share: StepShare = StepShare(),
) -> Generator[Step]:
    """Yields steps in their order; for a GPU, a thread loads the next two meanwhile."""
    load = partial(_load, rows, pad_token_id, accelerator, share)
    if accelerator.device.type != "cuda":
        yield from map(load, batches)  # a step uses all cores itself
        return
    ahead: deque[Future[Step]] = deque()
    with ThreadPoolExecutor(1, "load", torch.cuda.set_device, (accelerator.device,)) as thread:
        for indices in batches:
            ahead.append(thread.submit(load, indices))
            if len(ahead) > 2:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _load(
    rows: EncodedRows,
    pad_token_id: int,
    accelerator: Accelerator,
    share: StepShare,
    indices: Sequence[int],
) -> Step:
    # All passes of a step have one length, so that masks are drawn alike for all of them.
    lengths = [max(len(texts[index].input_ids) for index in indices) for texts in rows.versions]
    padded = partial(collate, pad_token_id=pad_token_id, device=accelerator.device)

    def load(chosen: Sequence[int]) -> TrainingBatch:
        inputs, *perturbed = (
            padded([texts[index] for index in chosen], pad_to=longest)
            for texts, longest in zip(rows.versions, lengths, strict=True)
        )
        label_ids = accelerator.send(torch.tensor([rows.label_ids[index] for index in chosen]))
        targets = label_ids
        if rows.targets is not None:
            targets = accelerator.send(torch.from_numpy(rows.targets[list(chosen)]))
        return TrainingBatch(inputs, label_ids, targets, perturbed[0] if perturbed else None)

    parts = share.parts(len(indices))
    token_ids = None
    if share.processes > 1:
        read = (texts[index] for texts in rows.versions for index in indices)
        used = {token for encoding in read for token in encoding.input_ids}
        token_ids = accelerator.send(torch.tensor(sorted(used)))
    return Step(parts, [load(indices[part.first :: part.step]) for part in parts], token_ids)


def measure_rows(
    network: nn.Module,
    rows: EncodedRows,
    *,
    pad_token_id: int,
    accelerator: Accelerator,
    ranks: Ranks = SINGLE_PROCESS,
) -> LossAndAccuracy:
    """Measures a network on rows."""
    network.eval()
    with accelerator.autocast(), silent():
        logits = predict_together(
            network,
            rows.encodings,
            pad_token_id=pad_token_id,
            device=accelerator.device,
            ranks=ranks,
        ).astype(np.float64)  # [N, C]
    truth = np.array(rows.label_ids)
    logits /= fit_temperature(logits, truth)
    losses = -log_softmax(logits, axis=1)[np.arange(len(truth)), truth]
    return LossAndAccuracy(
        loss=float(losses.mean()), accuracy=float((logits.argmax(axis=1) == truth).mean())
    )

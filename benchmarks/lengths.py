"""Measures the service by the length of texts and by number type, for sizing a deployment."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Timing, measure_closed
from benchmarks.errors import BenchmarkError
from benchmarks.limit import native_dtypes
from benchmarks.loads import Load
from benchmarks.servers import Program, serve
from benchmarks.texts import FIRST_NUMBER, numbered, write_literals
from model import open_checkpoint
from model.tokenization.tokenizer import Tokenizer

LENGTHS = (16, 64, 256, 512)
_CONNECTIONS = 64
# The service refuses requests that would wait long, so long texts are sent on fewer connections.
_TOKENS_AT_ONCE = 4_096
_NUMBERS_EACH = 200_000
_WORD = "good"


@dataclass(frozen=True, slots=True)
class Throughput:
    """Sentences a second of one length and number type; `cores` is 1 for a GPU."""

    dtype: str
    tokens: int
    rate: float
    cores: int


def measure_lengths(
    checkpoint: Path,
    *,
    device: str,
    folder: Path,
    timing: Timing,
    report: Callable[[str], None],
) -> Iterator[Throughput]:
    """Measures the service under a closed-loop load for each type and length."""
    tokenizer = open_checkpoint(checkpoint).tokenizer
    cores = len(os.sched_getaffinity(0)) if device == "cpu" else 1
    for dtype in native_dtypes(device):
        options = ("--dtype", dtype, "--device", device)
        program = Program(f"headlight-{dtype}", "service", options, sees_gpu=device == "cuda")
        with serve(program, checkpoint, folder) as server:
            for number, tokens in enumerate(LENGTHS, start=1):
                report(f"{dtype}: {tokens} tokens")
                texts = folder / f"tokens{tokens}"
                write_literals([text_of(tokenizer, tokens)], texts)
                connections = max(2 * cores, min(_CONNECTIONS, _TOKENS_AT_ONCE // tokens))
                load = Load(f"{tokens} tokens", connections)
                first = number * _NUMBERS_EACH
                figures = measure_closed(load, server, texts, first=first, timing=timing)
                yield Throughput(dtype, tokens, figures.rate, cores)


def text_of(tokenizer: Tokenizer, tokens: int) -> str:
    """Makes a text that has this token count, special tokens included, once it is numbered."""
    spent = len(tokenizer.encode(numbered(_WORD, FIRST_NUMBER)).input_ids) - 1
    if spent >= tokens:
        raise BenchmarkError(f"a numbered text has at least {spent + 1} tokens, got {tokens}")
    return " ".join([_WORD] * (tokens - spent))

"""Times forward passes by length, number of texts and data type, without a server."""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.capacity.costs import Cell
from benchmarks.capacity.quiet import wait_until_quiet
from benchmarks.scaling import text_of
from benchmarks.texts import numbered
from model import Encoding, Predictor, open_checkpoint
from model.backends.device import choose_backend, choose_dtype
from model.loading import load
from model.tokenization.tokenizer import Tokenizer

# As many texts of each length as one pass of the service holds, and fewer.
SHAPES = (
    *((8, count) for count in (1, 4, 16, 64)),
    *((16, count) for count in (1, 4, 16, 32)),
    *((32, count) for count in (1, 4, 16)),
    *((64, count) for count in (1, 2, 8)),
    *((128, count) for count in (1, 2, 4)),
    *((256, count) for count in (1, 2)),
    (512, 1),
)
_FIRST_NUMBER = 200_000
_FEWEST_PASSES = 5

Report = Callable[[str], None]


def time_passes(
    checkpoint: Path,
    dtype: str,
    *,
    seconds: float,
    rounds: int,
    patience: float,
    report: Report,
) -> list[Cell]:
    """Times passes of all shapes on one core, on every core at once, and on all as a team.

    Other programs only add time, so the fastest round counts.

    Args:
        checkpoint: the folder.
        dtype: of the projections, as `headlight-serve --dtype` takes it.
        seconds: for which passes of a shape are repeated, three times in each round.
        rounds: how often each shape is timed, one after all others.
        patience: seconds to wait for a quiet machine before each round.
        report: is called with each next step.
    """
    opened = open_checkpoint(checkpoint)
    device = torch.device("cpu")
    chosen = choose_dtype(dtype, device, opened.manifest.precision)
    backend = choose_backend(opened, device=device, dtype=chosen)
    predictor = load(opened, backend)
    texts = {shape: _texts(predictor, opened.tokenizer, *shape) for shape in SHAPES}
    found: dict[tuple[int, int], list[Cell]] = {shape: [] for shape in SHAPES}
    with ThreadPoolExecutor(backend.workers) as lanes:
        for number in range(rounds):
            report(f"passes in {dtype}: round {number + 1} of {rounds}")
            wait_until_quiet(patience)
            for shape in SHAPES:
                found[shape].append(_time(predictor, texts[shape], lanes, backend.workers, seconds))
    return [_fastest(cells) for cells in found.values()]


def _fastest(cells: Sequence[Cell]) -> Cell:
    return Cell(
        cells[0].length,
        cells[0].texts,
        min(cell.one for cell in cells),
        min(cell.busy for cell in cells),
        min(cell.team for cell in cells),
    )


def _texts(predictor: Predictor, tokenizer: Tokenizer, length: int, count: int) -> list[Encoding]:
    text = text_of(tokenizer, length)
    return [predictor.encode(numbered(text, _FIRST_NUMBER + place)) for place in range(count)]


def _time(
    predictor: Predictor,
    texts: list[Encoding],
    lanes: ThreadPoolExecutor,
    workers: int,
    seconds: float,
) -> Cell:
    one = _median(predictor, texts, 1, seconds)
    running = [lanes.submit(_median, predictor, texts, 1, seconds) for _ in range(workers)]
    busy = statistics.fmean(each.result() for each in running)
    return Cell(
        len(texts[0].input_ids), len(texts), one, busy, _median(predictor, texts, workers, seconds)
    )


def _median(predictor: Predictor, texts: list[Encoding], threads: int, seconds: float) -> float:
    """Returns the median seconds of a pass on the thread that calls."""
    torch.set_num_threads(threads)
    predictor.predict(texts)
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < _FEWEST_PASSES or time.perf_counter() < end:
        began = time.perf_counter()
        predictor.predict(texts)
        found.append(time.perf_counter() - began)
    return statistics.median(found)

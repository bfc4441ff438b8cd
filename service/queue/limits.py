"""Measures at the start what a token takes, and says how much work a request may have."""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import torch

from model import AttentionOptions, Predictor
from model.backends.base import Backend
from model.predictor import WARM_UP_TEXT, PathName
from service.errors import TooMuchWorkError
from service.metrics import EXPLICIT, FUSED, GRADIENT

#: the share of a request's time that its work and the work before it may take
SHARE_OF_TIME = 0.7
# Texts of some 120 and 500 tokens. A token of a long one takes longer; `FUSED` holds for any text.
_TIMES_WARM_UP_TEXT, _TIMES_LONG = 11, 45
_ROUNDS = 2
# Rows of a text beside those of the steps: the text itself and its baseline.
_ENDS = 2
Pace = Mapping[PathName, float]


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """What a token costs, and the most work of one request that an idle replica computes in time.

    It depends on what was measured at the start alone. So a request is always refused or never,
    however busy the replica is.

    Args:
        pace: seconds of a core for a token, by path; a path that is not measured has no limit.
        cores: how many compute at once.
        max_length: tokens of the longest text.
        max_batch_tokens: what fits into a pass may always be tried, a text by itself, and a step.
        max_queue_tokens: the most tokens of any request.
    """

    pace: Pace = field(default_factory=dict)
    cores: int = 1
    max_length: int = 1
    max_batch_tokens: int = 1
    max_queue_tokens: int = sys.maxsize

    def cost_of(self, path: PathName) -> float:
        """Returns what a token of a path costs, in tokens of a prediction."""
        usual, pace = self.pace.get(FUSED, 0.0), self.pace.get(path, 0.0)
        return pace / usual if usual and pace else 1.0

    def seconds(self, path: PathName, tokens: int) -> float:
        """Returns how long an idle replica computes; 0 for what may always be tried."""
        is_tried = tokens <= self.most_tokens(path, 0.0)
        return 0.0 if is_tried else tokens * self.pace.get(path, 0.0) / self.cores

    def most_tokens(self, path: PathName, seconds: float) -> int:
        """Returns the most tokens of a request that has so many seconds in all."""
        pace, room = self.pace.get(path, 0.0), SHARE_OF_TIME * seconds * self.cores
        fitting = int(room / pace) if room < self.max_queue_tokens * pace else self.max_queue_tokens
        if path == GRADIENT:  # whole rows, so that `max_work_steps` says all; one step at least
            rows = max(fitting // self.max_length, 1 + _ENDS)
            return rows * self.max_length
        return min(max(fitting, self.max_batch_tokens, self.max_length), self.max_queue_tokens)

    def most_steps(self, length: int, seconds: float) -> int:
        """Returns the most steps of integrated gradients for a text of so many tokens."""
        return self.most_tokens(GRADIENT, seconds) // length - _ENDS

    def check(
        self, path: PathName, tokens: int, seconds: float, *, what: str = "The request takes"
    ) -> None:
        """Raises TooMuchWorkError for more tokens than a request may have."""
        if tokens > (most := self.most_tokens(path, seconds)):
            raise TooMuchWorkError(
                f"{what} {tokens} tokens through the network, and a request that has {seconds:.3g} "
                f"seconds may take at most {most}: send fewer or shorter texts at once.",
                fits={"tokens": most},
            )

    def check_steps(self, steps: int, length: int, seconds: float) -> None:
        """Raises TooMuchWorkError for more steps than a text of so many tokens may have."""
        if steps > (most := self.most_steps(length, seconds)):
            raise TooMuchWorkError(
                f"{steps} steps are too many for a text of {length} tokens, and a request that has "
                f"{seconds:.3g} seconds may take at most {most}: ask for fewer, or shorten it.",
                fits={"steps": most},
            )


NO_LIMITS = WorkLimits()


def measure_pace(predictor: Predictor, backend: Backend, max_batch_tokens: int) -> Pace:
    """Returns the seconds of a core for a token of each path, while all cores compute.

    They are those of the processor, which other processes do not change much; of another device
    those of the clock.
    """
    # Cores that share parts are slower together.
    with ThreadPoolExecutor(backend.cores) as pool:
        run = partial(_measure_here, predictor, backend, max_batch_tokens)
        measured = list(pool.map(lambda _: run(), range(backend.cores)))
    torch.set_num_threads(backend.threads)
    return {path: sum(each[path] for each in measured) / len(measured) for path in measured[0]}


def _measure_here(predictor: Predictor, backend: Backend, max_batch_tokens: int) -> Pace:
    torch.set_num_threads(1)
    text = predictor.encode(WARM_UP_TEXT * _TIMES_WARM_UP_TEXT, with_tokens=True)
    long = predictor.encode(WARM_UP_TEXT * _TIMES_LONG)
    length, most = len(text.input_ids), len(long.input_ids)
    whole = [long] * max(1, max_batch_tokens // most)
    options = [AttentionOptions(text)] * max(1, max_batch_tokens // length)
    timed: list[tuple[PathName, Callable[[], object], int]] = [
        (FUSED, lambda: predictor.predict(whole), most * len(whole)),
        (EXPLICIT, lambda: predictor.explain_batch(options), length * len(options)),
        (GRADIENT, lambda: predictor.gradients.head_importance(text, label=None), length),
    ]
    clock = time.thread_time if backend.device.type == "cpu" else time.perf_counter
    return {path: _seconds(run, clock) / tokens for path, run, tokens in timed}


def _seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Returns the time of the quickest of some runs; the first of a size takes longer."""
    times = []
    for _ in range(_ROUNDS):
        started = clock()
        run()
        times.append(clock() - started)
    return min(times)

"""Simulates one replica: requests come, wait, share passes, and are answered or refused.

The model has what decides how long an answer takes:

- One thread reads requests and writes answers, one after the other (the event loop).
- As many lanes as cores run passes. A batch is formed when a lane is free, so batches grow with the
  load. A pass that is alone runs on all cores.
- Loop and client go before passes, which are niced. What they take, passes lose.
- A request that could not be answered before its deadline is refused at once. One that waits past
  its deadline is dropped.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.capacity.costs import Passes
from benchmarks.capacity.waiting import PASS_TOKENS, Waiting

# As in service/inference: tests hold that the numbers are the same.
SHARE_OF_TIME = 0.7
SPARE_REQUESTS = 10
WORTH_SHARING_TOKENS = 100
HORIZON_SECONDS = 2.0
# A thread with the niceness of passes gets so much of what an ordinary one gets of a full core.
# Linux gives each step of niceness a factor of about 1.25; passes have ten.
NICED_WEIGHT = 0.107
# The loop's time for a request: this share before its pass, and the rest after it.
_READING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica is.

    Args:
        cores: that it has, and lanes.
        passes: what a pass costs.
        handling: seconds of the event loop for a request.
        unexplained: seconds that an answer takes on an idle replica beyond all that is modelled.
        client: seconds that the client of a request takes from the same cores.
        deadline: seconds until a request is given up.
        max_batch_tokens: of a pass.
        least_team_tokens: the fewest tokens of a pass that runs on all cores.
    """

    cores: int
    passes: Passes
    handling: float
    unexplained: float = 0.0
    client: float = 0.0
    deadline: float = 10.0
    max_batch_tokens: int = 512
    least_team_tokens: int = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of requests.

    Args:
        latencies: seconds from when each request was due until its answer; infinite for those
            without.
        refused: requests that were refused at once.
        late: requests that were dropped at their deadline.
        seconds: from the beginning until the last answer.
        busy: the share of all cores that loop, client and passes took.
        texts_per_pass: the mean.
    """

    latencies: Sequence[float]
    refused: int
    late: int
    seconds: float
    busy: float
    texts_per_pass: float


@dataclass(slots=True)
class _Pass:
    """A running pass.

    Args:
        texts: their numbers.
        tokens: of all of them.
        left: seconds that it still takes undisturbed.
        threads: that run it.
        slowdown: by how much it takes longer on a busy processor.
        began: when it began.
        full: whether more texts waited then.
    """

    texts: list[int]
    tokens: int
    left: float
    threads: int
    slowdown: float
    began: float
    full: bool


@dataclass(slots=True)
class _Thread:
    """A thread that does short tasks one after the other: the loop, or the client.

    Args:
        tasks: seconds, what is done, and the request.
    """

    tasks: deque[tuple[float, str, int]]
    left: float = 0.0

    def add(self, seconds: float, what: str, number: int) -> None:
        if not self.tasks:
            self.left = seconds
        self.tasks.append((seconds, what, number))

    def end(self) -> tuple[str, int]:
        _, what, number = self.tasks.popleft()
        self.left = self.tasks[0][0] if self.tasks else 0.0
        return what, number


def simulate(replica: Replica, due: Sequence[float], lengths: Sequence[int]) -> Outcome:
    """Runs requests of one text each through a replica.

    Args:
        replica: that answers.
        due: when each is sent, in seconds, ascending.
        lengths: tokens of each.
    """
    return _Simulation(replica, due, lengths).run()


class _Simulation:
    def __init__(self, replica: Replica, due: Sequence[float], lengths: Sequence[int]) -> None:
        self._replica = replica
        self._due = due
        self._lengths = lengths
        self._now = due[0]
        self._loop, self._client = _Thread(deque()), _Thread(deque())
        self._lanes: list[_Pass] = []
        self._waiting = Waiting(lengths)
        self._read_at = [0.0] * len(due)
        self._latencies = [math.inf] * len(due)
        self._refused = self._late = self._texts = self._passes = 0
        self._amount = 0  # tokens that wait or are computed
        self._used = 0.0  # core-seconds
        # As the service, it begins with what a full pass takes.
        full = float(replica.max_batch_tokens)
        self._known = full, replica.passes.one.seconds(full, full * full)

    def run(self) -> Outcome:
        due, client, coming = self._due, self._replica.client, 0
        while True:
            fast, slow = self._shares()
            wait = due[coming] - self._now if coming < len(due) else math.inf
            step, event = wait, "arrival"
            if self._loop.tasks and self._loop.left / fast < step:
                step, event = self._loop.left / fast, "loop"
            if self._client.tasks and self._client.left / fast < step:
                step, event = self._client.left / fast, "client"
            speeds = [slow / self._contention(lane) for lane in self._lanes]
            ended = -1
            for place, (lane, speed) in enumerate(zip(self._lanes, speeds, strict=True)):
                if lane.left / speed < step:
                    step, event, ended = lane.left / speed, "pass", place
            if step == math.inf:
                break
            self._advance(max(step, 0.0), fast, slow, speeds)
            if event == "arrival":
                if client:
                    self._client.add(client / 2, "send", coming)
                else:
                    self._arrive(coming)
                coming += 1
            elif event == "pass":
                self._end(self._lanes.pop(ended))
            else:
                self._act(*(self._loop if event == "loop" else self._client).end())
        seconds = self._now - due[0]
        return Outcome(
            self._latencies,
            self._refused,
            self._late,
            seconds,
            self._used / max(seconds * self._replica.cores, 1e-12),
            self._texts / max(self._passes, 1),
        )

    def _shares(self) -> tuple[float, float]:
        """How fast an ordinary thread runs, and one of a pass; 1 is a core of its own."""
        cores = self._replica.cores
        first = bool(self._loop.tasks) + bool(self._client.tasks)
        passes = sum(lane.threads for lane in self._lanes)
        if first + passes <= cores:
            return 1.0, 1.0
        fast = min(1.0, cores / (first + NICED_WEIGHT * passes))
        return fast, min(1.0, (cores - fast * first) / max(passes, 1))

    def _contention(self, lane: _Pass) -> float:
        others = bool(self._loop.tasks) + bool(self._client.tasks) + len(self._lanes) - 1
        share = min(1.0, others / max(self._replica.cores - 1, 1))
        return 1 + (lane.slowdown - 1) * share

    def _advance(self, step: float, fast: float, slow: float, speeds: Sequence[float]) -> None:
        self._now += step
        for thread in (self._loop, self._client):
            if thread.tasks:
                thread.left -= step * fast
                self._used += step * fast
        for lane, speed in zip(self._lanes, speeds, strict=True):
            lane.left -= step * speed
            self._used += step * slow * lane.threads

    def _act(self, what: str, number: int) -> None:
        if what == "send":
            self._arrive(number)
        elif what == "read":
            self._admit(number)
        elif what == "write" and self._replica.client:
            self._client.add(self._replica.client / 2, "receive", number)
        else:
            self._latencies[number] = self._now - self._due[number] + self._replica.unexplained

    def _arrive(self, number: int) -> None:
        self._read_at[number] = self._now
        self._loop.add(_READING_SHARE * self._replica.handling, "read", number)

    def _admit(self, number: int) -> None:
        replica, tokens = self._replica, self._lengths[number]
        spare = min(SPARE_REQUESTS * tokens, replica.max_batch_tokens)
        left = replica.deadline - (self._now - self._read_at[number])
        needed = (self._amount + spare + tokens) * self._known[1] / self._known[0]
        if self._amount and needed > SHARE_OF_TIME * left * replica.cores:
            self._refused += 1
            return
        self._amount += tokens
        self._waiting.add(number)
        self._begin()

    def _begin(self) -> None:
        """Gives each free lane a batch."""
        replica, lengths = self._replica, self._lengths
        while self._waiting and len(self._lanes) < replica.cores:
            share = max(self._waiting.tokens // replica.cores, WORTH_SHARING_TOKENS)
            texts = self._waiting.take(min(replica.max_batch_tokens, share))
            kept = [each for each in texts if self._now - self._read_at[each] < replica.deadline]
            if len(kept) < len(texts):
                self._late += len(texts) - len(kept)
                self._amount -= sum(lengths[each] for each in texts) - sum(
                    lengths[each] for each in kept
                )
            if not kept:
                continue
            tokens = sum(lengths[each] for each in kept)
            squares = sum(lengths[each] ** 2 for each in kept)
            alone = not self._lanes and not self._waiting and tokens >= replica.least_team_tokens
            one = replica.passes.one.seconds(tokens, squares)
            busy = replica.passes.busy.seconds(tokens, squares)
            left = replica.passes.team.seconds(tokens, squares) if alone else one
            threads = replica.cores if alone else 1
            slowdown = 1.0 if threads > 1 else max(1.0, busy / one)
            full = bool(self._waiting)
            self._lanes.append(_Pass(kept, tokens, left, threads, slowdown, self._now, full))
            self._texts += len(kept)
            self._passes += 1

    def _end(self, lane: _Pass) -> None:
        if lane.threads == 1:
            self._note(lane.tokens + (0 if lane.full else PASS_TOKENS), self._now - lane.began)
        self._amount -= lane.tokens
        for number in lane.texts:
            self._loop.add((1 - _READING_SHARE) * self._replica.handling, "write", number)
        self._begin()

    def _note(self, tokens: float, seconds: float) -> None:
        kept = math.exp(-seconds / HORIZON_SECONDS)
        self._known = self._known[0] * kept + tokens, self._known[1] * kept + seconds

"""Notes what a traced request does and when, for the layer that makes spans of it.

It needs no package of OpenTelemetry. A request that is not traced has no record.
"""

import threading
import time
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType

# Further stages are counted but not kept: a request of many passes must not hold up others.
MOST_STAGES = 64

IDS_KEY = "headlight.trace"
PROBLEM_KEY = "headlight.problem"
# The id of a trace that can be looked up, because its spans are sent.
TRACE_ID_KEY = "headlight.trace_id"

# Stands for the stages of work for which no request is traced. Who notes a stage asks first, so
# that nothing here runs while traces are off.
NOTHING = nullcontext()


@dataclass(slots=True, eq=False)
class Stage:
    """A part of the work on a request; as a context manager it ends with its block.

    Its times are nanoseconds of the monotonic clock. No attribute is text of a user.
    """

    name: str
    attributes: dict[str, str | int] = field(default_factory=dict)
    began: int = field(default_factory=time.monotonic_ns)
    ended: int | None = None
    error: str | None = None

    def __enter__(self) -> "Stage":
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Notes when the stage ended, and the type of an error."""
        self.ended = time.monotonic_ns()
        self.error = None if kind is None else kind.__name__


class Trace:
    """The stages of one request. Threads may add to it."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.passes = 0
        self._waiting: Stage | None = None
        self._lock = threading.Lock()

    def begin(self, stage: Stage) -> Stage:
        """Adds a stage that goes on, and returns it."""
        with self._lock:
            if len(self.stages) < MOST_STAGES:
                self.stages.append(stage)
        return stage

    def begin_work(self, name: str, texts: int) -> Stage:
        """Adds a stage of work on so many texts, which ends with its block."""
        return self.begin(Stage(name, {"headlight.texts": texts}))

    def begin_waiting(self) -> None:
        """Notes that the request entered the queue."""
        self._waiting = self.begin(Stage("wait"))

    def begin_pass(self, began: int, attributes: dict[str, str | int]) -> Stage:
        """Adds a pass that a worker began at a time; the first one ends the wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
            self.passes += 1
        if waiting is not None:
            waiting.ended = max(began, waiting.began)
        return self.begin(Stage("forward", attributes, began))


# The record of the request that the current task works for.
CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)

"""Runs in a process of its own: reads a job and numbers of units, and writes their results.

It ends when its input ends, and the system ends it with its parent.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading

from model.errors import ModelError
from scoring.engines.base import READY, Job, Message, Result, to_message
from scoring.errors import ScoringError
from scoring.worker import Worker

_PR_SET_PDEATHSIG = 1


class _Channel:
    """The pipes to the driver."""

    def __init__(self) -> None:
        # What libraries print must not come between the lines.
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._is_over = False
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            sys.exit()  # the driver has ended
        self.job = Job(**json.loads(line))
        threading.Thread(target=self._listen, daemon=True).start()

    def write(self, message: Message) -> None:
        with self._lock:
            self._output.write(json.dumps(message) + "\n")
            self._output.flush()

    def report(self, result: Result) -> None:
        self.write(to_message(result))

    def following(self, may_wait: bool) -> int | None:
        if self._is_over:
            return None
        try:
            number = self._numbers.get(block=may_wait)
        except queue.Empty:
            return None
        self._is_over = number is None
        return number

    def _listen(self) -> None:
        for line in sys.stdin:
            self._numbers.put(int(line))
        self._numbers.put(None)


def main() -> None:
    """Does units until the input ends."""
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
    channel = _Channel()
    try:
        worker = Worker(channel.job)
    except (ScoringError, ModelError) as error:
        channel.write(("error", str(error)))
        return
    channel.write(READY)
    worker.run(channel.following, channel.report)


if __name__ == "__main__":
    main()

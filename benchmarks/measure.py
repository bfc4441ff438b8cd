"""Measures one load on one warm server."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import gpu, open_loop, wrk
from benchmarks.errors import AnswerError
from benchmarks.loads import Closed, Kind, Load, Mixed
from benchmarks.servers import Server
from benchmarks.texts import Texts, write_literals
from benchmarks.wrk import Figures

_LEAST_ANSWERS_EACH = 2
_MOST_SECONDS = 120.0
# A background load is stopped with the load it accompanies; it must not end earlier.
_SPARE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one load on one server.

    Args:
        figures: of the load itself.
        undisturbed: for a mixed load, its short texts without the long ones; else None.
        asked: for a load at a fixed rate, requests per second; else None.
        busy: share of the time in which the GPU computed, 0 to 1; None if unknown.
    """

    figures: Figures
    undisturbed: Figures | None = None
    asked: float | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """How often and how long to measure.

    Args:
        repetitions: how often each server is started and measured.
        warm_up: seconds of each load before measuring.
        seconds: for which each load is measured.
        texts: that a load may send, so that no two loads on a server share one. Their numbers are
            only a few tokens long.
    """

    repetitions: int
    warm_up: float
    seconds: float
    texts: int = 200_000


class _Stream:
    """Sends a closed load to a server repeatedly, never the same text twice.

    Args:
        load: to send.
        server: that is asked.
        texts: file of texts.
        first: the number before that of the first text.

    Attributes:
        least: number of answers below which the figures mean nothing.
    """

    def __init__(self, load: Closed, server: Server, *, texts: Path, first: int) -> None:
        self.load = load
        self.server = server
        self.least = _LEAST_ANSWERS_EACH * load.connections
        self._texts = texts
        self._first = first

    def run(self, seconds: float) -> Figures:
        """Sends the load for some seconds; see `wrk.run`."""
        with self._running(seconds) as process:
            return self._counted(wrk.read(process, self.load))

    @contextmanager
    def beside(self, seconds: float) -> Iterator[Callable[[], Figures]]:
        """Sends the load in the background.

        Args:
            seconds: the longest duration.

        Returns:
            A function that stops the load and returns its figures so far; see `wrk.stop`.
        """
        with self._running(seconds) as process:
            yield lambda: self._counted(wrk.stop(process, self.load))

    def _running(self, seconds: float) -> AbstractContextManager[subprocess.Popen[str]]:
        return wrk.running(
            self.load,
            texts=self._texts,
            port=self.server.port,
            first=self._first,
            seconds=seconds,
        )

    def _counted(self, found: Figures) -> Figures:
        self._first += (found.requests + self.load.connections) * self.load.sentences
        return found


class Meter:
    """Sends loads and reads their figures.

    Args:
        texts: to send.
        folder: for the texts that the client reads.
        timing: durations.
        client: a process for the loads at a fixed rate.
        busy: command that tells how busy the GPU is; empty if nothing does.

    Attributes:
        files: of texts, as the client reads them.
    """

    def __init__(
        self,
        texts: Texts,
        *,
        folder: Path,
        timing: Timing,
        client: Executor,
        busy: Sequence[str] = (),
    ) -> None:
        self._texts = texts
        self._timing = timing
        self._client = client
        self._busy = busy
        self.files: dict[Kind, Path] = {
            "sentences": folder / "sentences",
            "reviews": folder / "reviews",
        }
        write_literals(texts.sentences, self.files["sentences"])
        write_literals(texts.reviews, self.files["reviews"])

    def measure(
        self, load: Load, server: Server, *, number: int, before: Mapping[str, Measurement]
    ) -> Measurement:
        """Warms a server up with a load and measures it.

        Args:
            load: to send.
            server: that is asked; nothing else should run.
            number: of the load, so that no two loads send the same text.
            before: results of earlier loads on the same server, by name.

        Raises:
            AnswerError: a request failed, or the server is too slow to be measured.
        """
        first = number * self._timing.texts
        if isinstance(load, Closed):
            return self._closed(self._stream(load, server, first))
        if isinstance(load, Mixed):
            return self._mixed(load, server, first)
        asked = load.share * before[load.of].figures.rate
        figures = self._client.submit(
            open_loop.run,
            asked,
            sentences=self._texts.sentences,
            port=server.port,
            first=first,
            warm_up=self._timing.warm_up,
            seconds=self._timing.seconds,
        ).result()
        return Measurement(figures, asked=asked)

    def _stream(self, load: Closed, server: Server, first: int) -> _Stream:
        return _Stream(load, server, texts=self.files[load.texts], first=first)

    def _closed(self, stream: _Stream) -> Measurement:
        stream.run(self._timing.warm_up)
        stream.server.settle()
        for seconds in self._durations():
            with gpu.watching(self._busy) as samples:
                found = stream.run(seconds)
            stream.server.settle()
            if found.requests >= stream.least:
                return Measurement(found, busy=gpu.mean(samples))
        raise self._too_slow(stream.load)

    def _mixed(self, load: Mixed, server: Server, first: int) -> Measurement:
        short = self._stream(load.short, server, first)
        long = self._stream(load.long, server, first)
        alone = self._closed(short).figures
        for seconds in self._durations():
            beside, disturbing = self._beside(short, long, seconds)
            server.settle()
            # Without an answered long text, the short texts were beside none.
            if beside.requests >= short.least and disturbing.requests >= load.long.connections:
                return Measurement(beside, undisturbed=alone)
        raise self._too_slow(load)

    def _beside(self, short: _Stream, long: _Stream, seconds: float) -> tuple[Figures, Figures]:
        with long.beside(self._timing.warm_up + seconds + _SPARE_SECONDS) as stop:
            short.run(self._timing.warm_up)
            # The server never rests here. Earlier work is done when a later request is answered.
            short.server.wait_in_turn()
            found = short.run(seconds)
            return found, stop()

    def _durations(self) -> Iterator[float]:
        """Doubles the seconds until every connection of a slow server gets its answers."""
        seconds = self._timing.seconds
        yield seconds
        while (seconds := 2 * seconds) <= _MOST_SECONDS:
            yield seconds

    def _too_slow(self, load: Load) -> AnswerError:
        *_, longest = self._durations()
        return AnswerError(f"{load.name}: too few answers for its connections in {longest:g} s")

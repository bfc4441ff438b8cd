"""One load on one server that is warm: its figures, and what they are measured with."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import open_loop, wrk
from benchmarks.errors import AnswerError
from benchmarks.loads import Closed, Kind, Load, Mixed
from benchmarks.servers import Server
from benchmarks.texts import Texts, write_literals
from benchmarks.wrk import Figures

# Far enough apart that no two loads on a server share a text, and short enough to be few tokens.
_FIRST_NUMBERS = 200_000
_LEAST_ANSWERS_EACH = 2
_MOST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one load on one server.

    Args:
        figures: of the load itself.
        undisturbed: of a mixed load: its short texts without the long ones; else None.
    """

    figures: Figures
    undisturbed: Figures | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things are measured.

    Args:
        repetitions: how often each server is started and measured.
        warm_up: seconds of each load before it is measured.
        seconds: that each load is measured.
    """

    repetitions: int
    warm_up: float
    seconds: float


class Meter:
    """Sends loads, and reads the figures.

    Args:
        texts: that are sent.
        folder: where they are written for the client.
        timing: how long.
        client: a process for the loads that come at a fixed rate.

    Attributes:
        files: of the texts, as the client reads them.
    """

    def __init__(self, texts: Texts, *, folder: Path, timing: Timing, client: Executor) -> None:
        self._texts = texts
        self._timing = timing
        self._client = client
        self.files: dict[Kind, Path] = {
            "sentences": folder / "sentences",
            "reviews": folder / "reviews",
        }
        write_literals(texts.sentences, self.files["sentences"])
        write_literals(texts.reviews, self.files["reviews"])

    def measure(
        self, load: Load, server: Server, *, number: int, before: Mapping[str, Measurement]
    ) -> Measurement:
        """Measures one load on a server, after a while of the same.

        Args:
            load: to send.
            server: that is asked; nothing else should run.
            number: of the load, so that no two send the same text.
            before: what came of the loads before it on the same server, by their names.

        Raises:
            AnswerError: a request failed, or the server is too slow to be measured.
        """
        first = number * _FIRST_NUMBERS
        if isinstance(load, Closed):
            return Measurement(self._closed(load, server, first))
        if isinstance(load, Mixed):
            return self._mixed(load, server, first)
        return Measurement(
            self._client.submit(
                open_loop.run,
                load.share * before[load.of].figures.rate,
                sentences=self._texts.sentences,
                port=server.port,
                first=first,
                seconds=self._timing.seconds,
            ).result()
        )

    def _closed(self, load: Closed, server: Server, first: int) -> Figures:
        run = self._run(load, server)
        run(first=first, seconds=self._timing.warm_up)
        seconds = self._timing.seconds
        first += _FIRST_NUMBERS // 2
        least = _LEAST_ANSWERS_EACH * load.connections
        # A slow server gets as long as each connection needs for its answers.
        while (found := run(first=first, seconds=seconds)).requests < least:
            first += (found.requests + load.connections) * load.sentences
            seconds *= 2
            if seconds > _MOST_SECONDS:
                raise AnswerError(
                    f"{load.name}: not {_LEAST_ANSWERS_EACH} answers for each connection "
                    f"in {seconds / 2:g} s"
                )
        return found

    def _mixed(self, load: Mixed, server: Server, first: int) -> Measurement:
        alone = self._closed(load.short, server, first)
        background = wrk.running(
            load.long,
            texts=self.files[load.long.texts],
            port=server.port,
            first=first + _FIRST_NUMBERS // 4,
            seconds=self._timing.seconds + 1,
        )
        with background:
            beside = self._run(load.short, server)(
                first=first + 3 * _FIRST_NUMBERS // 4, seconds=self._timing.seconds
            )
        return Measurement(beside, undisturbed=alone)

    def _run(self, load: Closed, server: Server) -> Callable[..., Figures]:
        return partial(wrk.run, load, texts=self.files[load.texts], port=server.port)

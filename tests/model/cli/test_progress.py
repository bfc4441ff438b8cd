"""Progress, for people and for logs."""

import io
import os
import pty
import re
import termios
import time

import pytest

from model.cli.progress import progress, say

PAUSE = 0.11  # a bar is drawn anew at most every tenth of a second


def shown_on_terminal(total: int, done: int) -> str:
    """What a real terminal is sent while the rest of the work is done."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(theirs, "w") as stream,
        progress(total, "fit", done=done, stream=stream) as advance,
    ):
        for number in range(total - done):
            time.sleep(PAUSE)
            advance(1, f"loss 0.{number}")
    with os.fdopen(ours, "rb") as terminal:
        sent = b""
        while True:
            try:
                chunk = os.read(terminal.fileno(), 65536)
            except OSError:  # how Linux says that the other end was closed
                break
            if not chunk:
                break
            sent += chunk
    return sent.decode()


def test_a_terminal_gets_a_bar_with_loss_rate_and_time_left() -> None:
    shown = shown_on_terminal(total=4, done=1)
    bars = [bar for bar in shown.split("\r") if "%|" in bar]
    assert bars[0].startswith("fit:  25%|")
    assert re.search(r"\| 3/4 \[.*, loss 0\.1\]$", bars[2])
    # In the end the line is cleared for what is said next.
    assert re.search(r"\r +\r$", shown)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("model.cli.progress.time.monotonic", lambda: self.now)


def test_elsewhere_there_is_a_plain_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    stream = io.StringIO()
    asked: list[int] = []

    def words(number: int) -> str:
        asked.append(number)
        return f"loss 0.{number}"

    with progress(12, "fit", done=2, stream=stream) as advance:
        for number in range(10):
            clock.now += 4.0
            advance(1, lambda number=number: words(number))  # type: ignore[misc]

    assert stream.getvalue() == (
        "fit: 5/12, 0.2/s, 28 s left, loss 0.2\n"
        "fit: 8/12, 0.2/s, 16 s left, loss 0.5\n"
        "fit: 11/12, 0.2/s, 4 s left, loss 0.8\n"
        "fit: 12/12, 0.2/s, 0 s left, loss 0.9\n"
    )
    assert asked == [2, 5, 8, 9]  # words that take time are found only when they are shown


def test_a_line_that_is_said_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(theirs, "w") as stream:
        # tqdm clears the bars of the standard streams alone.
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", stream)
        with progress(2, "fit") as advance:
            advance(1, "")
            say("epoch 1/2")
            advance(1, "")
        say("the end")
        shown = ""
        while not shown.endswith("the end\r\n"):
            shown += os.read(ours, 65536).decode()
    os.close(ours)

    # Without room made for it, the line would stand behind the bar.
    assert re.search(r"0/2 \[.*\]\r +\repoch 1/2\r\n", shown)

"""Progress, for people and for logs."""

import io
import time

from training.progress import progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Says so."""
        return True


def test_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    with progress(4, "fit", stream=stream) as advance:
        advance(1, "loss 0.7")
        time.sleep(0.2)  # a bar is drawn anew ten times a second at most
        advance(1, "loss 0.5")
    shown = stream.getvalue()
    assert "fit:" in shown
    assert " 2/4 " in shown
    assert "50%" in shown
    assert "loss 0.5" in shown


def test_plain_lines_elsewhere() -> None:
    stream = io.StringIO()
    with progress(10, "fit", done=4, stream=stream) as advance:
        for _ in range(6):
            advance(1, "loss 0.5")
    (line,) = stream.getvalue().splitlines()  # so few seconds are not worth more than the last
    assert line.startswith("fit: 10/10, ")
    assert line.endswith("/s, 0 s left, loss 0.5")

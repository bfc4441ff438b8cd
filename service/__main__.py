"""`headlight-serve`: the first thing that runs, so that a signal ends the process from then on."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the service until a signal ends it.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        As `service.command.run`.
    """
    # As the first process of a container it gets no signal that it does not handle, and the server
    # handles them only once it runs: a replica stopped before that would go on and be killed.
    before = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Not before: torch takes seconds.
        code: int = importlib.import_module("service.command").run(arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _end(number: int, frame: FrameType | None) -> None:
    """Ends the process while it has nothing in hand."""
    del frame
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())

"""Starts `headlight-serve`, and lets a signal end it from the first moment."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the service until a signal ends it; see `service.command.run`."""
    # The first process of a container gets only the signals that it handles, and the server handles
    # them only once it runs. Without this, a replica that is stopped before would go on until it is
    # killed.
    before = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Imported here, because torch takes seconds.
        importlib.import_module("model.cli.process").prepare_process()
        code: int = importlib.import_module("service.command").run(arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _end(number: int, frame: FrameType | None) -> None:
    """Ends the process while it has no request to answer."""
    del frame
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())

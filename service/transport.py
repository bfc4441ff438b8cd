"""The way out to one client, which may be gone before the server is told.

uvloop raises where a connection was reset and a piece of an answer is still to be written; asyncio
says that such a piece is dropped. Between the reset and the call that tells of it there is always
an answer on its way, so for a service it is no error.
"""

import asyncio
from typing import Any


class QuietTransport(asyncio.Transport):
    """A transport that drops what is written once it closes.

    Args:
        transport: what it passes everything else on to.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes to a client that is still there."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Closes behind what was written."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether nothing more will be written."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stops reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """What is known of the connection, such as its addresses."""
        return self._transport.get_extra_info(name, default)

"""From sentences to the answer of `POST /predict`, over one raw HTTP/1.1 connection that is kept.

As little as a client can do, because whatever it does takes time from the server beside it.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.errors import AnswerError

_HOST = "127.0.0.1"
_PATIENCE = 30.0
_SHOWN = 200


class Connection:
    """One connection to a server on this machine; one request at a time.

    Args:
        reader: of the connection.
        writer: of the connection.
        port: that it leads to.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, port: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._port = port

    async def predict(self, sentences: Sequence[str]) -> bytes:
        """Sends sentences and waits for the whole answer.

        Args:
            sentences: of one request.

        Returns:
            The body of the answer, which is not read here.

        Raises:
            AnswerError: the status is not 200, the length is missing or the connection broke.
        """
        body = json.dumps({"sentences": sentences}).encode()
        head = (
            f"POST /predict HTTP/1.1\r\nHost: {_HOST}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            self._writer.write(head.encode("ascii") + body)
            await self._writer.drain()
            answer_head = await self._reader.readuntil(b"\r\n\r\n")
            content = await self._reader.readexactly(_content_length(answer_head))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise AnswerError("the server closed the connection early") from error
        status = answer_head.split(b" ", 2)[1]
        if status != b"200":
            shown = content[:_SHOWN].decode("utf-8", "replace")
            raise AnswerError(f"status {status.decode('latin-1')}, not 200: {shown!r}")
        return content

    async def close(self) -> None:
        """Closes it."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def open_connection(port: int) -> Connection:
    """Opens a connection, which whoever asked for it closes.

    Args:
        port: on 127.0.0.1.

    Raises:
        AnswerError: nothing listens there.
    """
    try:
        reader, writer = await asyncio.open_connection(_HOST, port)
    except OSError as error:
        raise AnswerError(f"no connection to port {port}: {error.strerror or error}") from error
    return Connection(reader, writer, port=port)


def predict_once(port: int, sentences: Sequence[str]) -> bytes:
    """Sends one request over a connection of its own; see `Connection.predict`.

    Raises:
        AnswerError: there is no answer, not in time, or one that is not right.
    """
    try:
        return asyncio.run(_predict_once(port, sentences))
    except TimeoutError as error:
        raise AnswerError(f"no answer within {_PATIENCE:g} s") from error


async def _predict_once(port: int, sentences: Sequence[str]) -> bytes:
    async with asyncio.timeout(_PATIENCE):
        connection = await open_connection(port)
        try:
            return await connection.predict(sentences)
        finally:
            await connection.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    raise AnswerError("the answer has no Content-Length, which this client needs")

"""Asks `POST /predict`, once or over a connection that is kept.

The kept connection does little, because the client takes time from the server beside it.
"""

import asyncio
import http.client
import json
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.errors import AnswerError

_HOST = "127.0.0.1"
# Seconds for the connection, and then for each part of an answer.
_PATIENCE = 30.0
_SHOWN = 200
_CLOSED_EARLY = "the server closed the connection early"
_NO_LENGTH = "the answer has no Content-Length, which this client needs"


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
            The body of the answer, not parsed.

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
            raise AnswerError(_CLOSED_EARLY) from error
        return _right(answer_head.split(b" ", 2)[1].decode("latin-1"), content)

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def open_connection(port: int) -> Connection:
    """Opens a connection, which the caller closes.

    Args:
        port: on 127.0.0.1.

    Raises:
        AnswerError: nothing listens there.
    """
    try:
        reader, writer = await asyncio.open_connection(_HOST, port)
    except OSError as error:
        raise _no_connection(port, error) from error
    return Connection(reader, writer, port=port)


def predict_once(port: int, sentences: Sequence[str]) -> bytes:
    """Sends one request over a connection of its own and waits for the whole answer.

    It uses no event loop: an interrupt while a loop is created would leave half of one.

    Args:
        port: on 127.0.0.1.
        sentences: of the request.

    Returns:
        The body of the answer, not parsed.

    Raises:
        AnswerError: nothing listens there, or no right answer comes in time.
    """
    connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
    try:
        connection.connect()
    except OSError as error:
        raise _no_connection(port, error) from error
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/predict", json.dumps({"sentences": sentences}), headers)
        answer = connection.getresponse()
        content = answer.read()
    except TimeoutError as error:
        raise AnswerError(f"no answer within {_PATIENCE:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise AnswerError(_CLOSED_EARLY) from error
    finally:
        connection.close()
    if answer.getheader("Content-Length") is None:
        raise AnswerError(_NO_LENGTH)
    return _right(str(answer.status), content)


def _right(status: str, content: bytes) -> bytes:
    if status != "200":
        shown = content[:_SHOWN].decode("utf-8", "replace")
        raise AnswerError(f"status {status}, not 200: {shown!r}")
    return content


def _no_connection(port: int, error: OSError) -> AnswerError:
    return AnswerError(f"no connection to port {port}: {error.strerror or error}")


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    raise AnswerError(_NO_LENGTH)

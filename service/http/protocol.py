"""Turns the bytes of a connection into requests: uvicorn's protocol, with these changes.

- An offer of another protocol, as Java's client sends with every request (`Upgrade: h2c`), is
  ignored, and the body is kept.
- Heads and trailers have a largest size. While a request waits for the answer to the one before it,
  nothing more is parsed. Trailers are dropped, because they are no headers (RFC 9110, 6.5.1).
- Invalid HTTP while a request is being answered closes the connection after that answer.
- The gate and the limit of connections may refuse a request before it becomes one.
- What other servers might read in another way is invalid: a request of HTTP/1.1 without a `Host`,
  any with two, a `%` in the URL that begins no escape, a coding of the body other than `chunked`,
  and another version of HTTP.
- Every wait for a client has a time limit.
- An application that answers a client that has left gets `ClientDisconnect`.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

import httptools
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http.access import Gate, TrustedProxies
from service.http.middleware import is_health
from service.http.transport import SENDER, ClientTransport, Connections
from service.logs import LogThrottle

LARGEST_HEAD = 131_072
_HEAD_SECONDS = 10.0
# The same, and for anything else, while all connections are taken.
_EXTRA_SECONDS = 2.0
# For the rest of a body after its answer.
_REST_SECONDS = 10.0
# Bytes parsed at once. The parser cannot stop within a piece, which may hold a hundred requests.
_PIECE = 1024
# How long a connection is parsed in one round of the event loop: chunks may have a byte each.
_TURN_SECONDS = 0.001
# Most bytes read ahead of the parser. Not 0: only a connection that is read shows that its client
# has left.
_MOST_UNPARSED = 65_536
# A slow end is handled here, in order, before uvicorn treats it as an error.
_SECONDS_BEFORE_UVICORN = 0.5
_INVALID = "Invalid HTTP request received."
# Headers that offer another protocol.
_OFFERS = frozenset({b"upgrade", b"http2-settings"})
_VERSIONS = frozenset({"1.0", "1.1"})
_CODINGS: tuple[list[bytes], ...] = ([], [b"chunked"])
_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_LINES = LogThrottle()


class _Phase(Enum):
    """Where the parser is in what the client sends."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class HttpProtocol(HttpToolsProtocol):
    """Serves one connection, in HTTP/1.1 whatever else is offered, with limits on size and time.

    Args:
        proxies: the senders whose `X-Forwarded-For` is trusted; None if there are none.
        slots: limits the connections; None for no limit.
    """

    transport: ClientTransport
    _phase = _Phase.BETWEEN
    _messages = 0
    _size = 0  # bytes of a head or of trailers, after the piece in which they began
    _unparsed = b""
    _goes_on = False  # whether `_parse` is called in the next round of the event loop
    _in_hand: RequestResponseCycle | None = None  # the request being answered, or answered last
    _awaited: tuple[int, _Phase] | None = None
    _rejected = False
    _invalid = _INVALID  # what a bare 400 says
    _skipping = False  # the body of a request that does not reach the application
    _is_extra = False  # beyond the limit of connections: only health is answered

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        gate: Gate | None = None,
        proxies: TrustedProxies | None = None,
        slots: Connections | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **options)
        self._gate = gate
        self._proxies = proxies
        self._slots = slots

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Gives a client that sends nothing the same time as between two requests."""
        super().connection_made(ClientTransport(transport, self.loop, self._is_sending))
        if self._slots is not None:
            self._is_extra = self._slots.enter(self.transport, self.loop.time())
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels timers and drops the requests that still wait."""
        self.transport.note_lost()
        if self._slots is not None:
            self._slots.leave(self.transport)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._unparsed = b""
        if self._in_hand is not None:
            self.cycle = self._in_hand  # uvicorn ends this one; those that waited never began
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Makes the current answer the last, and limits how long it may take."""
        seconds = self.config.timeout_graceful_shutdown
        if seconds is not None:
            self.transport.hurry(seconds - _SECONDS_BEFORE_UVICORN)
        if self._in_hand is not None:
            self._in_hand.keep_alive = False
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parses what came; answers invalid HTTP, and a head that is too large, with a bare 400."""
        if self.transport.is_closing():
            self.transport.discard(len(data))
            return
        self._unparsed += data
        if not self._goes_on:
            self._parse()

    def on_message_begin(self) -> None:
        """Notes that a head begins."""
        self._phase = _Phase.HEAD
        self._messages += 1
        self._size = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, and drops a trailer."""
        if self._phase is _Phase.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Starts the request, unless the parser is about to stop at an offer."""
        if error := find_error(self.parser.get_http_version(), self.url, self.headers):
            self._invalid = error
            raise httptools.HttpParserError(error)
        if not self.parser.should_upgrade():
            if self._proxies is not None:
                self.scope["client"] = self._proxies.client_of(self.client, self.headers)
            self._skipping = self.transport.is_closing() or self._is_rejected()
            if not self._skipping:
                super().on_headers_complete()
                if self._is_extra:
                    self.cycle.keep_alive = False
                # uvicorn stops reading when a request has to wait: see _MOST_UNPARSED.
                self.flow.resume_reading()
        self._phase = _Phase.BODY

    def on_body(self, body: bytes) -> None:
        """Takes a piece of the body, unless the request is skipped."""
        self._size = 0
        if not self._skipping:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends the request, if it was started."""
        self._phase = _Phase.BETWEEN
        if self.transport.is_closing():
            self.transport.end()
        elif not self._skipping and not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Parses what the client has sent meanwhile."""
        super().on_response_complete()
        self._parse()

    def resume_writing(self) -> None:
        """Gives back the room of an answer that is sent."""
        super().resume_writing()
        self.transport.note_sent()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        self._in_hand = cycle
        cast("Scope", cycle.scope)[SENDER] = self.transport
        super()._start_asgi_task(cycle, partial(self._answer_unless_gone, cycle, app))

    async def _answer_unless_gone(
        self, cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Runs the app; its `send` raises ClientDisconnect if the client has left."""

        async def send_unless_gone(message: Message) -> None:
            await send(message)
            if cycle.disconnected and not cycle.response_complete:
                raise ClientDisconnect

        try:
            await app(scope, receive, send_unless_gone)
        finally:
            cycle.body = bytearray()  # nobody reads the rest, and the connection may stay open
            self.transport.note_made()

    def _is_rejected(self) -> bool:
        """Refuses a request by its head, if it must be."""
        if self._gate is None or self._is_answering():
            return False
        scope = cast("Scope", self.scope)
        # As uvicorn reads them, so that no other spelling of a path passes the gate.
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote((httptools.parse_url(self.url).path or b"").decode("ascii"))
        if self._is_extra and self._slots is not None and not is_health(scope["path"]):
            answer = self._gate.answer(self._slots.rejection(), scope, closes=True)
            if scope["method"] == "HEAD":
                answer = answer[: answer.index(b"\r\n\r\n") + 4]
            self.transport.write(answer)
            self.transport.close()
            return True
        # As uvicorn has it, HTTP/1.0 always closes.
        closes = self.parser.get_http_version() == "1.0" or not self.parser.should_keep_alive()
        rejected = self._gate.reject(scope, closes=closes)
        if rejected is None:
            return False
        self.transport.write(rejected)
        if closes:
            self.transport.close()
        return True

    def _is_answering(self) -> bool:
        return self._in_hand is not None and not self._in_hand.response_complete

    def _is_sending(self) -> bool:
        between = self._phase is _Phase.BETWEEN and not self._unparsed and not self.pipeline
        return self._rejected or not between

    def _watch(self) -> None:
        """Sets the time limit of what is awaited; only its arrival renews the limit."""
        awaited = None
        if not self._is_answering() and not self.transport.is_closing():
            awaited = self._messages, self._phase
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._slots is not None:
            if awaited is not None and self._phase is _Phase.BETWEEN:
                self._slots.rest(self.transport, self.loop.time())
            else:
                self._slots.wake(self.transport)
        self._unset_keepalive_if_required()
        if awaited is not None:
            seconds = {
                _Phase.BETWEEN: self.timeout_keep_alive,
                _Phase.HEAD: _HEAD_SECONDS,
                _Phase.BODY: _REST_SECONDS,
            }[self._phase]
            if self._is_extra:
                seconds = _EXTRA_SECONDS
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self.transport.end)

    def _parse(self) -> None:
        """Parses until a request has to wait for the answer to another, or others for this."""
        self._goes_on = False
        read, start, until = self._unparsed, 0, time.perf_counter() + _TURN_SECONDS
        while start < len(read) and not (
            self.pipeline or self._rejected or self.transport.is_closing()
        ):
            piece = read[start : start + _PIECE]
            start += _PIECE
            self._size += len(piece)
            try:
                self._feed(piece)
            except httptools.HttpParserError:
                self._reject()
            else:
                if self._size > LARGEST_HEAD:
                    self._reject()
            if time.perf_counter() > until:
                self._goes_on = True
                self.loop.call_soon(self._parse)
                break
        self._unparsed = read[start:]
        self.transport.set_full(full=len(self._unparsed) > _MOST_UNPARSED)
        self._watch()

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    raise httptools.HttpParserError("this is no proxy") from upgrade
                behind_head: int = upgrade.args[0]
                version = self.parser.get_http_version()
                head = without_offer(self.parser.get_method(), self.url, version, self.headers)
                data = head + data[behind_head:]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _reject(self) -> None:
        """Stops parsing: finishes the current answer, or sends 400 if there is none."""
        self._rejected = True
        message = self._invalid
        if (others := _LINES.others(self.loop.time())) is not None:
            self.logger.warning(_INVALID, extra={"others": others})
        if self._phase is _Phase.BODY:
            self._give_up_body(message)
        elif self._is_answering():
            self.cycle.keep_alive = False
        else:
            self.send_400_response(message)

    def _give_up_body(self, message: str) -> None:
        cycle: RequestResponseCycle = self.cycle
        if self.pipeline:
            # The request never began: the answer to the one before it is the last.
            self.pipeline.popleft()
            self.cycle = self.pipeline[0][0] if self.pipeline else self._in_hand  # type: ignore[assignment]
            self.cycle.keep_alive = False
        elif not self._is_answering():
            self.transport.close()  # it has had its answer
        else:
            # Its answer is no longer wanted.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
            else:
                self.send_400_response(message)


def find_error(version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Returns what is wrong with a head that the parser accepts, or None.

    Other servers may read such a head in another way. Sources: RFC 9112, sections 3.2 (`Host`) and
    6.1 (`Transfer-Encoding`); RFC 3986, section 2.1 (escapes). Headers have names in lower case.
    """
    if version not in _VERSIONS:
        return "This service speaks HTTP/1.1 and HTTP/1.0."
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings not in _CODINGS:
        return "Transfer-Encoding may only be chunked, given once."
    hosts = len([name for name, _ in headers if name == b"host"])
    if hosts != 1 and (hosts or version == "1.1"):
        return f"A request has one Host header; this one has {hosts}."
    if b"%" in url and _NO_ESCAPE.search(url):
        return "A % in the URL needs two hexadecimal digits behind it; a plain % is %25."
    return None


def without_offer(
    method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """Writes a head again without the offer of another protocol, at which the parser would stop.

    A server may ignore the offer (RFC 9110, section 7.8).
    """
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode("ascii"))]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
        if name not in _OFFERS:
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])

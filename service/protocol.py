"""From the bytes of a connection to requests: uvicorn's protocol, mended where clients meet it.

Six things differ. A client may offer to go on in another protocol, as Java's own does with every
request (`Upgrade: h2c`); a server may ignore that (RFC 9110, section 7.8), but the parser takes
what follows for the other protocol and loses the body. And a head has a largest size, so that no
connection can fill the memory with headers that never end. What is not HTTP behind a request that
is still being answered does not get its 400 in place of that answer: the answer comes first,
and the connection is closed behind it. A gate may refuse a request before it becomes one. A
head that has begun, and a connection on which nothing is said, have a time to end. And what is
written to a client that has just gone is dropped.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.gate import Gate
from service.transport import QuietTransport

_LARGEST_HEAD = 131_072
_HEAD_SECONDS = 10.0
_OFFERS = frozenset({b"upgrade", b"http2-settings"})


class HttpProtocol(HttpToolsProtocol):
    """One connection: HTTP/1.1 whatever else is offered, and heads that end."""

    _in_head = True
    _head_size = 0  # bytes that came behind the piece in which the head began
    _head_begun = False
    _head_timer: asyncio.TimerHandle | None = None
    _refused = False
    _skipping = False  # the body of a request that the gate refused

    def __init__(self, *args: Any, gate: Gate | None = None, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._gate = gate

    def data_received(self, data: bytes) -> None:
        """Parses what came; what is not HTTP, or a head without end, gets a bare 400."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._head_size += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse()
        else:
            if self._in_head and self._head_size > _LARGEST_HEAD:
                self._refuse()
            self._watch_head()

    def on_message_begin(self) -> None:
        """Notes that a head begins."""
        self._in_head = True
        self._head_begun = True
        self._head_size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Starts the request, unless the parser is about to give up what follows its head."""
        self._in_head = False
        self._head_begun = False
        if not self.parser.should_upgrade() and not self._is_refused_by_gate():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a piece of the body, unless nobody reads it."""
        if not self._skipping:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends the request, if it was started."""
        if self._skipping:
            self._skipping = False
            self._await_next()
        elif not self.parser.should_upgrade():
            super().on_message_complete()

    def _is_refused_by_gate(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if self._gate is None or answering or self.transport.is_closing():
            return False
        path, _, _ = self.url.partition(b"?")
        answer = self._gate.refuse(self.parser.get_method(), path, self.headers)
        if answer is None:
            return False
        self._skipping = True
        self.transport.write(answer)
        if not self.parser.should_keep_alive():
            self.transport.close()
        self._await_next()
        return True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Gives a client that says nothing the time of one between two requests."""
        super().connection_made(QuietTransport(transport))
        self._await_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what the connection began."""
        self._end_watch()
        super().connection_lost(exc)

    def _await_next(self) -> None:
        """Gives the client some time for the next piece of what it says."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _watch_head(self) -> None:
        """Gives a head that has begun so many seconds to end."""
        begun = self._in_head and self._head_begun
        if begun and self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.close)
        elif not begun:
            self._end_watch()

    def _end_watch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    raise httptools.HttpParserError("this is no proxy") from upgrade
                behind_head: int = upgrade.args[0]
                data = self._head_without_offer() + data[behind_head:]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _head_without_offer(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.parser.get_method(), self.url)]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                value = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
            if name not in _OFFERS:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _refuse(self) -> None:
        self._refused = True
        message = "Invalid HTTP request received."
        self.logger.warning(message)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            # Its own body is what is wrong: nobody waits for its answer any more.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        self.send_400_response(message)

"""From the bytes of a connection to requests: uvicorn's protocol, mended where clients meet it.

What differs:

- A client may offer to go on in another protocol, as Java's own does with every request (`Upgrade:
  h2c`): it is ignored, and the body is not lost.
- No connection can fill the memory: a head, and the trailers behind a body, have a largest size,
  and while a request waits for the answer to the one before it, nothing more is parsed. Trailers
  are no headers (section 6.5.1): they are dropped.
- What is not HTTP behind a request that is still being answered does not get its 400 in place of
  that answer: the answer comes first, and the connection is closed behind it.
- A gate may refuse a request before it becomes one.
- Whatever is waited for from a client has a time to come.
- An application that answers a client that has gone hears of it.
"""

import asyncio
from enum import Enum, auto
from functools import partial
from typing import Any

import httptools
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http.departure import answer_unless_gone
from service.http.gate import Gate
from service.http.offers import head_without_offer
from service.http.transport import ClientTransport

_LARGEST_HEAD = 131_072
_HEAD_SECONDS = 10.0
# For what is left of a body, behind its answer.
_REST_SECONDS = 10.0
# What is parsed at once. The parser cannot be stopped within: so many bytes may hold about a
# hundred requests.
_PIECE = 1024
# More than that is not read ahead of the parser. It is not nothing, because only who reads sees
# the client leave.
_MOST_UNPARSED = 65_536
# So that what does not end in time is ended here, in order, and not by uvicorn as an error.
_SECONDS_BEFORE_UVICORN = 0.5


class _Phase(Enum):
    """Where in what the client says the parser is."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class HttpProtocol(HttpToolsProtocol):
    """One connection: HTTP/1.1 whatever else is offered, and nothing on it without an end.

    Args:
        gate: may refuse requests by their heads.
    """

    transport: ClientTransport
    _phase = _Phase.BETWEEN
    _messages = 0
    _size = 0  # bytes of a head or of trailers, behind the piece in which they began
    _unparsed = b""
    _in_hand: RequestResponseCycle | None = None  # the request that was answered last, or is now
    _awaited: tuple[int, _Phase] | None = None
    _refused = False
    _skipping = False  # the body of a request that is none for the application

    def __init__(self, *args: Any, gate: Gate | None = None, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._gate = gate

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Gives a client that says nothing the time of one between two requests."""
        super().connection_made(ClientTransport(transport, self.loop, self._is_sending))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what the connection began."""
        self.transport.forget()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._unparsed = b""
        if self._in_hand is not None:
            self.cycle = self._in_hand  # it is told; what waited behind it never began
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Lets the answer in hand be the last, and nobody keep the process from ending."""
        seconds = self.config.timeout_graceful_shutdown
        if seconds is not None:
            self.transport.hurry(seconds - _SECONDS_BEFORE_UVICORN)
        if self._in_hand is not None:
            self._in_hand.keep_alive = False
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parses what came; what is not HTTP, or a head without end, gets a bare 400."""
        if self.transport.is_closing():
            self.transport.discard(len(data))
            return
        self._unparsed += data
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
        """Starts the request, unless the parser is about to give up what follows its head."""
        if not self.parser.should_upgrade():
            self._skipping = self.transport.is_closing() or self._is_refused_by_gate()
            if not self._skipping:
                super().on_headers_complete()
                # Where a request has to wait, uvicorn stops to read: see _MOST_UNPARSED.
                self.flow.resume_reading()
        self._phase = _Phase.BODY

    def on_body(self, body: bytes) -> None:
        """Takes a piece of the body, unless nobody reads it."""
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
        """Goes on with what the client has said meanwhile."""
        super().on_response_complete()
        self._parse()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        self._in_hand = cycle
        super()._start_asgi_task(cycle, partial(answer_unless_gone, cycle, app))

    def _is_refused_by_gate(self) -> bool:
        if self._gate is None or self._is_answering():
            return False
        path, _, _ = self.url.partition(b"?")
        answer = self._gate.refuse(self.parser.get_method(), path, self.headers)
        if answer is None:
            return False
        self.transport.write(answer)
        if not self.parser.should_keep_alive():
            self.transport.close()
        return True

    def _is_answering(self) -> bool:
        return self._in_hand is not None and not self._in_hand.response_complete

    def _is_sending(self) -> bool:
        between = self._phase is _Phase.BETWEEN and not self._unparsed and not self.pipeline
        return self._refused or not between

    def _watch(self) -> None:
        """Gives what is waited for a time to come, which nothing but its coming renews."""
        awaited = None
        if not self._is_answering() and not self.transport.is_closing():
            awaited = self._messages, self._phase
        if awaited == self._awaited:
            return
        self._awaited = awaited
        self._unset_keepalive_if_required()
        if awaited is not None:
            seconds = {
                _Phase.BETWEEN: self.timeout_keep_alive,
                _Phase.HEAD: _HEAD_SECONDS,
                _Phase.BODY: _REST_SECONDS,
            }[self._phase]
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self.transport.end)

    def _parse(self) -> None:
        """Parses what was read, until a request has to wait for the answer to another."""
        read, start = self._unparsed, 0
        while start < len(read) and not (
            self.pipeline or self._refused or self.transport.is_closing()
        ):
            piece = read[start : start + _PIECE]
            start += _PIECE
            self._size += len(piece)
            try:
                self._feed(piece)
            except httptools.HttpParserError:
                self._refuse()
            else:
                if self._size > _LARGEST_HEAD:
                    self._refuse()
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
                head = head_without_offer(self.parser.get_method(), self.url, self.headers)
                data = head + data[behind_head:]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _refuse(self) -> None:
        """Reads no further: answers what can be answered, then 400 if there was nothing else."""
        self._refused = True
        message = "Invalid HTTP request received."
        self.logger.warning(message)
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
            # Nobody waits for its answer any more.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
            else:
                self.send_400_response(message)

"""From the bytes of a connection to requests: uvicorn's protocol, mended where clients meet it.

Two things differ. A client may offer to go on in another protocol, as Java's own does with every
request (`Upgrade: h2c`); a server may ignore that (RFC 9110, section 7.8), but the parser takes
what follows for the other protocol and loses the body. And a head has a largest size, so that no
connection can fill the memory with headers that never end.
"""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LARGEST_HEAD = 131_072
_OFFERS = frozenset({b"upgrade", b"http2-settings"})


class HttpProtocol(HttpToolsProtocol):
    """One connection: HTTP/1.1 whatever else is offered, and heads that end."""

    _in_head = True
    _head_size = 0  # bytes that came behind the piece in which the head began

    def data_received(self, data: bytes) -> None:
        """Parses what came; what is not HTTP, or a head without end, gets a bare 400."""
        self._unset_keepalive_if_required()
        self._head_size += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse()
        else:
            if self._in_head and self._head_size > _LARGEST_HEAD:
                self._refuse()

    def on_message_begin(self) -> None:
        """Notes that a head begins."""
        self._in_head = True
        self._head_size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Starts the request, unless the parser is about to give up what follows its head."""
        self._in_head = False
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Ends the request, if it was started."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

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
        message = "Invalid HTTP request received."
        self.logger.warning(message)
        self.send_400_response(message)

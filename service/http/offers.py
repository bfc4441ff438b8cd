"""From the head of a request that offers another protocol, to the same head without the offer.

A server may ignore the offer (RFC 9110, section 7.8), but the parser takes what follows for the
other protocol; from a head that offers nothing, it reads on.
"""

from collections.abc import Iterable

_OFFERS = frozenset({b"upgrade", b"http2-settings"})


def head_without_offer(method: bytes, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request, as bytes, with nothing offered.

    Args:
        method: of the request.
        url: its target, as it was sent.
        headers: all of them, names in lower case.
    """
    lines = [b"%s %s HTTP/1.1" % (method, url)]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
        if name not in _OFFERS:
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])

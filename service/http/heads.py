"""Judges heads of requests beyond what the parser does, and writes them again for it."""

import re
from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]

# Headers that offer another protocol.
_OFFERS = frozenset({b"upgrade", b"http2-settings"})
_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def find_fault(version: str, url: bytes, headers: Headers) -> str | None:
    """Finds what the parser lets through, though other servers may read it in another way.

    Sources: RFC 9112, section 3.2 (`Host`); RFC 3986, section 2.1 (escapes).

    Args:
        version: of HTTP, such as `1.1`.
        url: as the request has it.
        headers: names in lower case.

    Returns:
        What is wrong and what would be right, or None.
    """
    hosts = len([name for name, _ in headers if name == b"host"])
    if hosts != 1 and (hosts or version == "1.1"):
        return f"A request has one Host header; this one has {hosts}."
    if b"%" in url and _NO_ESCAPE.search(url):
        return "A % in the URL needs two hexadecimal digits behind it; a plain % is %25."
    return None


def without_offer(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """Writes a head again without the offer of another protocol.

    A server may ignore the offer (RFC 9110, section 7.8), but the parser stops at it. It reads on
    from a head that offers nothing.

    Args:
        method: of the request.
        url: as the request has it.
        version: of HTTP; the answer to HTTP/1.0 is of HTTP/1.0's kind.
        headers: names in lower case.
    """
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode("ascii"))]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
        if name not in _OFFERS:
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])

"""Draws requests that are wrong in many ways, as bytes for a socket.

A request depends only on its seed, so that one that does harm can be sent again.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

_WORDS = ("good", "bad", "the plot", "", " ", "a" * 4000, "\x00", "\u202egood\u202c", "\ufeff")
_PLANES = 17
_SPECIAL = (0x0, 0x7F, 0x85, 0xAD, 0x200B, 0x200D, 0x202E, 0x2066, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF)
_BROKEN = ("\\ud800", "\\udfff", "\\ud83d", "\\u0000", "\\x00", "\\")
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "P\x00ST")
_PATHS = (
    "/predict",
    "/attention",
    "/attention/steps",
    "/attributions",
    "/importance",
    "/model",
    "/metrics",
    "/health/live",
    "/health/ready",
    "/",
    "/docs",
    "/openapi.json",
    "/static/page.js",
    "/static/../app.py",
    "//predict",
    "/predict/",
    "*",
)
_MEDIA = ("application/json", "application/json; charset=utf-16", "text/plain", "application/x", "")
_VALUES = ("", "x" * 3000, "0", "1e9", "*/*;q=nan", "\u00e9", "\x01", "a,b")
_MOST_HEADERS = 12
_NAMES = ("sentence", "layer", "head", "truncation", "label", "steps", "method", "level", "x", "")
_EXPLAINING = ("/attention", "/attributions", "/importance")
_INTEGRALS = ("integrated_gradients", "gradient_x_input", "x")
# What a body has that only one route takes.
_ROUTES = {b'"sentences"': "/predict", b'"steps"': "/attributions", b'"layer"': "/attention"}
_LONGEST_QUERY = 65_536
_ENDLESS = 10**12


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes for a connection.

    Args:
        content: the bytes.
        answers: answers that are due: one for each request that is whole, or that cannot become
            right.
        goes_on: whether more bytes follow, which may be answered or not.
    """

    content: bytes
    answers: int = 1
    goes_on: bool = False


def draw_request(seed: int) -> Request:
    """Draws one request, or several at once."""
    chance = random.Random(seed)
    draw = chance.choices(_KINDS, weights=_WEIGHTS)[0]
    return draw(chance)


def _text(chance: random.Random) -> str:
    """Text of any plane, control and bidirectional characters included."""
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(_WORDS)
    if kind < 0.4:
        return "".join(chr(chance.choice(_SPECIAL)) for _ in range(chance.randint(1, 20)))
    plane = chance.randrange(_PLANES) << 16
    codes = (plane + chance.randrange(0x10000) for _ in range(chance.randint(1, 60)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def _value(chance: random.Random, depth: int = 0) -> object:
    """Any JSON value."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind == 1:
        return chance.randint(-(10**25), 10**25)
    if kind == 2:
        return chance.choice([0.5, -1e308, 1e-320, 3.0])
    if kind < 6:
        return _text(chance)
    if kind == 6:
        return {_text(chance): _value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return [_value(chance, depth + 1) for _ in range(chance.randrange(5))]


def _document(chance: random.Random) -> dict[str, object]:
    """An object that is nearly what is wanted."""
    document: dict[str, object] = {
        "sentences": [_text(chance) for _ in range(chance.choice([0, 1, 1, 2, 3, 5]))],
        "truncation": chance.choice(["right", "left", "right", "error"]),
        "on_error": chance.choice(["request", "item"]),
    }
    if chance.random() < 0.5:
        document = {"sentence": _text(chance), **_options(chance)}
    for _ in range(chance.choice([0, 0, 0, 0, 1, 2])):
        name = chance.choice([*document, _text(chance)])
        document[name] = _value(chance)
    return document


def _options(chance: random.Random) -> dict[str, object]:
    kind = chance.randrange(3)
    if kind == 0:
        layer, head = chance.choice([0, 0, 1, 1, 2]), chance.choice([0, 0, 1, 1, -1])
        return {"layer": [layer], "head": [head]}
    label = chance.choices(["negative", "positive", None, "x"], weights=[4, 4, 1, 1])[0]
    if kind == 1:
        return {"label": label}
    return {
        "label": label,
        "steps": chance.choices([1, 2, 256, 257], weights=[4, 4, 1, 1])[0],
        "method": chance.choices(_INTEGRALS, weights=[8, 1, 1])[0],
        "level": chance.choice(["token", "word"]),
    }


def _json(chance: random.Random) -> bytes:
    text = json.dumps(_document(chance), ensure_ascii=chance.random() < 0.5)
    kind = 2 * chance.random()
    if kind < 0.1:
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice(_BROKEN) + text[place:]
    elif kind < 0.15:
        text = text[: chance.randrange(len(text))]
    elif kind < 0.2:
        depth = chance.choice([10, 500, 5_000, 100_000])
        text = '{"sentences":' + "[" * depth + "]" * (depth if chance.random() < 0.5 else 0)
    elif kind < 0.25:
        text += chance.choice([" ", "{}", ",", "\x00", "[1]"])
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if chance.random() < 0.1 and content:
        for _ in range(chance.randint(1, 5)):
            content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def _head(chance: random.Random, method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *(f"{n}: {v}" for n, v in headers)]
    if chance.random() < 0.9:
        lines.append("Connection: close")
    if chance.random() < 0.2:
        for _ in range(chance.randrange(_MOST_HEADERS)):
            name = chance.choice(["X-Request-ID", "X-Request-Timeout", "Accept", "Cookie", "X-A"])
            lines.append(f"{name}: {chance.choice(_VALUES)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _with_body(chance: random.Random) -> Request:
    """A request whose body and length fit."""
    content = _json(chance)
    path = next((path for name, path in _ROUTES.items() if name in content), "/importance")
    if chance.random() < 0.1:
        path = chance.choice(_EXPLAINING)
    if chance.random() < 0.1:
        path = chance.choice(_PATHS)
    media = chance.choices(_MEDIA, weights=[12, 1, 1, 1, 1])[0]
    headers = [("Content-Type", media), ("Content-Length", str(len(content)))]
    return Request(_head(chance, "POST", path, headers) + content)


def _lying(chance: random.Random) -> Request:
    """A body that is shorter or longer than its length, or whose length is none."""
    content = _json(chance)
    longer = str(len(content) + chance.randint(1, 9))
    shorter = str(max(0, len(content) - chance.randint(1, 9)))
    length = chance.choice([longer, shorter, "-1", "+5", "0x10", "9" * 25, "", "5, 5"])
    headers = [("Content-Type", "application/json"), ("Content-Length", length)]
    if chance.random() < 0.2:
        headers.append(("Content-Length", str(len(content))))
    is_whole = length != longer or len(headers) > 2
    content = _head(chance, "POST", "/predict", headers) + content
    return Request(content, answers=int(is_whole), goes_on=True)


def _chunked(chance: random.Random) -> Request:
    """A body in pieces, whose sizes are right or not."""
    content = _json(chance)
    pieces = []
    sizes = []
    while content:
        size = chance.randint(1, max(1, len(content)))
        said = size if chance.random() < 0.9 else chance.choice([0, size + 1, _ENDLESS])
        sizes.append((said, size))
        pieces.append(b"%x\r\n%s\r\n" % (said, content[:size]))
        content = content[size:]
    end = b"0\r\n\r\n" if chance.random() < 0.8 else b""
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    if chance.random() < 0.1:
        headers.append(("Content-Length", "3"))
    # The first size that is wrong decides: the body ends, or what is behind it is no size.
    said = next((said for said, size in sizes if said != size), 0 if end else _ENDLESS)
    is_whole = said != _ENDLESS or len(headers) > 2
    content = _head(chance, "POST", "/predict", headers) + b"".join(pieces) + end
    return Request(content, answers=int(is_whole), goes_on=True)


def _query(chance: random.Random) -> Request:
    """A query string, at times one of 64 KiB."""
    parts = []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        name = chance.choices(_NAMES, weights=[20, 2, 2, 1, 1, 1, 1, 1, 1, 1])[0]
        raw = _text(chance).encode("utf-8", "surrogatepass")
        if chance.random() < 0.05:
            raw = chance.randbytes(chance.randint(1, 20))
        value = quote_from_bytes(raw) if chance.random() < 0.97 else "%zz%f"
        parts.append(f"{name}={value}" if chance.random() < 0.95 else name)
    query = "&".join(parts)
    if chance.random() < 0.02:
        query = ("sentence=" + "a+" * _LONGEST_QUERY)[:_LONGEST_QUERY]
    path = chance.choice([*_EXPLAINING, chance.choice(_PATHS)])
    return Request(_head(chance, chance.choice(["GET", "GET", "HEAD"]), f"{path}?{query}", []))


def _anything(chance: random.Random) -> Request:
    """Any method at any path; at times nothing that HTTP knows."""
    if chance.random() < 0.2:
        content = chance.randbytes(chance.randint(1, 400))
        # Empty lines are no request yet.
        return Request(content + b"\r\n\r\n", answers=int(bool(content.strip(b"\r\n"))))
    return Request(_head(chance, chance.choice(_METHODS), chance.choice(_PATHS), []))


def _pipeline(chance: random.Random) -> Request:
    """Several requests in one go."""
    kinds: list[Callable[[random.Random], Request]] = [_with_body, _query, _anything]
    requests = [chance.choice(kinds)(chance) for _ in range(chance.randint(2, 5))]
    kept = [request.content.replace(b"Connection: close\r\n", b"", 1) for request in requests[:-1]]
    return Request(
        b"".join([*kept, requests[-1].content]), answers=sum(each.answers for each in requests)
    )


_KINDS: tuple[Callable[[random.Random], Request], ...] = (
    _with_body,
    _lying,
    _chunked,
    _query,
    _anything,
    _pipeline,
)
_WEIGHTS = (8, 2, 2, 5, 2, 1)

"""Draws requests that are wrong in many ways, as bytes for a socket.

A request depends only on its seed, so that one that does harm can be sent again.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

_WORDS = ("good", "bad", "the plot", "", " ", "a" * 4000, "\x00", "\u202egood\u202c", "\ufeff")
_SPECIAL = "\x00\x7f\x85\xad\u200b\u200d\u202e\u2066\ufeff\ufffd\ufffe\uffff"
_ATOMS = (None, True, False, 0.5, -1e308, 1e-320, 3.0)
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
_NAMES = ("sentence", "layer", "head", "truncation", "label", "steps", "method", "level", "x", "")
_EXPLAINING = ("/attention", "/attributions", "/importance")
_OPTIONS: dict[str, tuple[object, ...]] = {
    "layer": ([0], [1], [2]),
    "head": ([0], [1], [-1]),
    "label": ("negative", None, "x"),
    "steps": (1, 2, 256, 257),
    "method": ("integrated_gradients", "gradient_x_input", "leave_out", "x"),
    "level": ("token", "word", "sentence"),
    "truncation": ("right", "left", "error", "window"),
    "on_error": ("request", "item"),
}
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
        return "".join(chance.choices(_SPECIAL, k=10))
    plane = chance.randrange(17) << 16
    codes = (plane + chance.randrange(0x10000) for _ in range(chance.randint(1, 60)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def _value(chance: random.Random, depth: int = 0) -> object:
    """Any JSON value."""
    kind = chance.randrange(6 if depth < 4 else 4)
    if kind == 4:
        return {_text(chance): _value(chance, depth + 1) for _ in range(chance.randrange(4))}
    if kind == 5:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return (chance.choice(_ATOMS), chance.randint(-(10**25), 10**25), _text(chance), "")[kind]


def _document(chance: random.Random) -> tuple[str, dict[str, object]]:
    """A path, and an object that is nearly what it wants."""
    path = chance.choice(["/predict", *_EXPLAINING])
    document: dict[str, object] = {"sentence": _text(chance)}
    if path == "/predict":
        document = {"sentences": [_text(chance) for _ in range(chance.choice([0, 1, 1, 2, 5]))]}
    for name in chance.sample(list(_OPTIONS), chance.choice([0, 0, 1, 2])):
        document[name] = chance.choice(_OPTIONS[name])
    if chance.random() < 0.2:
        document[chance.choice([*document, _text(chance)])] = _value(chance)
    return (path if chance.random() < 0.8 else chance.choice(_PATHS)), document


def _body(chance: random.Random) -> tuple[str, bytes]:
    """A path and a body for it: JSON, at times broken."""
    path, document = _document(chance)
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1:
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice(_BROKEN) + text[place:]
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if chance.random() < 0.1:
        content[chance.randrange(len(content))] = chance.randrange(256)
    if chance.random() < 0.05:
        del content[chance.randrange(len(content)) :]
    return path, bytes(content)


def _head(chance: random.Random, method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *(f"{n}: {v}" for n, v in headers)]
    if chance.random() < 0.9:
        lines.append("Connection: close")
    if chance.random() < 0.2:
        names = ["X-Request-ID", "X-Request-Timeout", "Accept", "Cookie", "X-A"]
        lines += [
            f"{chance.choice(names)}: {chance.choice(_VALUES)}" for _ in range(chance.randrange(12))
        ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _with_body(chance: random.Random) -> Request:
    """A request whose body and length fit."""
    path, content = _body(chance)
    media = chance.choices(_MEDIA, weights=[12, 1, 1, 1, 1])[0]
    headers = [("Content-Type", media), ("Content-Length", str(len(content)))]
    return Request(_head(chance, "POST", path, headers) + content)


def _lying(chance: random.Random) -> Request:
    """A body that is shorter or longer than its length, or whose length is none."""
    _, content = _body(chance)
    longer, shorter = str(len(content) + 5), str(max(0, len(content) - 5))
    length = chance.choice([longer, shorter, "-1", "+5", "0x10", "9" * 25, "", "5, 5"])
    headers = [("Content-Type", "application/json"), ("Content-Length", length)]
    if chance.random() < 0.2:
        headers.append(("Content-Length", str(len(content))))
    is_whole = length != longer or len(headers) > 2
    content = _head(chance, "POST", "/predict", headers) + content
    return Request(content, answers=int(is_whole), goes_on=True)


def _chunked(chance: random.Random) -> Request:
    """A body in two pieces, whose sizes are right or not."""
    _, content = _body(chance)
    middle = max(1, chance.randrange(len(content) + 1))
    pieces = [piece for piece in (content[:middle], content[middle:]) if piece]
    sizes = [
        len(each) if chance.random() < 0.9 else chance.choice([0, len(each) + 1, _ENDLESS])
        for each in pieces
    ]
    end = b"0\r\n\r\n" if chance.random() < 0.8 else b""
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    if chance.random() < 0.1:
        headers.append(("Content-Length", "3"))
    # The first size that is wrong decides: the body ends, or what is behind it is no size.
    wrong = [said for said, piece in zip(sizes, pieces, strict=True) if said != len(piece)]
    is_whole = (wrong or [0 if end else _ENDLESS])[0] != _ENDLESS or len(headers) > 2
    chunks = [b"%x\r\n%s\r\n" % chunk for chunk in zip(sizes, pieces, strict=True)]
    content = b"".join([_head(chance, "POST", "/predict", headers), *chunks, end])
    return Request(content, answers=int(is_whole), goes_on=True)


def _query(chance: random.Random) -> Request:
    """A query string, at times one of 64 KiB."""
    parts = []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        name = chance.choices(_NAMES, weights=[20, 2, 2, 1, 1, 1, 1, 1, 1, 1])[0]
        raw = _text(chance).encode("utf-8", "surrogatepass")
        if chance.random() < 0.05:
            raw = chance.randbytes(20)
        value = quote_from_bytes(raw) if chance.random() < 0.97 else "%zz%f"
        parts.append(f"{name}={value}" if chance.random() < 0.95 else name)
    query = "&".join(parts)
    if chance.random() < 0.02:
        query = ("sentence=" + "a+" * _LONGEST_QUERY)[:_LONGEST_QUERY]
    path = chance.choice(["/attention", "/attention", chance.choice(_PATHS)])
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


_KINDS = (_with_body, _lying, _chunked, _query, _anything, _pipeline)
_WEIGHTS = (8, 2, 2, 5, 2, 1)

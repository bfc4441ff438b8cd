"""Draws requests that are wrong in many ways, as bytes for a socket, and damages files.

A request depends only on its seed, so that one that does harm can be sent again.
"""

import json
import random
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

_WORDS = ("good", "bad", "the plot", "", " ", "a" * 4000, "\x00", "\u202egood\u202c", "\ufeff")
_ATOMS: tuple[object, ...] = (None, True, 0.5, -1e308, 3.0, 10**25, "", [], {"a": [1]})
_BROKEN = ("\\ud800", "\\ud83d", "\\u0000", "\\x00", "\\")
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "P\x00ST")
_EXPLAINING = ("/attention", "/attributions", "/importance")
_PATHS = (
    *("/predict", *_EXPLAINING, "/attention/steps", "/model", "/metrics", "/health/live"),
    *("/health/ready", "/", "/docs", "/openapi.json", "/static/page.js", "/static/../app.py"),
    *("//predict", "/predict/", "*"),
)
_MEDIA = ("application/json", "application/json; charset=utf-16", "text/plain", "application/x", "")
_HEADERS = ("X-Request-ID", "X-Request-Timeout", "Accept", "Cookie", "X-A")
_VALUES = ("", "x" * 3000, "0", "1e9", "*/*;q=nan", "\u00e9", "\x01", "a,b")
_FIELDS: dict[str, tuple[object, ...]] = {
    "layer": ([0], [1], [2]),
    "head": ([0], [1], [-1]),
    "label": ("negative", None, "x"),
    "steps": (1, 2, 256, 257),
    "method": ("integrated_gradients", "gradient_x_input", "leave_out", "x"),
    "level": ("token", "word", "sentence"),
    "truncation": ("right", "left", "error", "window"),
    "on_error": ("request", "item"),
}


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
    draws = (_with_body, _lying, _chunked, _query, _anything, _pipeline)
    return chance.choices(draws, weights=(8, 2, 2, 5, 2, 1))[0](chance)


def damage(content: bytes, chance: random.Random) -> bytes:
    """Content with a flipped bit, other or more bytes, or its end cut off."""
    at = chance.randrange(len(content))
    damaged = bytearray(content)
    match chance.randrange(4):
        case 0:
            del damaged[at:]
        case 1:
            damaged[at] ^= 1 << chance.randrange(8)
        case 2:
            damaged[at:at] = chance.randbytes(chance.randint(1, 9))
        case _:
            damaged[at : at + 8] = chance.randbytes(len(damaged[at : at + 8]))
    return bytes(damaged)


def _text(chance: random.Random) -> str:
    """Text of any plane, control and bidirectional characters included."""
    if chance.random() < 0.3:
        return chance.choice(_WORDS)
    plane = chance.randrange(17) << 16
    codes = (plane + chance.randrange(0x10000) for _ in range(chance.randint(1, 60)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def _body(chance: random.Random) -> tuple[str, bytes]:
    """A path and a body that is nearly what it wants, at times not even JSON."""
    path = chance.choice(["/predict", *_EXPLAINING])
    document: dict[str, object] = {"sentence": _text(chance)}
    if path == "/predict":
        document = {"sentences": [_text(chance) for _ in range(chance.choice([0, 1, 1, 2, 5]))]}
    for name in chance.sample(list(_FIELDS), chance.choice([0, 0, 1, 2])):
        document[name] = chance.choice(_FIELDS[name])
    if chance.random() < 0.2:
        document[chance.choice([*document, _text(chance)])] = chance.choice(_ATOMS)
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(_BROKEN) + text[at:]
    content = text.encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        content = damage(content, chance)
    return (path if chance.random() < 0.8 else chance.choice(_PATHS)), content


def _head(chance: random.Random, method: str, target: str, *headers: tuple[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *(f"{n}: {v}" for n, v in headers)]
    if chance.random() < 0.9:
        lines.append("Connection: close")
    if chance.random() < 0.2:
        count = chance.randrange(12)
        lines += [f"{chance.choice(_HEADERS)}: {chance.choice(_VALUES)}" for _ in range(count)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _with_body(chance: random.Random) -> Request:
    """A request whose body and length fit."""
    path, content = _body(chance)
    media = chance.choices(_MEDIA, weights=[12, 1, 1, 1, 1])[0]
    length = ("Content-Length", str(len(content)))
    return Request(_head(chance, "POST", path, ("Content-Type", media), length) + content)


_JSON = ("Content-Type", "application/json")


def _lying(chance: random.Random) -> Request:
    """A body that is shorter or longer than its length, or whose length is none."""
    _, content = _body(chance)
    longer, shorter = str(len(content) + 5), str(max(0, len(content) - 5))
    length = chance.choice([longer, shorter, "-1", "+5", "0x10", "9" * 25, "", "5, 5"])
    headers = [_JSON, ("Content-Length", length)]
    if chance.random() < 0.2:
        headers.append(("Content-Length", str(len(content))))
    is_whole = length != longer or len(headers) > 2
    content = _head(chance, "POST", "/predict", *headers) + content
    return Request(content, answers=int(is_whole), goes_on=True)


def _chunked(chance: random.Random) -> Request:
    """A body in one chunk, whose size and end are right or not."""
    _, content = _body(chance)
    size = len(content) if chance.random() < 0.8 else chance.choice([len(content) + 1, 10**12])
    end = b"0\r\n\r\n" if chance.random() < 0.8 else b""
    headers = [_JSON, ("Transfer-Encoding", "chunked")]
    if chance.random() < 0.1:
        headers.append(("Content-Length", "3"))
    # With two lengths it is wrong at once; a size that is too large waits for more.
    is_whole = len(headers) > 2 or size == len(content) + 1 or (size == len(content) and bool(end))
    chunk = b"%x\r\n%s\r\n" % (size, content)
    content = _head(chance, "POST", "/predict", *headers) + chunk + end
    return Request(content, answers=int(is_whole), goes_on=True)


def _query(chance: random.Random) -> Request:
    """A query string, at times one of 64 KiB."""
    parts = []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        name = "sentence" if chance.random() < 0.7 else chance.choice([*_FIELDS, "x", ""])
        raw = _text(chance).encode("utf-8", "surrogatepass")
        if chance.random() < 0.05:
            raw = chance.randbytes(20)
        value = quote_from_bytes(raw) if chance.random() < 0.97 else "%zz%f"
        parts.append(f"{name}={value}" if chance.random() < 0.95 else name)
    query = "&".join(parts) if chance.random() < 0.98 else "sentence=" + "a+" * 32_000
    path = chance.choice(["/attention", chance.choice(_PATHS)])
    return Request(_head(chance, chance.choice(["GET", "GET", "HEAD"]), f"{path}?{query}"))


def _anything(chance: random.Random) -> Request:
    """Any method at any path; at times nothing that HTTP knows."""
    if chance.random() < 0.2:
        content = chance.randbytes(chance.randint(1, 400))
        # Empty lines are no request yet.
        return Request(content + b"\r\n\r\n", answers=int(bool(content.strip(b"\r\n"))))
    return Request(_head(chance, chance.choice(_METHODS), chance.choice(_PATHS)))


def _pipeline(chance: random.Random) -> Request:
    """Several requests in one go."""
    draws = (_with_body, _query, _anything)
    requests = [chance.choice(draws)(chance) for _ in range(chance.randint(2, 5))]
    kept = [request.content.replace(b"Connection: close\r\n", b"", 1) for request in requests[:-1]]
    return Request(
        b"".join([*kept, requests[-1].content]), answers=sum(each.answers for each in requests)
    )

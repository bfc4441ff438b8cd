"""Reads and writes the tensors of the Open Inference Protocol, as JSON and as bytes behind it.

If bytes follow the JSON, a header of HTTP gives the length of the JSON. Bytes are little-endian and
in row-major order. An element of type BYTES is its length in four bytes, and then its content. The
lengths that a client sends are checked before they are used; what is wrong raises
InvalidRequestError.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from service.compat.base import wrong
from service.errors import Loc, MalformedJsonError, UnsupportedMediaTypeError, invalid
from service.queue.preparing import one_step
from service.routes.bodies import receive, reject_size
from service.routes.requests import RequestContext

Datatype = Literal["BYTES", "BOOL", "INT32", "FP32"]

HEADER = "Inference-Header-Content-Length"

_LENGTH = struct.Struct("<I")
_LAYOUTS = {"BOOL": "?", "INT32": "<i4", "FP32": "<f4"}
# No body has so many bytes; longer numbers are not read.
_MOST_DIGITS = 18
_MOST_UNPACKED = 1032  # bytes of one that is packed
_GZIP = 16 + zlib.MAX_WBITS  # a gzip head and end are expected


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor of an answer.

    Args:
        values: in this shape; of type BYTES, its texts in row-major order.
        binary: whether its values go as bytes behind the JSON.
        written: its values as JSON, if they are written already.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    values: NDArray[Any] | Sequence[str]
    binary: bool
    written: memoryview | None = None


async def read_content(context: RequestContext, *media_types: str) -> bytes:
    """Reads a body that may lack its Content-Type and may be compressed by gzip.

    A browser sends a body without a type for any page, without asking first. So the caller must
    have refused requests that come from other sites.

    Args:
        context: its body is not read yet. The limit holds for it as sent and as unpacked.
        media_types: the types that a body may name, without parameters.

    Raises:
        PayloadTooLargeError: the body is larger, by its declared length, by its bytes, or unpacked.
        UnsupportedMediaTypeError: it has another type, or another encoding.
        MalformedJsonError: it is not gzip though it says so.
    """
    request, max_bytes = context.request, context.state.settings.max_body_bytes
    content = await receive(request, max_bytes)
    types = request.headers.getlist("content-type")
    given = [each.partition(";")[0].strip().lower() for each in types]
    if len(given) > 1 or not set(given) <= set(media_types):
        raise UnsupportedMediaTypeError(
            f"The body must be {' or '.join(media_types)}: name its type in Content-Type, or none.",
            headers={"Accept": ", ".join(media_types)},
        )
    encodings = {each.strip().lower() for each in request.headers.getlist("content-encoding")}
    encodings -= {"", "identity"}
    if encodings and encodings != {"gzip"}:
        raise UnsupportedMediaTypeError(
            "The body is encoded (Content-Encoding): send it as it is, or compress it with gzip.",
            headers={"Accept-Encoding": "gzip"},
        )
    if not encodings:
        return content
    work = one_step(partial(unpack, content, max_bytes))
    return await context.prepare(work, [content], cost=_MOST_UNPACKED)


def unpack(content: bytes, max_bytes: int) -> bytes:
    """Unpacks one gzip member; never holds more than the limit and one byte.

    Raises:
        PayloadTooLargeError: the result would be larger.
        MalformedJsonError: the content is not complete, or something else.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        unpacked = member.decompress(content, max_bytes + 1)
    except zlib.error as error:
        raise MalformedJsonError(
            "The body is not gzip, though Content-Encoding says so."
        ) from error
    if len(unpacked) > max_bytes:
        reject_size("The body is longer than it may be once it is unpacked", max_bytes)
    if not member.eof:
        raise MalformedJsonError("The gzip body ends too early: send all of it.")
    if member.unused_data:
        raise MalformedJsonError("Something follows the gzip body: send one gzip member only.")
    return unpacked


def split_body(content: bytes, given: Sequence[str]) -> tuple[bytes, memoryview]:
    """Splits an unpacked body by its header into JSON and the bytes behind it."""
    if not given:
        return content, memoryview(b"")
    digits = given[0]
    if len(given) > 1 or not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        message = "must be the number of bytes of the JSON, given once"
    elif int(digits) > len(content):
        message = (
            f"says {int(digits)} bytes, but the body has {len(content)}: give those of its JSON"
        )
    else:
        length = int(digits)
        return content[:length], memoryview(content)[length:]
    raise invalid(("header", HEADER), message)


def cut_tensors(behind: memoryview, sizes: Sequence[int | None]) -> list[memoryview | None]:
    """Cuts the bytes behind the JSON into those of each input; they must be used up."""
    total = sum(size or 0 for size in sizes)
    if total != len(behind):
        raise wrong(
            ("inputs",),
            f"binary_data_size is {total} bytes in all, but {len(behind)} follow the JSON: give "
            "the size of every input that is sent as bytes, and the length of the JSON in "
            f"{HEADER}",
        )
    parts: list[memoryview | None] = []
    start = 0
    for size in sizes:
        parts.append(None if size is None else behind[start : start + size])
        start += size or 0
    return parts


def read_bytes(content: memoryview, shape: Sequence[int], loc: Loc) -> list[str]:
    """Reads the elements of a tensor of type BYTES; `loc` is its place in the body."""
    count, start, texts = prod(shape), 0, []
    for index in range(count):
        left = len(content) - start - _LENGTH.size
        if left < 0:
            raise wrong(loc, f"its shape means {count} elements, but its bytes hold {index}")
        (length,) = _LENGTH.unpack_from(content, start)
        if length > left:
            raise wrong(
                loc,
                f"element {index} says that it has {length} bytes, but {left} are left: write each "
                "as its length in 4 bytes, little-endian, and its content",
            )
        start += _LENGTH.size + length
        try:
            texts.append(str(content[start - length : start], "utf-8"))
        except UnicodeDecodeError as error:
            message = f"is not UTF-8: its byte {error.start} does not belong there"
            raise wrong((*loc, index), message) from error
    if start != len(content):
        left = len(content) - start
        raise wrong(loc, f"its shape means {count} elements, but {left} bytes follow them")
    return texts


def read_nested(data: object, shape: Sequence[int], loc: Loc) -> list[object]:
    """Reads the elements of a tensor from JSON: flat in row-major order, or nested as its shape."""
    message = f"must be a list of {prod(shape)} elements, or lists in lists, as its shape says"
    rows = [data]
    is_flat = isinstance(data, list) and not any(isinstance(item, list) for item in data)
    for size in [prod(shape)] if is_flat else shape:
        if not all(isinstance(row, list) and len(row) == size for row in rows):
            raise wrong(loc, message)
        rows = [item for row in rows for item in cast("list[object]", row)]
    if any(isinstance(item, list) for item in rows):
        raise wrong(loc, message)
    return rows


def write_body(
    head: Mapping[str, object], outputs: Sequence[Output]
) -> tuple[bytes, dict[str, str]]:
    """Writes an answer: the members of `head`, at least one, and then the outputs in order.

    Returns the body, and a header with the length of its JSON if other bytes follow.
    """
    # By hand, because values that are written already may be large: they are copied once.
    pieces: list[bytes | memoryview] = [orjson.dumps(head)[:-1], b',"outputs":[']
    behind: list[bytes] = []
    for number, output in enumerate(outputs):
        member: dict[str, object] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": output.shape,
        }
        if output.binary:
            content = _to_bytes(output)
            behind.append(content)
            data: bytes | memoryview = orjson.dumps({"binary_data_size": len(content)})
        else:
            data = _to_json(output)
        name = b',"parameters":' if output.binary else b',"data":'
        pieces += [b"," * (number > 0), orjson.dumps(member)[:-1], name, data, b"}"]
    pieces.append(b"]}")
    length = sum(len(piece) for piece in pieces)
    return b"".join([*pieces, *behind]), {HEADER: str(length)} if behind else {}


def _to_bytes(output: Output) -> bytes:
    if isinstance(output.values, np.ndarray):
        return output.values.astype(_LAYOUTS[output.datatype], copy=False).tobytes()
    parts: list[bytes] = []
    for text in output.values:
        content = text.encode("utf-8")
        parts += [_LENGTH.pack(len(content)), content]
    return b"".join(parts)


def _to_json(output: Output) -> bytes | memoryview:
    if output.written is not None:
        return output.written
    if isinstance(output.values, np.ndarray):
        flat = np.ascontiguousarray(output.values).reshape(-1)
        return orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps(output.values)

"""Reads bodies of clients that name no media type, or send them compressed."""

import asyncio
import zlib

from starlette.requests import Request

from service.api.input import receive, refuse_size
from service.errors import MalformedJsonError, UnsupportedMediaTypeError

_GZIP = 16 + zlib.MAX_WBITS  # a gzip head and end are expected


async def read_content(request: Request, max_bytes: int, *media_types: str) -> bytes:
    """Reads a body that may lack its Content-Type and may be compressed by gzip.

    Whoever calls this has refused requests that a page from elsewhere makes a browser send: a
    browser asks nobody before it sends a body without a type.

    Args:
        request: its body is not read yet.
        max_bytes: the largest body, as it is sent and unpacked.
        media_types: those that a body may name, without parameters.

    Returns:
        The body, unpacked.

    Raises:
        PayloadTooLargeError: the body is larger, by its declared length, by its bytes, or unpacked.
        UnsupportedMediaTypeError: it is of another type, or encoded in another way.
        MalformedJsonError: it is not what gzip writes.
    """
    content = await receive(request, max_bytes)
    named = [_essence(each) for each in request.headers.getlist("content-type")]
    if len(named) > 1 or not set(named) <= set(media_types):
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
    return await asyncio.to_thread(unpack, content, max_bytes)


def unpack(content: bytes, max_bytes: int) -> bytes:
    """Unpacks what gzip wrote; never holds more than the limit and one byte.

    Args:
        content: one member of gzip, as every client sends.
        max_bytes: the largest result.

    Raises:
        PayloadTooLargeError: the result would be larger.
        MalformedJsonError: the content is not complete, or something else.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        unpacked = member.decompress(content, max_bytes + 1)
    except zlib.error as error:
        raise MalformedJsonError(
            "The body is not what gzip writes, though Content-Encoding says so."
        ) from error
    if len(unpacked) > max_bytes:
        refuse_size("The body is longer than it may be once it is unpacked", max_bytes)
    if not member.eof:
        raise MalformedJsonError("The body ends before what gzip wrote does.")
    if member.unused_data:
        raise MalformedJsonError("Something follows what gzip wrote: send it alone.")
    return unpacked


def _essence(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()

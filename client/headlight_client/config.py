"""Checks the arguments of a client, and whole numbers of any call, numpy's included."""

import operator
import random
import time
from collections.abc import Callable, Iterable
from typing import SupportsIndex

import httpx

from headlight_client.version import __version__

Indices = Iterable[SupportsIndex]

_LONGEST_TIMEOUT = 999_999_999.0  # the most that `X-Request-Timeout` can hold


class ClientConfig:
    """The configuration of one client; no error's message holds the key."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        timeout: float,
        retries: int,
        now: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if not 0 < timeout <= _LONGEST_TIMEOUT:
            raise ValueError(
                f"timeout must be a number of seconds above 0 and below 1e9, got {timeout}"
            )
        self.timeout = timeout  # seconds, all attempts and pauses of a call included
        self.retries = one_index("retries", retries)
        if self.retries < 0:
            raise ValueError(f"retries must be 0 or more, got {retries}")
        self.headers = httpx.Headers({"User-Agent": f"headlight-client/{__version__}"})
        if api_key is not None:
            # Any other character would end the header, or fail with a message that holds the key.
            is_plain = api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key
            if not (is_plain and api_key):
                raise ValueError("api_key must be printable ASCII without spaces around it")
            self.headers["Authorization"] = f"Bearer {api_key}"
        self.address = _address(base_url)  # without a slash at its end
        self.now, self.draw = now, draw  # draws from 0 to 1


def _address(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not a URL: {error}") from error
    if url.userinfo:
        raise ValueError("base_url holds a user or a password: give the key as api_key instead")
    # An empty query counts too: the path of a route would become part of it.
    if url.scheme not in ("http", "https") or not url.host or {"?", "#"} & set(str(url)):
        raise ValueError(
            "base_url must be like http://127.0.0.1:8000, without query and fragment, "
            f"got {base_url!r}"
        )
    return str(url).rstrip("/")


def one_index(name: str, number: SupportsIndex) -> int:
    """Converts a whole number to an int, which JSON can hold, without rounding."""
    try:
        return operator.index(number)
    except TypeError as error:
        raise TypeError(f"{name} takes whole numbers, got {number!r}: give an int") from error


def several_indices(name: str, numbers: Indices) -> list[int]:
    """Converts whole numbers to ints; a single number is refused."""
    try:
        each = list(numbers)
    except TypeError as error:
        raise TypeError(f"{name} takes a list of whole numbers, got {numbers!r}") from error
    return [one_index(name, number) for number in each]

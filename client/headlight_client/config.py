"""Checks the arguments of a client once, for every call to share."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import httpx

from headlight_client.indices import one_index
from headlight_client.version import __version__

_LONGEST_TIMEOUT = 999_999_999.0  # the most that `X-Request-Timeout` can hold


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The configuration of one client; the address has no slash at its end."""

    address: str
    headers: Mapping[str, str] = field(repr=False)  # they hold the key
    timeout: float  # seconds, all attempts and pauses of a call included
    retries: int
    now: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random  # from 0 to 1
    new_id: Callable[[], str] = lambda: uuid4().hex


def make_config(
    base_url: str, *, api_key: str | None, timeout: float, retries: int
) -> ClientConfig:
    """Checks the arguments of a client.

    Raises:
        TypeError: `retries` is not a whole number.
        ValueError: an argument is not valid; the message does not hold the key.
    """
    if not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError(
            f"timeout must be a number of seconds above 0 and below 1e9, got {timeout}"
        )
    most = one_index("retries", retries)
    if most < 0:
        raise ValueError(f"retries must be 0 or more, got {retries}")
    headers = {"User-Agent": f"headlight-client/{__version__}"}
    if api_key is not None:
        # Any other character would end the header, or fail with a message that holds the key.
        if not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != ""):
            raise ValueError("api_key must be printable ASCII without spaces around it")
        headers["Authorization"] = f"Bearer {api_key}"
    return ClientConfig(_address(base_url), headers, timeout, most)


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

"""From what a client is made with to how it asks: checked once, shared by every call."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from headlight_client.version import __version__

_LONGEST_TIMEOUT = 999_999_999.0  # what `X-Request-Timeout` can hold


@dataclass(frozen=True, slots=True)
class Manner:
    """How one client asks.

    Args:
        address: of the service, without a slash at the end.
        headers: of every request.
        timeout: of a call with all of its attempts and pauses, in seconds.
        retries: the most attempts after the first.
        now: a clock in seconds that never goes back.
        draw: a random number from 0 to 1.
    """

    address: str
    headers: Mapping[str, str]
    timeout: float
    retries: int
    now: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


def make_manner(base_url: str, *, api_key: str | None, timeout: float, retries: int) -> Manner:
    """Checks what a client is made with.

    Args:
        base_url: of the service, with a path if it is not at the root.
        api_key: sent with every request.
        timeout: of a call, in seconds.
        retries: the most attempts after the first.

    Raises:
        ValueError: one of them cannot be; the message does not hold the key.
    """
    if not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError(
            f"timeout must be a number of seconds above 0 and below 1e9, got {timeout}"
        )
    if retries < 0:
        raise ValueError(f"retries must be 0 or more, got {retries}")
    headers = {"User-Agent": f"headlight-client/{__version__}"}
    if api_key is not None:
        # Anything else would end the header, or fail with a message that holds the key.
        if not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != ""):
            raise ValueError("api_key must be printable ASCII without spaces around it")
        headers["Authorization"] = f"Bearer {api_key}"
    return Manner(_address(base_url), headers, timeout, retries)


def _address(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not a URL: {error}") from error
    if url.userinfo:
        raise ValueError("base_url holds a user or a password: give the key as api_key instead")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError(
            "base_url must be like http://127.0.0.1:8000, without query and fragment, "
            f"got {base_url!r}"
        )
    return str(url).rstrip("/")

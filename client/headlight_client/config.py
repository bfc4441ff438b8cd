"""From what a client is made with to how it asks: checked once, shared by every call."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import httpx

from headlight_client.indices import one_index
from headlight_client.version import __version__

_LONGEST_TIMEOUT = 999_999_999.0  # what `X-Request-Timeout` can hold


def _new_id() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How one client asks.

    Args:
        address: of the service, without a slash at the end.
        headers: of every request; no part of `repr`, because they hold the key.
        timeout: of a call with all of its attempts and pauses, in seconds.
        retries: the most attempts after the first.
        now: a clock in seconds that never goes back.
        draw: a random number from 0 to 1.
        new_id: a name for a call that no other call has.
    """

    address: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    retries: int
    now: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    new_id: Callable[[], str] = _new_id


def make_config(
    base_url: str, *, api_key: str | None, timeout: float, retries: int
) -> ClientConfig:
    """Checks what a client is made with.

    Args:
        base_url: of the service, with a path if it is not at the root.
        api_key: sent with every request.
        timeout: of a call, in seconds.
        retries: the most attempts after the first.

    Raises:
        TypeError: `retries` is no whole number.
        ValueError: one of them cannot be; the message does not hold the key.
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
        # Anything else would end the header, or fail with a message that holds the key.
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
    # An empty query is one too: the path of a route would land in it.
    if url.scheme not in ("http", "https") or not url.host or {"?", "#"} & set(str(url)):
        raise ValueError(
            "base_url must be like http://127.0.0.1:8000, without query and fragment, "
            f"got {base_url!r}"
        )
    return str(url).rstrip("/")

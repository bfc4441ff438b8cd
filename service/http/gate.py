"""Refuses requests by their heads, before they are read: by room and memory.

One thread reads all requests and sends all answers. In a flood it would spend its time on those
that it refuses. So `Gate` refuses without a line in the log.
Sources for memory: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware

from model.backends.threads import group_folders
from service.errors import OverloadedError, Refusal
from service.http.access import ApiKeys, client_of
from service.http.middleware import (
    REQUEST_ID,
    RESPONSE_HEADERS,
    Headers,
    Lifecycle,
    request_id,
)
from service.metrics import UNMATCHED, Metrics

# Headers of bodies whose length says nothing of what they hold.
_OF_UNKNOWN_SIZE = frozenset({b"transfer-encoding", b"content-encoding"})

# Above the first, requests with large answers or bodies are refused; above the second, all that
# compute. Health is always answered.
LARGE_SHARE = 0.90
ANY_SHARE = 0.95
# Bodies up to this size are small.
_SMALL_BODY = 65_536

_SAMPLE_SECONDS = 0.25
_RETRY_SECONDS = 2.0
# Of versions 2 and 1: the limit, the usage, and what of it the kernel can drop.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
# Version 1 has a number like this for "no limit".
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group; what it uses includes files that the kernel can drop (`cache`)."""

    limit: int
    usage: Path
    statistics: Path
    cache: str

    def share(self) -> float:
        """Returns the part of the limit that is in use; 0 if the files are gone."""
        try:
            used = int(self.usage.read_text("ascii"))
            words = self.statistics.read_text("ascii").split()
            cache = int(words[words.index(self.cache) + 1])
        except (OSError, ValueError, IndexError):
            return 0.0
        return (used - cache) / self.limit


class MemoryWatch:
    """Refuses requests while the memory is nearly full; without a limit it refuses none."""

    def __init__(
        self,
        *,
        root: Path | None = None,
        own: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folders = group_folders("memory", root=root, own=own)
        self._groups = [group for folder in folders for group in _groups_in(folder)]
        self._clock = clock
        self._next = clock()
        self._share = 0.0

    @property
    def share(self) -> float:
        """The part of the memory in use, from 0 to 1, at most a quarter of a second old."""
        if self._groups and self._clock() >= self._next:
            self._next = self._clock() + _SAMPLE_SECONDS
            self._share = max(group.share() for group in self._groups)
        return self._share

    def check(self, most: float) -> None:
        """Raises OverloadedError if a larger share of the memory than `most` is in use."""
        if self.share <= most:
            return
        kind = "no request that computes" if most >= ANY_SHARE else "no large request"
        raise OverloadedError(
            f"{self._share:.0%} of the memory is in use, and above {most:.0%} the service takes "
            f"{kind}: try again later, or ask another replica.",
            refusal=Refusal.MEMORY,
            retry_after=_RETRY_SECONDS,
        )


def _groups_in(folder: Path) -> Iterator[_Group]:
    for limit, usage, cache in _FILES:
        try:
            most = int((folder / limit).read_text("ascii"))
        except (OSError, ValueError):  # there is no such group, or its limit is "max"
            continue
        if 0 < most < _NO_LIMIT:
            yield _Group(most, folder / usage, folder / "memory.stat", cache)


class Gate:
    """Refuses requests that would wait for the network.

    Args:
        check_room: raises OverloadedError if a client's request to a route, with so many seconds in
            all, would be refused once it is read.
        lifecycle: while the process drains, the gate stays open, because its answers cannot say so.
        metrics: counts the refusals.
        memory: if it is nearly full, large bodies are refused before other requests.
        api_keys: the valid keys, which identify clients.
        routes: methods and paths that wait for the network, each with the path of its route.
        with_error: those whose problems repeat their detail as `error`.
        seconds: time limit of a request.
        cors: lets other origins read the answers; None if no origin is allowed.
    """

    def __init__(
        self,
        check_room: Callable[[Hashable, str, float], None],
        lifecycle: Lifecycle,
        metrics: Metrics,
        memory: MemoryWatch,
        *,
        api_keys: ApiKeys,
        routes: Mapping[tuple[str, str], str],
        with_error: Collection[tuple[str, str]] = (),
        seconds: float,
        cors: CORSMiddleware | None = None,
    ) -> None:
        self._check_room = check_room
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._memory = memory
        self._api_keys = api_keys
        self._seconds = seconds
        self._cors = cors
        self._routes = {
            (method.encode("ascii"), path.encode("ascii")): route
            for (method, path), route in routes.items()
        }
        self._with_error = {
            (each[0].encode("ascii"), each[1].encode("ascii")) for each in with_error
        }

    def reject(
        self,
        method: bytes,
        path: bytes,
        headers: Headers,
        *,
        peer: tuple[str, int] | None = None,
        closes: bool = False,
    ) -> bytes | None:
        """Returns the whole answer if the request is refused; None if it may come in.

        Args:
            method: HTTP method.
            path: path without query.
            headers: names in lower case.
            peer: address and port of the client.
            closes: whether the connection closes after the answer, which then says so.
        """
        route = self._routes.get((method, path))
        if route is None or self._lifecycle.draining:
            return None
        try:
            if self._memory.share > LARGE_SHARE:
                self._memory.check(LARGE_SHARE if _has_large_body(headers) else ANY_SHARE)
            self._check_room(client_of(self._api_keys, peer, headers), route, self._seconds)
        except OverloadedError as error:
            return self.answer(error, (method, path), headers, closes=closes, route=route)
        return None

    def answer(
        self,
        error: OverloadedError,
        target: tuple[bytes, bytes],
        headers: Headers,
        *,
        closes: bool,
        route: str = UNMATCHED,
    ) -> bytes:
        """Counts a refused request of a method and path, and returns the whole answer."""
        method = UNMATCHED if route == UNMATCHED else target[0].decode("ascii")
        self._metrics.requests.labels(route, method, str(error.status)).inc()
        repeats = target in self._with_error
        self._metrics.count_problem(error)
        head, content = _write(error, repeats)
        own = [(REQUEST_ID.lower().encode("ascii"), request_id(headers).encode("ascii"))]
        if self._cors is not None:
            own += cors_headers(self._cors, headers)
        if closes:
            own.append((b"connection", b"close"))
        lines = [b"%s: %s" % header for header in own]
        return b"\r\n".join([head, *lines, b"", content])


def _has_large_body(headers: Headers) -> bool:
    """Whether a body is large, or does not say how large it is; unpacked, it may be larger."""
    for name, value in headers:
        if name in _OF_UNKNOWN_SIZE or (name == b"content-length" and int(value) > _SMALL_BODY):
            return True
    return False


@lru_cache(4)  # the error is the same for all requests that are refused within a moment
def _write(error: OverloadedError, repeats: bool) -> tuple[bytes, bytes]:
    """Returns the part of an answer's head that all requests share, and the body."""
    response = error.response(with_error=repeats)
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *RESPONSE_HEADERS)]
    return b"\r\n".join(lines), bytes(response.body)


def cors_headers(cors: CORSMiddleware, headers: Headers) -> list[tuple[bytes, bytes]]:
    """Returns CORS headers for an answer that does not pass through the middleware."""
    origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), None)
    added = MutableHeaders()
    if origin is not None and cors.is_allowed_origin(origin):
        added.update(cors.simple_headers)
        if not cors.allow_all_origins:
            cors.allow_explicit_origin(added, origin)
    return added.raw

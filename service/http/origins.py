"""From the page that a request comes from to what its answer says about reading it (CORS)."""

from collections.abc import Iterable, Sequence

_ALLOWED = b"access-control-allow-origin"


class Origins:
    """Says in an answer that a page from elsewhere may read it.

    For answers that are given outside of the framework's own middleware for this, errors above
    all: without the headers a page would see a broken connection instead of them.

    Args:
        origins: as `read_origins` gives them.
        exposed: headers of answers that pages may read.
    """

    def __init__(self, origins: Sequence[str], *, exposed: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._exposed = (b"access-control-expose-headers", ", ".join(exposed).encode("ascii"))

    def headers(self, given: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """What an answer has beside its own headers; nothing for a page that may not read it.

        Args:
            given: headers of the request, names in lower case.
        """
        origin = next((value for name, value in given if name == b"origin"), None)
        if origin is None:
            return ()
        if b"*" in self._origins:
            return (_ALLOWED, b"*"), self._exposed
        if origin in self._origins:
            return (_ALLOWED, origin), (b"vary", b"Origin"), self._exposed
        return ()

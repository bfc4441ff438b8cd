"""Makes something large when it is needed, and drops it some seconds after its last use."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from model.cli.process import return_memory

Made = TypeVar("Made")
_LINGER_SECONDS = 10.0  # an attribution runs many passes, and a client often asks for several


class OnDemand(Generic[Made]):
    """Something that several threads may use at once, and that is there only while they do.

    It stays for `linger_seconds` after its last use; None: as long as this object.
    """

    def __init__(
        self, make: Callable[[], Made], *, linger_seconds: float | None = _LINGER_SECONDS
    ) -> None:
        self._make = make
        self._linger_seconds = linger_seconds
        self._lock = threading.Lock()
        self._made: Made | None = None
        self._users = 0
        self._timer: threading.Timer | None = None

    @contextmanager
    def use(self) -> Iterator[Made]:
        """Lends it for the duration of the block."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._made is None:
                self._made = self._make()
            made = self._made
            self._users += 1
        try:
            yield made
        finally:
            del made
            with self._lock:
                self._users -= 1
                if not self._users and self._linger_seconds is not None:
                    self._timer = threading.Timer(self._linger_seconds, self._drop)
                    self._timer.daemon = True
                    self._timer.start()

    def _drop(self) -> None:
        with self._lock:
            # The timer may be cancelled too late.
            if self._users or threading.current_thread() is not self._timer:
                return
            self._timer = self._made = None
        return_memory()

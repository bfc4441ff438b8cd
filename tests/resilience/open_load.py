"""Sends requests at a rate, whether or not they are answered, and counts what came back."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

_PATIENCE = 60.0


class Load:
    """Sends requests at a rate that may change, whether or not they are answered.

    Args:
        url: where to.
    """

    def __init__(self, url: str) -> None:
        self.rate = 0.0
        self.statuses: dict[str, int] = {}
        self.answers: list[tuple[float, float]] = []
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        """Begins."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the last answers."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        limits = httpx.Limits(max_connections=200)
        with (
            httpx.Client(timeout=_PATIENCE, limits=limits) as client,
            ThreadPoolExecutor(100) as pool,
        ):
            due = time.monotonic()
            while not self._stop.is_set():
                if self.rate <= 0:
                    due = time.monotonic()
                    self._stop.wait(0.05)
                    continue
                due += 1 / self.rate
                self._stop.wait(max(0.0, due - time.monotonic()))
                pool.submit(self._ask, client)

    def _ask(self, client: httpx.Client) -> None:
        began = time.monotonic()
        try:
            status = str(client.post(self._url, json={"sentences": ["a warm film"]}).status_code)
        except httpx.HTTPError as error:
            status = repr(error)
        with self._lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            self.answers.append((began, time.monotonic() - began))

    @property
    def lost(self) -> dict[str, int]:
        """What was not answered with 200."""
        with self._lock:
            return {status: count for status, count in self.statuses.items() if status != "200"}

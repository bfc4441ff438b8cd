"""Shows how many sentences are answered: by tqdm if it is installed, else by lines."""

import sys
from typing import Any, Self

_STEPS = 10  # lines of one call, at most, and the last one


class Progress:
    """Shows the progress of one call on standard error; used in a `with` block."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = total
        self._done = 0
        self._shown_step = 0
        self._bar: Any = _bar(total) if shown else None
        self._in_lines = shown and self._bar is None

    def update(self, done: int) -> None:
        """Shows how many sentences are answered by now."""
        if self._bar is not None:
            self._bar.update(done - self._done)
        self._done = done
        step = done * _STEPS // max(self._total, 1)
        if self._in_lines and step > self._shown_step:
            self._shown_step = step
            sys.stderr.write(f"headlight: {done} of {self._total} sentences\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(total: int) -> Any:  # noqa: ANN401 - tqdm may be missing
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit=" sentences")

"""Makes the disk fail in the midst of a file, for processes that score.

A process that finds `sitecustomize.py` of `prepare` on its path reads inputs as before, until a
file says which bytes of which inputs cannot be read.
"""

import errno
import io
import os
from pathlib import Path

_VARIABLE = "UNREADABLE"


def prepare(folder: Path) -> tuple[dict[str, str], Path]:
    """Writes what Python imports first.

    Args:
        folder: for two files.

    Returns:
        Variables for the environment of a process, and the file that makes reads fail: a line
        holds the name of an input, and the first byte that is read and one past the last.
    """
    program = "from tests.scoring.read_errors import install\n\ninstall()\n"
    (folder / "sitecustomize.py").write_text(program, encoding="utf-8")
    place = folder / "unreadable"
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return {"PYTHONPATH": paths, _VARIABLE: str(place)}, place


def install() -> None:
    """Lets this process read inputs by files that can fail."""
    from scoring import stores

    place = Path(os.environ[_VARIABLE])
    setattr(stores.LocalStore, "open", lambda _, path: _Failing(path, place))  # noqa: B010


class _Failing(io.BufferedReader):
    """A file that a bad disk holds.

    Args:
        path: of the file.
        place: of the file that says what cannot be read.
    """

    def __init__(self, path: str, place: Path) -> None:
        super().__init__(io.FileIO(path))
        self._path = path
        self._place = place

    def read(self, size: int | None = -1) -> bytes:
        try:
            lines = self._place.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            name, first, end = line.rsplit(" ", 2)
            if name == Path(self._path).name and int(first) <= self.tell() < int(end):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)

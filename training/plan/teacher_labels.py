"""What a teacher said of texts, kept on disk: asking is most of what a stage with a teacher costs.

Legend: N texts, C classes.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from model.files import write_whole

_KEYS, _VALUES, _TEACHER = "keys", "probabilities", "teacher"


class TeacherLabels:
    """Probabilities by text, of one teacher. Texts themselves are not written.

    Args:
        path: of the file; None: nothing is kept.
        teacher: fingerprint of the teacher; what a file holds of another is passed over.
    """

    def __init__(self, path: Path | None, teacher: str) -> None:
        self._path = path
        self._teacher = teacher
        self._known: dict[int, NDArray[np.float32]] = {}
        if path is not None and path.is_file():
            self._read(path)

    def __contains__(self, text: str) -> bool:
        return _key(text) in self._known

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What is known of texts.

        Args:
            texts: N of them.

        Returns:
            [N, C].

        Raises:
            KeyError: nothing is known of one.
        """
        return np.stack([self._known[_key(text)] for text in texts])

    def add(self, texts: Sequence[str], probabilities: NDArray[np.float32]) -> None:
        """Remembers, on disk too.

        Args:
            texts: N of them.
            probabilities: [N, C].
        """
        self._known.update(zip(map(_key, texts), probabilities, strict=True))
        if self._path is None:
            return
        content: dict[str, NDArray[np.generic]] = {
            _KEYS: np.fromiter(self._known, np.int64, len(self._known)),
            _VALUES: np.stack(list(self._known.values())),
        }
        write_whole(self._path, safetensors.numpy.save(content, {_TEACHER: self._teacher}))

    def _read(self, path: Path) -> None:
        try:
            with safe_open(path, "numpy") as file:
                if (file.metadata() or {}).get(_TEACHER) != self._teacher:
                    return
                keys, values = file.get_tensor(_KEYS), file.get_tensor(_VALUES)
        except SafetensorError:
            return  # a damaged file: the teacher is asked again
        self._known.update(zip(keys.tolist(), values, strict=True))


def _key(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)

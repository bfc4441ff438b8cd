"""API keys: from two settings to a check that tells right from wrong in constant time."""

import hashlib
import hmac
from pathlib import Path

from service.settings import PREFIX, Settings, SettingsError

_VISIBLE = frozenset(chr(code) for code in range(0x21, 0x7F)) - {","}


class ApiKeys:
    """The keys that let a request in; holds digests only.

    Args:
        keys: each of visible ASCII characters without commas.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in sorted(keys)]

    def __bool__(self) -> bool:
        """Whether any key is set; none means that everybody may come in."""
        return bool(self._digests)

    def admits(self, authorization: bytes | None) -> bool:
        """Whether a request may come in.

        Args:
            authorization: value of the header, `Bearer KEY`; None if it was not sent.
        """
        if not self._digests:
            return True
        scheme, _, key = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(key.strip(b" ")).digest()
        # Every key is compared, so that the time does not tell which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches) and scheme.lower() == b"bearer"


def load_api_keys(settings: Settings) -> ApiKeys:
    """Reads the keys of both settings.

    Args:
        settings: their `api_keys` and `api_keys_file`.

    Raises:
        SettingsError: the file cannot be read, a source holds no key, or a key holds a character
            that cannot be sent. No key is shown.
    """
    keys: set[str] = set()
    faults: list[str] = []
    if settings.api_keys is not None:
        given = settings.api_keys.get_secret_value().split(",")
        _take(given, f"{PREFIX}API_KEYS", keys, faults)
    if settings.api_keys_file is not None:
        name = f"{PREFIX}API_KEYS_FILE"
        try:
            lines = _read_lines(settings.api_keys_file)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            faults.append(f"{name}: cannot read {settings.api_keys_file}: {reason}")
        else:
            _take(lines, name, keys, faults)
    if faults:
        raise SettingsError(faults)
    return ApiKeys(frozenset(keys))


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _take(given: list[str], name: str, keys: set[str], faults: list[str]) -> None:
    found = [key.strip() for key in given if key.strip()]
    if not found:
        faults.append(f"{name}: is set but holds no key; unset it to let everybody in")
    for number, key in enumerate(found, start=1):
        if set(key) <= _VISIBLE:
            keys.add(key)
        else:
            faults.append(
                f"{name}: key number {number} holds a character that is not visible ASCII, "
                "or a comma"
            )

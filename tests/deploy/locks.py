"""What requirements/*.lock pin, and for which machines."""

import re
from pathlib import Path

from packaging.markers import Marker, default_environment

FOLDER = Path(__file__).parents[2] / "requirements"
NAMES = ("serve", "torch-cpu", "torch-cuda", "hub", "otel", "sbom", "signing")
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\\n]+?))? \\\n"
    r"(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n)"
)
_LINUX = {
    **{name: str(value) for name, value in default_environment().items()},
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
}


def canonical(name: str) -> str:
    """A name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(name: str) -> list[re.Match[str]]:
    """The entries of a lock; asserts that there is nothing else in it but its first line."""
    head, _, rest = (FOLDER / f"{name}.lock").read_text(encoding="utf-8").partition("\n")
    assert head.startswith("# Made by `make lock`")
    found = list(_ENTRY.finditer(rest))
    assert "".join(match[0] for match in found) == rest
    return found


def pins(*names: str) -> dict[str, str]:
    """The versions that some locks install on Linux with Python 3.11."""
    return {
        canonical(entry["name"]): entry["version"]
        for name in names
        for entry in entries(name)
        if entry["marker"] is None or Marker(entry["marker"]).evaluate(_LINUX)
    }

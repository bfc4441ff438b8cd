"""Services for the clients of other systems, and what packages of others these are."""

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.commands import finish, give_up
from tests.end_to_end.servers import ROOT, client_of, shared

JAVASCRIPT = Path(__file__).parent / "javascript"
GENERATORS = Path(__file__).parent / "generators"
_INSTALLED = ROOT / "build" / "interop"
_NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
_PIP = ("bin/python", "-m", "pip", "install", "--quiet", "--requirement", "requirements.txt")


running = shared("--max-sentences", "8", scope="session")
plain = client_of("running")  # asks it without a client of another system


@pytest.fixture(scope="session")
def node() -> tuple[str, Path]:
    """Node, and a folder in which it finds the packages of `package-lock.json`."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        give_up(f"{' and '.join(missing)} not installed: apt-get install nodejs npm")
    files = [JAVASCRIPT / name for name in ("package.json", "package-lock.json")]
    return shutil.which("node") or "", _install(files, _NPM)


@pytest.fixture(scope="session")
def generators() -> Path:
    """The programs of an environment with the generator in Python."""
    environment = (sys.executable, "-m", "venv", ".")
    return _install([GENERATORS / "requirements.txt"], environment, _PIP) / "bin"


def _install(files: Sequence[Path], *commands: Sequence[str]) -> Path:
    """A folder with these files in which these commands ran once."""
    contents = [sys.version.encode(), *(file.read_bytes() for file in files)]
    digest = hashlib.sha256(b"".join(contents))
    folder = _INSTALLED / digest.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    # Several processes share the tests; the first one installs.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for file in files:
                shutil.copy(file, folder)
            for command in commands:
                ran = finish(*command, folder=folder)
                if ran.returncode != 0:
                    give_up(f"{' '.join(command)} could not install packages: {ran.stderr}")
            done.touch()
    return folder

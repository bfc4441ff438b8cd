"""Services for the clients of other systems, and the packages of those in JavaScript."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.servers import ROOT, RunningService, local_service

JAVASCRIPT = Path(__file__).parent / "javascript"
_INSTALLED = ROOT / "build" / "interop"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


@pytest.fixture(scope="session")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service with small limits."""
    folder = tmp_path_factory.mktemp("interop")
    with local_service(checkpoint_folder, folder, "--max-sentences", "8") as server:
        yield server


@pytest.fixture(scope="session")
def node() -> tuple[str, Path]:
    """Node, and a folder in which it finds the packages of `package-lock.json`."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        _give_up(f"{' and '.join(missing)} not installed: apt-get install nodejs npm")
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((JAVASCRIPT / name).read_bytes() for name in names))
    folder = _INSTALLED / digest.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    # Several processes share the tests; the first one installs.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for name in names:
                shutil.copy(JAVASCRIPT / name, folder)
            npm = subprocess.run(_INSTALL, cwd=folder, capture_output=True, text=True, check=False)
            if npm.returncode != 0:
                _give_up(f"npm could not install the packages: {npm.stderr}")
            done.touch()
    return shutil.which("node") or "", folder


def _give_up(reason: str) -> None:
    (pytest.fail if "CI" in os.environ else pytest.skip)(reason)

"""The wheel of the client, as a release builds it, in an environment of its own."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import httpx
import pytest

from tests.client.test_package import FOLDER
from tests.end_to_end.servers import RunningService

PROGRAM = """
import asyncio, sys
import headlight_client
from headlight_client import AsyncClient, Client

assert headlight_client.__file__.startswith(sys.prefix), headlight_client.__file__
texts = ["A warm film.", "A dull one."] * 4
with Client(sys.argv[1], api_key="the-key") as client:
    labels = [each.label for each in client.predict(texts)]
    print(client.attention("good").weights.dtype)


async def ask():
    async with AsyncClient(sys.argv[1], api_key="the-key") as client:
        return [each.label for each in await client.predict(texts)]


assert asyncio.run(ask()) == labels
print(len(labels), headlight_client.__version__)
"""


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel, and beside it only what the wheel needs."""
    folder = tmp_path_factory.mktemp("wheel")
    # A build leaves files in the folder that it builds.
    source = Path(shutil.copytree(FOLDER, folder / "client"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("headlight_client-*-py3-none-any.whl")
    home = folder / "venv"
    venv.create(home, with_pip=False)
    interpreter = home / "bin" / "python"
    run(*pip, "--python", interpreter, "install", "--no-deps", "--no-index", wheel)
    # httpx and numpy come from this environment, as another folder on the path. A line in a file
    # of paths adds that folder alone, so the project itself, installed as editable, is not found.
    installed = Path(httpx.__file__).parents[1]
    (packages,) = (home / "lib").glob("python*/site-packages")
    (packages / "needed.pth").write_text(f"{installed}\n", encoding="utf-8")
    return interpreter


def test_it_has_every_module_and_its_types(python: Path) -> None:
    (package,) = python.parents[1].glob("lib/python*/site-packages/headlight_client")
    found = {path.name for path in package.iterdir() if path.is_file()}
    assert found == {
        path.name for path in (FOLDER / "headlight_client").iterdir() if path.is_file()
    }
    assert "py.typed" in found
    assert not list((FOLDER / "build").glob("*"))


def test_it_asks_a_real_service(python: Path, running: RunningService, tmp_path: Path) -> None:
    program = tmp_path / "ask.py"
    program.write_text(PROGRAM, encoding="utf-8")
    version = (FOLDER / "headlight_client" / "version.py").read_text(encoding="utf-8")
    dtype, count, told = run(python, "-I", "-W", "error", program, running.url).split()
    assert (dtype, count) == ("float32", "8")
    assert f'__version__ = "{told}"' in version

"""The client as a distribution of its own: what it needs, and that nothing else takes it in."""

import fnmatch
import inspect
import shutil
import sys
import tomllib
import venv
from pathlib import Path

import httpx
import pytest

from headlight_client import AsyncClient, Attributions, Client
from tests.commands import ROOT, printed

FOLDER = ROOT / "client"
PROGRAM = """
import sys
import headlight_client

assert headlight_client.__file__.startswith(sys.prefix), headlight_client.__file__
print(headlight_client.__version__, *{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_methods_show_the_signature_that_they_have(client: type[Client | AsyncClient]) -> None:
    method = inspect.signature(client("http://127.0.0.1:1").attributions)
    names = "sentence label labels method steps level truncation"
    assert list(method.parameters) == names.split()
    assert method.return_annotation is Attributions
    assert client.attributions.__qualname__ == f"{client.__name__}.attributions"


def test_the_service_does_not_take_it_in() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = settings["tool"]["setuptools"]["packages"]["find"]
    assert "where" not in found
    assert not any(fnmatch.fnmatch("client", pattern) for pattern in found["include"])
    assert "!client" not in (ROOT / ".dockerignore").read_text(encoding="utf-8")


def test_the_licence_is_the_projects() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel, and beside it only what the wheel needs."""
    folder = tmp_path_factory.mktemp("wheel")
    # A build leaves files in the folder that it builds.
    source = Path(shutil.copytree(FOLDER, folder / "client"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    printed(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("headlight_client-*-py3-none-any.whl")
    home = folder / "venv"
    venv.create(home, with_pip=False)
    interpreter = home / "bin" / "python"
    printed(*pip, "--python", interpreter, "install", "--no-deps", "--no-index", wheel)
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


def test_it_imports_nothing_heavy_and_nothing_of_the_service(python: Path) -> None:
    version = (FOLDER / "headlight_client" / "version.py").read_text(encoding="utf-8")
    shown, *imported = printed(python, "-I", "-W", "error", "-c", PROGRAM).split()
    assert f'__version__ = "{shown}"' in version
    assert {"httpx", "numpy"} <= set(imported)
    heavy = {"torch", "matplotlib", "pandas", "tqdm", "pydantic", "fastapi"}
    assert heavy.isdisjoint(imported)
    assert {"model", "service", "training"}.isdisjoint(imported)

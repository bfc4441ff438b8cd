"""The client as a distribution of its own: what it needs, and that nothing else takes it in."""

import fnmatch
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headlight_client import AsyncClient, Attributions, Client

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "client"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_methods_show_the_signature_that_they_have(client: type[Client | AsyncClient]) -> None:
    method = inspect.signature(client("http://127.0.0.1:1").attributions)

    assert list(method.parameters) == [
        "sentence",
        "label",
        "method",
        "steps",
        "level",
        "truncation",
    ]
    assert method.return_annotation is Attributions
    assert client.attributions.__qualname__ == f"{client.__name__}.attributions"


def test_it_imports_nothing_heavy_and_nothing_of_the_service() -> None:
    program = (
        "import headlight_client, json, sys;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    imported = set(json.loads(done.stdout))
    assert {"headlight_client", "httpx", "numpy"} <= imported
    heavy = {"torch", "matplotlib", "pandas", "tqdm", "pydantic", "fastapi"}
    assert imported.isdisjoint(heavy | {"model", "service", "training"})


def test_the_import_rules_hold() -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: 2 kept, 0 broken", done.stdout)


def test_the_service_does_not_take_it_in() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = settings["tool"]["setuptools"]["packages"]["find"]
    assert "where" not in found
    assert not any(fnmatch.fnmatch("client", pattern) for pattern in found["include"])
    assert "!client" not in (ROOT / ".dockerignore").read_text(encoding="utf-8")


def test_the_licence_is_the_projects() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()

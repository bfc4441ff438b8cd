"""Generators make clients of `/openapi.json`, which import, compile and read real answers."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import printed
from tests.end_to_end.servers import RunningService
from tests.interop.conftest import GENERATORS


@pytest.fixture(scope="module")
def document(running: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(running.get("/openapi.json").content)
    return path


def run(folder: Path, *command: object, programs: Path | None = None) -> str:
    """Runs a command in a folder, with these programs before others; returns what it prints."""
    path = os.environ["PATH"] if programs is None else f"{programs}:{os.environ['PATH']}"
    return printed(*command, folder=folder, env={**os.environ, "PATH": path})


def lists(value: Any) -> Iterator[list[Any]]:  # noqa: ANN401
    """All enumerations within a document, and the names of each of its objects."""
    if isinstance(value, dict):
        yield list(value)
        yield value.get("enum", []) if isinstance(value.get("enum"), list) else []
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from lists(each)


def test_no_two_names_differ_only_in_case(document: Path) -> None:
    for names in lists(json.loads(document.read_bytes())):
        folded = Counter(str(name).lower() for name in names)
        assert not [name for name, count in folded.items() if count > 1]


def test_openapi_python_client(
    generators: Path, document: Path, running: RunningService, tmp_path: Path
) -> None:
    made = ("generate", "--path", document, "--output-path", "generated", "--meta", "none")
    run(tmp_path, "openapi-python-client", *made, "--fail-on-warning", programs=generators)
    paths = json.loads(document.read_bytes())["paths"].values()
    modules = list((tmp_path / "generated" / "api").glob("*/[!_]*.py"))
    assert len(modules) == sum(map(len, paths))
    shutil.copy(GENERATORS / "ask.py", tmp_path)
    run(tmp_path, generators / "python", "-W", "error", "ask.py", running.url)


def test_openapi_typescript(node: tuple[str, Path], document: Path, tmp_path: Path) -> None:
    program, folder = node
    shutil.copy(GENERATORS / "use.ts", tmp_path)
    packages = folder / "node_modules"
    made = (packages / "openapi-typescript" / "bin" / "cli.js", document, "--output", "schema.ts")
    # Else every field that has a default would have to be sent.
    run(tmp_path, program, *made, "--default-non-nullable=false")
    strict = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext")
    run(tmp_path, program, packages / "typescript" / "bin" / "tsc", *strict, "use.ts")

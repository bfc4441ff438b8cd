"""The environments of peers, made by `make` with a stub in place of Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.servers import ROOT

# Writes down how it is called, and makes environments that hold itself.
PYTHON = """#!/bin/sh
echo "$0 $*" >>called
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""
PEER = "build/peers/litserve"


def made(folder: Path) -> list[str]:
    """How Python is called to make the environment of a peer."""
    (folder / "called").write_text("", encoding="utf-8")
    subprocess.run(
        ["make", "--silent", "PYTHON=/none", "TORCH=cuda", f"{PEER}/installed"],
        cwd=folder,
        env={name: text for name, text in os.environ.items() if not name.startswith("MAKE")},
        check=True,
        capture_output=True,
    )
    return (folder / "called").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "benchmarks/peers/requirements-litserve.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_a_peer_has_the_python_of_the_service_and_its_torch_after_every_new_pin(
    project: Path,
) -> None:
    pyproject = project / "pyproject.toml"
    (pinned,) = (
        line.strip(' ",')
        for line in pyproject.read_text(encoding="utf-8").splitlines()
        if line.startswith('    "torch==')
    )

    def expected(torch: str) -> list[str]:
        return [
            f".venv/bin/python -m venv {PEER}",
            f"{PEER}/bin/python -m pip install --quiet {torch} "
            "--requirement benchmarks/peers/requirements-litserve.txt",
        ]

    # The first time, the choice of an index is new too.
    assert made(project)[-2:] == expected(pinned)
    assert made(project) == []

    content = pyproject.read_text(encoding="utf-8").replace(pinned, "torch==99.0")
    pyproject.write_text(content, encoding="utf-8")
    later = (project / PEER / "installed").stat().st_mtime + 10
    os.utime(pyproject, (later, later))
    assert made(project) == expected("torch==99.0")

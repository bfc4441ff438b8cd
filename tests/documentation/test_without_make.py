"""The commands of docs/guides/without-make.md install a service that answers."""

import shutil
import signal
import site
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from tests.documentation.markdown import ROOT, blocks, sections
from tests.end_to_end.servers import _ADDRESS, environment, wait_until

PAGE = ROOT / "docs" / "guides" / "without-make.md"
COMMANDS = blocks(PAGE, "bash")[0].content.splitlines()
_NEEDED = (
    *("LICENSE", "README.md", "constraints.txt", "pyproject.toml", "setup.py"),
    *("checkpoints", "model", "service", "training"),
)


def _clone(folder: Path) -> Path:
    """A copy of what the commands read."""
    folder.mkdir()
    junk = shutil.ignore_patterns("__pycache__", "*.so")
    for name in _NEEDED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=junk, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(path, folder / name)
    return folder


def test_every_page_names_the_torch_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (torch,) = [x for x in project["project"]["dependencies"] if x.startswith("torch==")]
    text = PAGE.read_text(encoding="utf-8")

    assert text.count("torch==") == text.count(torch) == 3
    (setuptools,) = project["build-system"]["requires"]
    assert f" . {setuptools}" in text


def test_both_systems_have_the_same_commands() -> None:
    windows = blocks(PAGE, "powershell")[0].content.replace("\\Scripts\\", "/bin/")

    assert windows.replace("py -3.11", "python3").splitlines() == COMMANDS
    assert sections(PAGE)["Windows"].lstrip().startswith("**Nobody has run this.**")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the commands are those of Linux")
def test_the_commands_lead_to_an_answer(tmp_path: Path) -> None:
    """In an environment that sees the packages of this one, so that nothing is downloaded."""
    clone = _clone(tmp_path / "clone")
    log = clone / "serve.log"
    # Without a compiler the kernels are left out, which saves a minute.
    variables = environment({"CC": "false", "CXX": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    variables["PYTHONPATH"] = ""
    make, *installs, serve = COMMANDS

    _run(make.replace("python3", sys.executable, 1), clone, variables)
    (packages,) = (clone / ".venv" / "lib").glob("python3*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    for command in installs:
        _run(command, clone, variables)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*serve.split(), "--port", "0"],
            cwd=clone,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: _address(log) is not None or process.poll() is not None)
        address = _address(log)
        assert address is not None, log.read_text("utf-8")
        wait_until(lambda: httpx.get(f"{address}/health/ready").status_code == 200)
        sent = {"sentences": ["A warm, funny film with a superb cast."]}
        answer = httpx.post(f"{address}/predict", json=sent).raise_for_status().json()
        assert answer["predictions"][0]["label"] == "positive"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == 0
    shown = subprocess.run(
        [clone / ".venv" / "bin" / "python", "-c", "import service; print(service.__file__)"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == str(clone / "service" / "__init__.py")


def _run(command: str, folder: Path, variables: dict[str, str]) -> None:
    done = subprocess.run(
        command.split(), cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _address(log: Path) -> str | None:
    found = _ADDRESS.search(log.read_text("utf-8"))
    return found[1] if found else None

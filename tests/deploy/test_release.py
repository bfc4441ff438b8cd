"""`make release`: what it holds, that it comes out the same again, and what it refuses."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from model.backends.kernels import choose_set
from model.kernels.compiler import COMPILER_PACKAGE
from tests.commands import ROOT, finish, printed
from tests.end_to_end.servers import service

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
PLATFORM = "manylinux_2_28_x86_64"
WHEEL = f"headlight-{VERSION}-py3-none-{PLATFORM}.whl"
_LEFT_OUT = ("checkpoints/", "docs/", "tests/")
_DATE = "2026-01-02T03:04:05+00:00"

if any(shutil.which(name) is None for name in ("git", "bash")) and "CI" not in os.environ:
    pytest.skip("git or bash is not installed", allow_module_level=True)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    environment = {**os.environ, "GIT_COMMITTER_DATE": _DATE, "GIT_AUTHOR_DATE": _DATE}
    return printed("git", *identity, *arguments, folder=folder, env=environment)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone with the files of this one, as they are now, that a release needs."""
    folder = tmp_path_factory.mktemp("clone")
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if not name.startswith(_LEFT_OUT) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All of it")
    return folder


def release(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{beside}:{os.environ['PATH']}", "PYTHON": sys.executable}
    # To compile for the other platforms takes minutes.
    command = ("bash", "deploy/release.sh", "--no-image", "--platforms", PLATFORM, *options)
    return finish(*command, folder=repository, env=environment)


@pytest.fixture(scope="module")
def released(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a release, and what the command printed."""
    dist = tmp_path_factory.mktemp("release") / "dist"
    done = release(repository, "--output", str(dist))
    assert done.returncode == 0, done.stderr
    return dist, done.stdout


def test_the_same_commit_gives_the_same_files(
    repository: Path, released: tuple[Path, str], tmp_path: Path
) -> None:
    dist, said = released
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(repository), str(copy))
    again = release(copy)
    assert again.returncode == 0, again.stderr

    sums = (dist / "SHA256SUMS").read_text(encoding="utf-8")
    assert sums == (copy / "dist" / "SHA256SUMS").read_text(encoding="utf-8")
    assert {line.split()[1] for line in sums.splitlines()} == {
        "NOTES.md",
        f"headlight-{VERSION}.tar.gz",
        f"headlight-{VERSION}.tgz",
        WHEEL,
        f"headlight_client-{VERSION}-py3-none-any.whl",
    }
    printed("sha256sum", "--check", "--quiet", "SHA256SUMS", folder=dist)
    assert said.endswith(sums)
    notes = (dist / "NOTES.md").read_text(encoding="utf-8")
    assert notes.startswith(f"# Headlight {VERSION}\n")
    assert "\n## " not in notes
    with tarfile.open(dist / f"headlight-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"pyproject.toml", "model/kernels/encode.cpp"} <= names
        assert {member.mtime for member in archive.getmembers()} == {1767323045}
    with tarfile.open(dist / f"headlight-{VERSION}.tgz") as chart:
        assert "headlight/Chart.yaml" in chart.getnames()  # helm finds it under this name only
        assert chart.getmember("headlight/files/alerts.yml").isfile()  # not the link of the clone


def test_a_wheel_serves_without_a_compiler(
    released: tuple[Path, str], checkpoint_folder: Path, tmp_path: Path
) -> None:
    wheel, installed = released[0] / WHEEL, tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (information,) = (name for name in names if name.endswith("/WHEEL"))
        assert f"\nTag: py3-none-{PLATFORM}\n" in archive.read(information).decode()
        sources = {path.name for path in (ROOT / "model" / "kernels").iterdir() if path.is_file()}
        kernels = {name for name in names if "kernels/" in name}
        assert kernels == {f"model/kernels/{name}" for name in sources}
        binary = [name for name in names if archive.read(name).startswith(b"\x7fELF")]
        assert binary == ["model/backends/_kernels.so"]
        library = archive.read(binary[0])
        archive.extractall(installed)  # noqa: S202 - our own
    assert not re.search(rb"ziglang|/tmp/|GLIBC_2\.(29|[3-9]\d)", library)

    program = ("-P", "-W", "error", "-m", "service")  # not that of the working folder
    settings = {"PYTHONPATH": str(installed)}
    with service(checkpoint_folder, tmp_path, settings=settings, program=program) as running:
        lines = map(json.loads, running.log.read_text("utf-8").splitlines())
        (engine,) = (line["engine"] for line in lines if line["message"] == "model ready")
    chosen = choose_set("float32")
    assert engine == (f"kernels ({chosen.family})" if chosen else "eager")


_REQUIRED = """
import sys
sys.modules["ziglang"] = None
from setuptools import build_meta
print(build_meta.get_requires_for_build_wheel(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("settings", "required"),
    [
        ({"PATH": ""}, [COMPILER_PACKAGE]),
        ({"PATH": "", "HEADLIGHT_KERNELS": "no"}, []),
        ({"PATH": "", "CXX": "g++"}, []),
    ],
)
def test_an_installation_without_a_compiler_gets_one(
    settings: dict[str, str], required: list[str], repository: Path
) -> None:
    done = finish(sys.executable, "-c", _REQUIRED, folder=repository, env=settings)
    assert done.stderr.splitlines()[-1] == str(required)


@pytest.mark.parametrize(
    ("file", "text", "options", "message"),
    [
        ("new.txt", "x", (), "not committed: new.txt; commit it, or put it aside with git stash"),
        ("dist/letter", "Dear", (), "dist holds other files than a release: choose another folder"),
        (None, "", ("--image",), "unknown option --image: use --output DIR, --no-image, --source"),
    ],
)
def test_a_release_is_refused(
    repository: Path, file: str | None, text: str, options: tuple[str, ...], message: str
) -> None:
    if file is not None:
        (repository / file).parent.mkdir(exist_ok=True)
        (repository / file).write_text(text, encoding="utf-8")
    try:
        done = release(repository, *options)
    finally:
        if file is not None:
            (repository / file).unlink()
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("no release: ")
    assert message in done.stderr


def test_a_version_without_notes_is_refused(repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(repository), str(copy))
    changelog = copy / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8").replace(f"[{VERSION}]", "[0.0.9]")
    changelog.write_text(text, encoding="utf-8")
    git(copy, "commit", "--quiet", "--all", "--message", "Another version")
    done = release(copy)
    assert done.returncode == 1
    assert done.stderr == (
        f"no release: CHANGELOG.md has no text under '## [{VERSION}]', the version in "
        "pyproject.toml\n"
    )

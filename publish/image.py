"""Builds the image of a release, and takes its list of packages out of it."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from publish.artifacts import run
from publish.source import Source

SBOM = "/usr/share/doc/headlight/sbom.cdx.json"


def engine() -> list[str] | None:
    """The command line of a Docker client whose engine answers, or None."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    done = subprocess.run([docker, "info"], capture_output=True, check=False)
    return [docker] if done.returncode == 0 else None


def build_image(
    source: Source,
    output: Path,
    *,
    docker: Sequence[str],
    address: str = "",
    environment: Mapping[str, str] | None = None,
) -> str:
    """Builds the image and saves it beside its list of packages.

    Args:
        source: what is built, and what the labels say.
        output: the folder for the files.
        docker: the command line of the client.
        address: where the source can be read, for a label.
        environment: of the client.

    Returns:
        The tag of the image.

    Raises:
        ReleaseError: a step failed.
    """
    tag = f"headlight:{source.version}"
    name = f"headlight-{source.version}-image"

    def call(*arguments: str) -> str:
        command = [*docker, *arguments]
        return run(command, folder=source.root, source=source, environment=environment)

    told = {
        "VERSION": source.version,
        "REVISION": source.revision,
        "CREATED": source.created,
        "SOURCE": address,
        "SOURCE_DATE_EPOCH": str(source.epoch),
    }
    arguments = [word for item in told.items() for word in ("--build-arg", "=".join(item))]
    call("build", *arguments, "--tag", tag, ".")
    listed = call("run", "--rm", "--network", "none", tag, "cat", SBOM)
    (output / f"{name}.cdx.json").write_text(listed, encoding="utf-8")
    call("save", "--output", str(output / f"{name}.tar"), tag)
    return tag

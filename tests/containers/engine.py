"""A Docker engine with Compose: from arguments to what the commands printed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_TIMEOUT_SECONDS = 900


class CommandError(Exception):
    """A command failed; the message holds the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Engine:
    docker_command: Sequence[str]
    compose_command: Sequence[str]
    environment: Mapping[str, str]

    def docker(self, *arguments: str) -> str:
        """Runs the client; raises CommandError if it fails."""
        return run([*self.docker_command, *arguments], environment=self.environment)

    def compose(self, *arguments: str) -> str:
        """Runs Compose on the project's file; raises CommandError if it fails."""
        return run([*self.compose_command, *arguments], environment=self.environment)

    def inspect(self, name: str) -> dict[str, Any]:
        """What the engine knows of a container, an image or a network."""
        description: dict[str, Any] = json.loads(self.docker("inspect", name))[0]
        return description

    def python(self, container: str, code: str) -> str:
        """Runs Python within a container, as its own user."""
        return self.docker("exec", container, "python", "-c", code)


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Runs a command in the project's folder.

    Returns:
        What it wrote to standard output, without white space at the ends.

    Raises:
        CommandError: it is missing, exited with another code than 0, or took too long.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADLIGHT_")
    }
    try:
        completed = subprocess.run(
            command,
            cwd=ROOT,
            env={**inherited, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{' '.join(command)}: {error}") from error
    if completed.returncode:
        said = "\n".join((completed.stdout + completed.stderr).splitlines()[-40:])
        raise CommandError(f"{' '.join(command)}: exit code {completed.returncode}\n{said}")
    return completed.stdout.strip()


def installed_compose() -> list[str]:
    """The command line of the Compose that the extra `containers` installs."""
    return [str(Path(sys.executable).with_name("docker-compose"))]


def running_engine() -> Engine | None:
    """The engine that runs on this machine, or None."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    try:
        run([docker, "info", "--format", "{{.ServerVersion}}"])
    except CommandError:
        return None
    compose = [docker, "compose"]
    try:
        run([*compose, "version"])
    except CommandError:
        compose = installed_compose()
    return Engine([docker], compose, {})

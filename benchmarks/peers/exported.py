"""Keeps what a checkpoint was exported to, and exports it if that is missing."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

_FOLDER = Path(sys.prefix) / "exported"
_READ = ("config.json", "model.safetensors", "tokenizer.json")


def exported(
    checkpoint: Path, exporter: str, precision: str, suffix: str, *, folder: Path = _FOLDER
) -> Path:
    """Returns the file of a checkpoint for an engine; the first time, writes it.

    The exporter runs as a process of its own, so that torch takes no memory from the server.

    Args:
        checkpoint: a folder in the Hugging Face layout.
        exporter: module that writes the file.
        precision: of the numbers in it.
        suffix: of its name.
        folder: of all that was exported; that of the environment, which a new version of the
            engine replaces.

    Raises:
        CalledProcessError: the exporter failed.
    """
    place = folder / _key(checkpoint, exporter)
    file = place / f"{precision}{suffix}"
    if file.exists():
        return file
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as unfinished:
        written = Path(unfinished) / file.name
        command = [sys.executable, "-m", exporter, "--checkpoint", str(checkpoint)]
        command += ["--precision", precision, str(written)]
        subprocess.run(command, check=True)  # noqa: S603 - a module of our own
        # The named file last: what lies beside it, such as its weights, is then there too.
        for found in sorted(Path(unfinished).iterdir(), key=lambda each: each == written):
            found.replace(place / found.name)
    return file


def _key(checkpoint: Path, exporter: str) -> str:
    """Names a checkpoint by the content of its files and how it is exported."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    sources = [here / "export_network.py", here / f"{exporter.rpartition('.')[2]}.py"]
    for path in [*(checkpoint / name for name in _READ), *sources]:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]

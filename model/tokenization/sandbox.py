"""Tries the tokenizer of a folder in a process of its own before anything serves it.

A tokenizer that fills the memory or never ends takes its whole process along. Here that is a child
with limits, and the folder is refused by name.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError
from model.files import CONFIG, TOKENIZER_FILES

# What `reader` reads. A tokenizer with this digest of them ships with the project.
_FILES = (CONFIG, *TOKENIZER_FILES)
_SHIPPED = frozenset(
    {
        "49732e10baa6212f1ad014db896eb2972f90b72eaa5f716babf25118618ce749",
        "53f68ec9b7be02b396fc4989b71a84d23a5a417d795f31abd1babc830ab8032e",
    }
)
# A script, not a module, so that it depends on nothing that the package imports.
_SCRIPT = Path(__file__).with_name("sandbox_child.py")
_CAUSES = {
    -signal.SIGABRT: " (most likely out of memory)",
    -getattr(signal, "SIGXCPU", 24): " (out of processor time)",
}
# Processor time is limited inside. This ends a child that sleeps, or that waits for its turn.
_MOST_SECONDS = 120.0


def try_tokenizer(folder: Path, *, timeout: float = _MOST_SECONDS) -> None:
    """Opens the tokenizer of a checkpoint folder in a child process, and encodes hard texts.

    One that ships, or that this user has tried before, is not tried again. CheckpointError: it was
    refused there, or the child died or took too many seconds.
    """
    digest = _digest(folder)
    record = _record(digest)
    if digest.partition("-")[0] in _SHIPPED or (record is not None and record.exists()):
        return
    _try(folder, timeout)
    if record is not None:
        with suppress(OSError):  # a file system that is read-only
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            record.touch()


def _digest(folder: Path) -> str:
    """Computes a digest of the files of a tokenizer, with the version of the library."""
    hasher = hashlib.sha256()
    for name in _FILES:
        content = (folder / name).read_bytes() if (folder / name).is_file() else b""
        hasher.update(hashlib.sha256(content).digest())
    return f"{hasher.hexdigest()}-{tokenizers.__version__}"


def _record(digest: str) -> Path | None:
    """Returns the file that says that this user has tried a tokenizer; None without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        return None
    return cache / "headlight" / "tokenizers" / digest


def _try(folder: Path, timeout: float) -> None:
    path = folder / "tokenizer.json"
    if not path.is_file():
        path = folder / "vocab.txt"
    # -P: no module of the folder where the script stands or that the service started in.
    command = [sys.executable, "-P", str(_SCRIPT), str(folder.absolute())]
    try:
        finished = subprocess.run(  # noqa: S603 - the interpreter, our script, a path
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
        report, status = _last_report(finished.stdout), finished.returncode
        end = f"ended with status {status}{_CAUSES.get(status, '')} in its trial"
    except subprocess.TimeoutExpired as error:
        report, status = _last_report(error.stdout or b""), None
        end = f"did not end within {timeout:g} s of its trial"
    except OSError as error:
        raise CheckpointError(
            path, f"cannot be tried: no process could be started: {error.strerror}"
        ) from error
    if "error" in report:
        raise CheckpointError(folder / report.get("file", path.name), report["error"])
    if status != 0 or report.get("step") != "end":
        step = f"at the text of {report['step']}" if report else "while it was opened"
        raise CheckpointError(path, f"{end}, {step}")


def _last_report(output: bytes) -> dict[str, Any]:
    """The last whole line that the child wrote."""
    lines = output.split(b"\n")[:-1]
    report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return report

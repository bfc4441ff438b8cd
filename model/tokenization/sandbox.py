"""Tries the tokenizer of a folder in a process of its own before anything serves it.

A tokenizer that fills the memory or never ends takes its whole process along. Here that is a child
with limits, and the folder is refused by name.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from model.errors import CheckpointError

# A script, not a module: `-m` would import the package, and with it torch.
_SCRIPT = Path(__file__).with_name("sandbox_child.py")
_CAUSES = {
    -signal.SIGABRT: " (most likely out of memory)",
    -getattr(signal, "SIGXCPU", 24): " (out of processor time)",
}
# Processor time is limited inside. This ends a child that sleeps, or that waits for its turn.
_MOST_SECONDS = 120.0


def try_tokenizer(folder: Path, *, timeout: float = _MOST_SECONDS) -> None:
    """Opens the tokenizer of a checkpoint folder in a child process, and encodes hard texts.

    Raises:
        CheckpointError: the folder was refused there, or the child died or took too many seconds.
    """
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

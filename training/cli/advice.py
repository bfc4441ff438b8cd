"""Writes the command that a person could type instead: the same rows, from a pretrained encoder."""

import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import training

# Below this many rows a network that knows the language already is better by far.
FEW_ROWS = 20_000
# At fewer steps even a pretrained network hardly moves, unless its rate is high.
FEW_STEPS, HIGH_RATE = 100, 3e-4
_CHECKPOINT = Path("checkpoints") / "default"


def find_pretrained() -> Path | None:
    """Finds the folder of the checkpoint that ships; None if it is not there."""
    beside = Path(training.__file__).resolve().parents[1] / _CHECKPOINT
    return next((folder for folder in (_CHECKPOINT, beside) if folder.is_dir()), None)


def pretrained_command(typed: Sequence[str], folder: Path, *, without: Collection[str]) -> str:
    """Changes a command so that it begins with a pretrained encoder.

    Args:
        typed: the words after the name of the program.
        folder: of the encoder.
        without: options to leave out, each with its value.

    Returns:
        One line for a shell. It replaces what the command before has left.
    """
    return changed_command(
        typed, without=without, added=["--init-from", str(folder), "--overwrite"]
    )


def changed_command(
    typed: Sequence[str],
    *,
    without: Collection[str],
    added: Sequence[str],
    command: str | None = None,
) -> str:
    """Changes a command that was typed.

    Args:
        typed: the words after the name of the program.
        without: options to leave out, each with its value; `--resume` and `--overwrite` always are.
        added: words to put at the end.
        command: the subcommand to put in the place of the first word; None: the same.

    Returns:
        One line for a shell.
    """
    words = []
    rest = iter(typed if command is None else [command, *typed[1:]])
    for word in rest:
        option, equals, _ = word.partition("=")
        if option in without:
            if not equals:
                next(rest, None)
        elif word not in ("--resume", "--overwrite"):
            words.append(word)
    return shlex.join([*_program(), *words, *added])


def _program() -> list[str]:
    path = Path(sys.argv[0])
    if path.parts[-2:] == ("training", "__main__.py"):
        return ["python", "-m", "training"]
    return [sys.argv[0] if path.name == "headlight-train" else "headlight-train"]

"""Checkpoint folders with a flipped bit, a changed byte or an end cut off."""

import random
from collections import Counter
from pathlib import Path

from model import Checkpoint, open_checkpoint
from model.errors import CheckpointError
from tests.builders import tiny_checkpoint

_TEXT = "Good, the plot is bad."


def fuzz_folders(folder: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damages a checkpoint folder `count` times; returns outcomes by file, and all faults.

    Each damage must be refused by the name of its file, or change nothing.
    """
    chance = random.Random(seed)
    target = tiny_checkpoint(folder / "damaged")
    expected = _identity(open_checkpoint(target))
    files = sorted(path for path in target.iterdir() if path.is_file())
    refused: Counter[str] = Counter()
    faults: list[str] = []
    for number in range(count):
        path = files[number % len(files)]
        sound = path.read_bytes()
        path.write_bytes(_damage(sound, chance))
        try:
            checkpoint = open_checkpoint(target)
        except CheckpointError as error:
            refused[path.name] += 1
            if error.path != path:
                faults.append(f"damage {number} of {path.name} is blamed on {error.path}")
        except Exception as error:
            faults.append(f"damage {number} of {path.name}: {type(error).__name__}: {error}")
        else:
            refused[f"{path.name}: without effect"] += 1
            if _identity(checkpoint) != expected:
                faults.append(f"damage {number} of {path.name} goes unnoticed")
        path.write_bytes(sound)
    return refused, faults


def _identity(checkpoint: Checkpoint) -> tuple[object, ...]:
    """Everything that decides the answers of a service; the version stands for the weights."""
    encoding = checkpoint.tokenizer.encode(_TEXT, with_tokens=True)
    return (checkpoint.version, checkpoint.config, checkpoint.manifest, encoding)


def _damage(content: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    place = chance.randrange(len(content))
    if kind == 0:
        return content[:place]
    damaged = bytearray(content)
    if kind == 1:
        damaged[place] ^= 1 << chance.randrange(8)
    elif kind == 2:
        damaged[place:place] = chance.randbytes(chance.randint(1, 9))
    else:
        damaged[place : place + 8] = chance.randbytes(len(damaged[place : place + 8]))
    return bytes(damaged)

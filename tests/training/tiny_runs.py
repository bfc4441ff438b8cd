"""The smallest runs that really learn: generated rows, a tiny preset, and the command itself."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from model.files import WEIGHTS
from tests.builders import tiny_tokenizer
from training.device import Accelerator
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, Step
from training.fit.trainer import Trainer
from training.measure.history import Measurement

ROOT = Path(__file__).parents[2]
CPU = Accelerator(torch.device("cpu"))
# What the fixture `refusal` is.
Refusal = Callable[[Sequence[str]], str]
WORDS = {
    "negative": ("bad", "dull", "poor", "weak", "awful", "sad"),
    "positive": ("good", "bright", "rich", "strong", "lovely", "glad"),
    "neutral": ("plain", "usual", "average", "common", "normal", "mixed"),
}
FILLERS = ("the", "film", "was", "and", "a", "plot", "very", "it", "so", "cast")
PRESET = """\
max_length = 16
epochs = 3
batch_size = 16
learning_rate = 5e-3
token_dropout = 0.1
average_decay = 0.9
label_smoothing = 0.05

[network]
vocab_size = 200
hidden_size = 16
num_layers = 2
num_heads = 2
intermediate_size = 16
"""


def write_sentences(
    path: Path, *, rows: int = 240, seed: int = 0, labels: Sequence[str] = ("negative", "positive")
) -> Path:
    """Writes sentences of which one word decides the label; returns the path."""
    rng = random.Random(seed)
    lines = ["sentence\tlabel"]
    for number in range(rows):
        label = labels[number % len(labels)]
        words = [*rng.choices(FILLERS, k=rng.randint(2, 8)), rng.choice(WORDS[label])]
        rng.shuffle(words)
        lines.append(f"{' '.join(words)} {number}\t{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_preset(path: Path, text: str = PRESET) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def arguments(folder: Path, output: str, *options: str) -> list[str]:
    """A command over `rows.tsv` and `tiny.toml`, which are written if they are not there."""
    if not (folder / "rows.tsv").exists():
        write_sentences(folder / "rows.tsv")
        write_preset(folder / "tiny.toml")
    return [
        *("fit", str(folder / "rows.tsv"), "--output", str(folder / output)),
        *("--preset", str(folder / "tiny.toml"), "--threads", "1", *options),
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, without the seconds that each took."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [{name: line[name] for name in line if name != "seconds"} for line in lines]


def read_history(run_dir: Path) -> list[Measurement]:
    return [Measurement(**line, seconds=0.0) for line in read_lines(run_dir / "history.jsonl")]


def weights(folder: Path) -> bytes:
    return (folder / WEIGHTS).read_bytes()


def build_trainer(
    network: nn.Module,
    rows: EncodedRows,
    recipe: Recipe,
    *,
    state_dir: Path | None = None,
    accelerator: Accelerator = CPU,
    **options: Any,  # noqa: ANN401
) -> Trainer:
    """Builds a trainer on rows that are also those to validate by."""
    return Trainer(
        network,
        tiny_tokenizer(),
        recipe,
        training=rows,
        validation=rows,
        accelerator=accelerator,
        state_dir=state_dir,
        fingerprint={},
        **options,
    )


def signal_after(monkeypatch: pytest.MonkeyPatch, steps: int, number: int) -> None:
    """Sends this process a signal in its step of this number, of all runs together."""
    step, done = Trainer.training_step, 0

    def counted(trainer: Trainer, rows: Step) -> None:
        nonlocal done
        step(trainer, rows)
        done += 1
        if done == steps:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Trainer, "training_step", counted)


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs `headlight-train` in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "training", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

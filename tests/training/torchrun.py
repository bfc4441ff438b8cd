"""Trains a tiny network, alone or by a real `torchrun`."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy

from model.files import WEIGHTS

ROOT = Path(__file__).parents[2]
PATIENCE = 600
OPTIONS = (
    *("--epochs", "3", "--batch-size", "16", "--max-length", "16", "--patience", "3"),
    *("--dtype", "float32", "--device", "cpu", "--threads", "1", "--dropout", "0.2"),
)
PRESET = """
max_length = 16
attention_dropout = 0.1
token_dropout = 0.1
average_decay = 0.5
consistency = 0.5

[network]
vocab_size = 120
hidden_size = 16
num_layers = 2
num_heads = 2
intermediate_size = 32
"""


def write_files(folder: Path, *, rows: int) -> None:
    """Writes rows of both classes, for learning and for validation, and a preset.

    Args:
        folder: for three files.
        rows: to learn from.
    """
    words = ("film", "plot", "cast", "scene", "song", "joke", "end")
    made = [
        (
            f"a {'good' if number % 2 else 'bad'} {' '.join(words[: number % 7])} {number}",
            number % 2,
        )
        for number in range(rows + 20)
    ]
    for name, some in (("train.tsv", made[:rows]), ("dev.tsv", made[rows:])):
        lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in some)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "tiny.toml").write_text(PRESET, encoding="utf-8")


def command(folder: Path, output: Path, *options: str) -> list[str]:
    """The arguments of a run on what `write_files` has written."""
    files = ["fit", str(folder / "train.tsv"), "--validation", str(folder / "dev.tsv")]
    preset = ["--preset", str(folder / "tiny.toml"), "--output", str(output)]
    return [*files, *preset, *OPTIONS, *options]


def environment(**values: str) -> Mapping[str, str]:
    """The variables of a run."""
    return {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **values}


def start(count: int, arguments: list[str], *torchrun: str) -> subprocess.Popen[str]:
    """Starts a run, by `torchrun` if it has several processes."""
    program = [sys.executable, "-m", "training"]
    if count > 1:
        several = ["--nnodes=1", f"--nproc-per-node={count}", "--standalone", *torchrun]
        program = [sys.executable, "-m", "torch.distributed.run", *several, "-m", "training"]
    return subprocess.Popen(
        [*program, *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Waits for a run; returns its status and what it printed."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def assert_close(first: Path, second: Path) -> None:
    """Weights agree within 1e-5, but for the bias of keys.

    It changes no answer, because softmax ignores what all keys share. So its gradient is nothing
    but rounding, which Adam scales to steps of full size.
    """
    weights = safetensors.numpy.load_file(second / WEIGHTS)
    for name, tensor in safetensors.numpy.load_file(first / WEIGHTS).items():
        if not name.endswith("key.bias"):
            np.testing.assert_allclose(weights[name], tensor, atol=1e-5, err_msg=name)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]

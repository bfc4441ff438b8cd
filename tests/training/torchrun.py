"""Trains a tiny network by a real `torchrun`, or in one process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import safetensors.numpy

from model.files import WEIGHTS
from tests.training.tiny_runs import PRESET, ROOT, write_preset, write_sentences

PATIENCE = 600
LOCAL = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
OPTIONS = (
    *("--epochs", "3", "--dtype", "float32", "--device", "cpu", "--threads", "1"),
    *("--dropout", "0.2", "--patience", "3"),
)


def write_files(folder: Path, *, rows: int) -> None:
    """Writes rows to learn from, rows to validate by, and a preset."""
    write_sentences(folder / "train.tsv", rows=rows)
    write_sentences(folder / "dev.tsv", rows=20, seed=1)
    write_preset(folder / "tiny.toml", f"consistency = 0.5\n{PRESET}")


def command(folder: Path, output: Path, *options: str) -> list[str]:
    """The arguments of a run on what `write_files` has written."""
    files = ["fit", str(folder / "train.tsv"), "--validation", str(folder / "dev.tsv")]
    preset = ["--preset", str(folder / "tiny.toml"), "--output", str(output)]
    return [*files, *preset, *OPTIONS, *options]


def start(
    count: int, arguments: list[str], *torchrun: str, program: tuple[str, ...] = ("-m", "training")
) -> subprocess.Popen[str]:
    """Starts a run, by `torchrun` if it has several processes."""
    words = [sys.executable]
    if count > 1:
        several = ["--nnodes=1", f"--nproc-per-node={count}", "--standalone", *torchrun]
        words += ["-m", "torch.distributed.run", *several]
    return subprocess.Popen(
        [*words, *program, *arguments],
        cwd=ROOT,
        env={**os.environ, **LOCAL},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
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

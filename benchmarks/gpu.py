"""Measures a GPU without a server: the model with Python around it, and a file of texts."""

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.client import ROOT
from benchmarks.errors import BenchmarkError
from benchmarks.loads import SENTENCES
from benchmarks.servers import environment
from model import load

#: texts that the model is given at once
TEXTS = 1_024
_LINES_A_SECOND = {"cpu": 300, "cuda": 40_000}
_DRIVER_FILE, _DRIVER = Path("/proc/driver/nvidia/version"), re.compile(r"\d+\.\d+[.\d]*")
_RATE = re.compile(r"^score: (\d+)/\1, ([0-9.]+)/s", re.MULTILINE)


def model_rate(checkpoint: Path, device: str, seconds: float) -> float:
    """Returns how many texts a second are answered, `TEXTS` at once, once they are encoded."""
    predictor = load(checkpoint, device=device).predictor
    encodings = [predictor.encode(SENTENCES[at % len(SENTENCES)]) for at in range(TEXTS)]
    predictor.predict(encodings)
    passes, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds or not passes:
        predictor.predict(encodings)
        passes += 1
    return passes * TEXTS / (time.perf_counter() - began)


def lines_rate(checkpoint: Path, device: str, seconds: float, folder: Path) -> float:
    """Returns how many lines of a CSV file `headlight-score` scores in a second, once it reads.

    Raises:
        BenchmarkError: the command fails.
    """
    source = folder / "lines.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        rows = range(max(200, round(seconds * _LINES_A_SECOND[device])))
        texts = ([number, f"{SENTENCES[number % len(SENTENCES)]} {number}"] for number in rows)
        csv.writer(file).writerows([["id", "text"], *texts])
    command = [sys.executable, "-m", "scoring", str(source), "--overwrite", "--device", device]
    done = subprocess.run(  # noqa: S603 - a module of our own
        [*command, "--checkpoint", str(checkpoint.absolute())],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(dict(os.environ), sees_gpu=True),
    )
    found = _RATE.search(done.stderr)
    if done.returncode or found is None:
        raise BenchmarkError(done.stderr.strip().rpartition("\n")[2])
    return float(found[2])


def used_bytes() -> int:
    """Returns how many bytes of the first GPU all processes use."""
    free, total = torch.cuda.mem_get_info(0)
    return total - free


def versions() -> dict[str, object]:
    """Describes the first GPU, its driver, CUDA and cuDNN."""
    found = _DRIVER.search(_DRIVER_FILE.read_text("utf-8") if _DRIVER_FILE.exists() else "")
    return {
        "gpu": torch.cuda.get_device_name(0),
        "driver": found and found[0],
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }

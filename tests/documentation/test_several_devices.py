"""The command of "On several devices" in the guide to training runs, with a tiny network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.numpy

from model.files import WEIGHTS
from tests.documentation.markdown import GUIDES, ROOT, commands
from tests.training.torchrun import OPTIONS, write_files

(COMMAND,) = [line for line in commands(GUIDES / "training.md") if "bin/torchrun " in line]


def _run(folder: Path, command: str) -> None:
    """Runs a command where `.venv/bin/torchrun` is that of this environment."""
    program = folder / ".venv" / "bin" / "torchrun"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_command_trains_and_what_the_section_adds_goes_on(tmp_path: Path) -> None:
    write_files(tmp_path, rows=40)
    tiny = " ".join(["--preset tiny.toml --validation dev.tsv", *OPTIONS, "--epochs 1"])
    (tmp_path / "train.csv").write_text(
        (tmp_path / "train.tsv").read_text(encoding="utf-8").replace("\t", ","), encoding="utf-8"
    )

    # Two processes, with restarts and passes.
    command = COMMAND.replace("--nproc-per-node=4", "--nproc-per-node=2 --max-restarts=3")
    _run(tmp_path, f"{command} {tiny} --accumulate 4 --save-every 1")

    assert safetensors.numpy.load_file(tmp_path / "checkpoints" / "mine" / WEIGHTS)

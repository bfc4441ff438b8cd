"""The commands of "On several devices" in docs/guides/training.md run, with a tiny network."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.numpy

from model.files import WEIGHTS
from tests.documentation.markdown import ROOT, codes, sections
from tests.training.torchrun import OPTIONS, write_files
from training.__main__ import _parser

PAGE = ROOT / "docs" / "guides" / "training.md"
SECTION = sections(PAGE)["On several devices"]
(COMMAND,) = re.findall(r"^    (\.venv/bin/torchrun .*)$", SECTION, re.MULTILINE)


def _run(folder: Path, command: str) -> tuple[int, str]:
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
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_command_trains_and_what_the_table_adds_goes_on(tmp_path: Path) -> None:
    write_files(tmp_path, rows=40)
    tiny = " ".join(["--preset tiny.toml --validation dev.tsv", *OPTIONS, "--epochs 1"])
    (tmp_path / "train.csv").write_text(
        (tmp_path / "train.tsv").read_text(encoding="utf-8").replace("\t", ","), encoding="utf-8"
    )

    code, told = _run(tmp_path, f"{COMMAND} {tiny}")
    assert code == 0, told
    weights = tmp_path / "checkpoints" / "mine" / WEIGHTS
    assert safetensors.numpy.load_file(weights)

    # Two processes, with restarts and passes, into another folder.
    other = COMMAND.replace("--nproc-per-node=4", "--nproc-per-node=2 --max-restarts=3")
    other = other.replace("checkpoints/mine", "checkpoints/other")
    code, told = _run(tmp_path, f"{other} {tiny} --accumulate 4 --save-every 1")
    assert code == 0, told
    assert (tmp_path / "checkpoints" / "other" / WEIGHTS).exists()


def test_options_that_the_section_names_exist() -> None:
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    fit = {
        option for action in commands.choices["fit"]._actions for option in action.option_strings
    }
    torchrun = {"--max-restarts", "--standalone", "--nproc-per-node"}
    named = {word for span in codes(SECTION) for word in re.findall(r"--[a-z-]+", span)}

    assert named - torchrun <= fit
    assert {"--resume", "--rank-timeout", "--accumulate", "--save-every"} <= named

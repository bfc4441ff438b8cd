"""Each missing package is one clear line, before any work: what needs it, and its extra."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.model.keys import elliptic_pair
from tests.test_architecture import ROOT
from tests.training.tiny_plans import write_plan
from tests.training.tiny_runs import arguments

# Every command in one process: a module whose import failed is imported again by the next.
PROGRAM = """
import json, sys
hidden, commands = json.load(sys.stdin)
sys.modules.update(dict.fromkeys(hidden))
from training.__main__ import main
sys.exit(any([main(command) != 1 for command in commands]))
"""
INSTALL = ".venv/bin/pip install --constraint constraints.txt --editable"


def lines_without(hidden: Sequence[str], commands: Sequence[Sequence[str]]) -> list[str]:
    """What the commands print on standard error where some packages are not installed."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps([hidden, commands]),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    return ended.stderr.splitlines()


def test_training_needs_more_than_serving() -> None:
    hidden = ("matplotlib", "pyarrow", "scipy", "sklearn", "tqdm")
    commands = [
        ["fit", "reviews.csv", "--output", "never"],
        ["fit", "--plan", "plan.toml", "--output", "never"],
        ["evaluate", "reviews.csv", "--checkpoint", "never"],
        ["compare", "reviews.csv", "--output", "never"],
        ["search", "reviews.csv", "--output", "never"],
    ]

    lines = lines_without(hidden, commands)

    assert len(lines) == len(commands)
    for line in lines:
        name = line.removeprefix("headlight-train: ").partition(" ")[0]
        assert name.partition(".")[0] in hidden
        assert line == (
            f"headlight-train: {name} is not installed, which training needs and serving does "
            f"not: {INSTALL} '.[train]'"
        )


def test_what_needs_an_extra_names_it(tmp_path: Path, checkpoint_folder: Path) -> None:
    """A plan with a teacher, two trackers, the hub, the search and signatures."""
    keys = elliptic_pair(tmp_path / "keys")
    commands = [
        write_plan(tmp_path).command(tmp_path / "out"),
        arguments(tmp_path, "out", "--log-to", "tensorboard:runs"),
        arguments(tmp_path, "out", "--log-to", "mlflow"),
        ["fetch", "people/film", "--output", str(tmp_path / "out")],
        ["search", "rows.tsv", "--output", str(tmp_path / "out")],
        ["sign", str(checkpoint_folder), "--key", str(keys.private)],
        ["verify", str(checkpoint_folder), "--key", str(keys.public)],
    ]
    hidden = ("transformers", "tensorboard", "mlflow", "huggingface_hub", "optuna", "OpenSSL")

    *lines, signing, verifying = lines_without(hidden, commands)

    needed = f" is not installed, which signatures need: {INSTALL} '.[signing]'"
    assert re.fullmatch(rf"headlight-train: OpenSSL\S*{re.escape(needed)}", signing)
    assert signing == verifying
    assert lines == [
        "headlight-train: transformers is not installed, which the teacher of a plan needs and "
        f"serving does not: {INSTALL} '.[train,teacher]'",
        "headlight-train: tensorboard is not installed, which --log-to tensorboard needs: "
        f"{INSTALL} '.[train,tensorboard]'",
        "headlight-train: mlflow is not installed, which --log-to mlflow needs: "
        f"{INSTALL} '.[train,mlflow]'",
        "headlight-train: hf:people/film@main: huggingface_hub is not installed, which names of "
        f"the hub need: install the extra hub ({INSTALL} '.[hub]')",
        f"headlight-train: optuna is not installed, which search needs: {INSTALL} "
        "'.[train,search]'",
    ]
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.run").exists()

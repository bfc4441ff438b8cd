"""Each missing package is one clear line, before any work: what needs it, and its extra."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.model.keys import elliptic_pair
from tests.test_architecture import ROOT
from tests.training.tiny_plans import write_plan
from tests.training.tiny_runs import arguments

# Every command in one process: a module whose import failed is imported again by the next.
PROGRAM = """
import json, sys
statuses = []
for hidden, commands in json.load(sys.stdin):
    sys.modules.update(dict.fromkeys(hidden))
    from training.__main__ import main
    statuses += map(main, commands)
    for name in hidden:
        del sys.modules[name]
sys.exit(any(status != 1 for status in statuses))
"""
INSTALL = "pip install 'headlight["


def test_each_command_names_what_is_missing(tmp_path: Path, checkpoint_folder: Path) -> None:
    needed = ("matplotlib", "pyarrow", "scipy", "sklearn", "tqdm")
    every = [
        ["fit", "reviews.csv", "--output", "never"],
        ["fit", "--plan", "plan.toml", "--output", "never"],
        ["evaluate", "reviews.csv", "--checkpoint", "never"],
        ["compare", "reviews.csv", "--output", "never"],
        ["search", "reviews.csv", "--output", "never"],
    ]
    keys = elliptic_pair(tmp_path / "keys")
    extra = ("transformers", "tensorboard", "mlflow", "huggingface_hub", "optuna", "OpenSSL")
    commands = [
        write_plan(tmp_path).command(tmp_path / "out"),
        arguments(tmp_path, "out", "--log-to", "tensorboard:runs"),
        arguments(tmp_path, "out", "--log-to", "mlflow"),
        ["fetch", "people/film", "--output", str(tmp_path / "out")],
        ["search", "rows.tsv", "--output", str(tmp_path / "out")],
        ["sign", str(checkpoint_folder), "--key", str(keys.private)],
        ["verify", str(checkpoint_folder), "--key", str(keys.public)],
    ]

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps([(needed, every), (extra, commands)]),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    lines = ended.stderr.splitlines()
    for line in lines[:5]:
        name = line.removeprefix("headlight-train: ").partition(" ")[0]
        assert name.partition(".")[0] in needed
        assert line == (
            f"headlight-train: {name} is not installed, which training needs and serving does "
            f"not: {INSTALL}train]'"
        )
    signing, verifying = lines[-2:]
    signatures = f" is not installed, which signatures need: {INSTALL}signing]'"
    assert re.fullmatch(rf"headlight-train: OpenSSL\S*{re.escape(signatures)}", signing)
    assert signing == verifying
    assert lines[5:-2] == [
        "headlight-train: transformers is not installed, which the teacher of a plan needs and "
        f"serving does not: {INSTALL}train,teacher]'",
        "headlight-train: tensorboard is not installed, which --log-to tensorboard needs: "
        f"{INSTALL}train,tensorboard]'",
        "headlight-train: mlflow is not installed, which --log-to mlflow needs: "
        f"{INSTALL}train,mlflow]'",
        "headlight-train: hf:people/film@main: huggingface_hub is not installed, which names of "
        f"the hub need: {INSTALL}hub]'",
        f"headlight-train: optuna is not installed, which search needs: {INSTALL}train,search]'",
    ]
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.run").exists()

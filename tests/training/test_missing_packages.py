"""Each missing package is one clear line, before any work: what needs it, and its extra."""

import json
from pathlib import Path

from tests.programs import run_python
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


def test_each_command_names_what_is_missing(tmp_path: Path) -> None:
    needed = ("matplotlib", "pyarrow", "scipy", "sklearn", "tqdm")
    every = [
        ["fit", "reviews.csv", "--output", "never"],
        ["evaluate", "reviews.csv", "--checkpoint", "never"],
        ["compare", "reviews.csv", "--output", "never"],
    ]
    extra = ("tensorboard", "mlflow", "huggingface_hub")
    commands = [
        arguments(tmp_path, "out", "--log-to", "tensorboard:runs"),
        arguments(tmp_path, "out", "--log-to", "mlflow"),
        ["fetch", "people/film", "--output", str(tmp_path / "out")],
    ]

    ended = run_python("-c", PROGRAM, input=json.dumps([(needed, every), (extra, commands)]))

    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    for line in lines[:3]:
        name = line.removeprefix("headlight-train: ").partition(" ")[0]
        assert name.partition(".")[0] in needed
        assert line == (
            f"headlight-train: {name} is not installed, which training needs and serving does "
            f"not: {INSTALL}train]'"
        )
    assert lines[3:] == [
        "headlight-train: tensorboard is not installed, which --log-to tensorboard needs: "
        f"{INSTALL}train,tensorboard]'",
        "headlight-train: mlflow is not installed, which --log-to mlflow needs: "
        f"{INSTALL}train,mlflow]'",
        "headlight-train: hf:people/film@main: huggingface_hub is not installed, which names of "
        f"the hub need: {INSTALL}hub]'",
    ]
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.run").exists()

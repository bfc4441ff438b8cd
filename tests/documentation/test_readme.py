"""The README names files, commands and limits that there are."""

import os
import shutil
import subprocess

import pytest

from model import open_checkpoint
from service.settings import Settings
from tests.documentation.markdown import README, ROOT, blocks, rows, sections
from training.__main__ import _parser

COMMANDS = [line for block in blocks(README, "bash") for line in block.content.splitlines()]


def test_every_name_of_the_tree_exists() -> None:
    (tree,) = blocks(README, "text")
    folder = ""
    paths = []
    for line in tree.content.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else name
        paths.append(folder + name if line.startswith(" ") else name)

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_quick_start_is_one_command() -> None:
    assert COMMANDS[0] == "make serve"
    assert "```bash\nmake serve\n```" in sections(README)["Quick start"]


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("make")])
def test_make_knows_the_commands(command: str) -> None:
    bash = shutil.which("bash")
    if bash is None or shutil.which("make") is None:
        reason = "make is not installed"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    assert bash is not None

    done = subprocess.run(
        [bash, "-c", f"{command} --dry-run"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "-m service" in done.stdout


def test_the_training_commands_are_understood() -> None:
    commands = [line.split()[1:] for line in COMMANDS if "/headlight-train" in line]

    parsed = [vars(_parser().parse_args(words)) for words in commands]
    assert [str(given["files"][0]) for given in parsed] == ["reviews.csv", "held-out.csv"]
    assert parsed[0]["output"] == parsed[1]["checkpoint"]


def test_the_limit_of_sentences_is_that_of_the_settings() -> None:
    limit = Settings.model_fields["max_sentences"].default

    assert f"up to {limit} sentences" in sections(README)["The interface"]


def test_the_figures_are_those_of_the_checkpoint() -> None:
    manifest = open_checkpoint(ROOT / "checkpoints" / "default").manifest

    assert rows(README, "set", "texts") == [
        (
            f"`{metric.name}`",
            f"{metric.rows:,}",
            f"{metric.accuracy:.1%}",
            f"{metric.interval[0]:.1%} to {metric.interval[1]:.1%}",
            f"{metric.log_loss:.3f}",
            f"{metric.ece:.3f}",
        )
        for metric in manifest.metrics
    ]
    assert f"It reads up to {manifest.max_length} tokens" in sections(README)["Limits"]

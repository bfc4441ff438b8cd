"""`make install` installs `headlight-train` too, but not what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_architecture import ROOT
from tests.training.tiny_plans import write_plan

COMMANDS = {
    "fit": ["fit", "reviews.csv", "--output", "never"],
    "fit --plan": ["fit", "--plan", "plan.toml", "--output", "never"],
    "evaluate": ["evaluate", "reviews.csv", "--checkpoint", "never"],
    "compare": ["compare", "reviews.csv", "--output", "never"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_says_what_to_install(command: str) -> None:
    hidden = ("matplotlib", "pyarrow", "scipy", "sklearn", "tqdm")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden})); "
        "from training.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, *COMMANDS[command]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    package = line.removeprefix("headlight-train: ").partition(" ")[0].partition(".")[0]
    assert package in hidden
    assert line == (
        f"headlight-train: {line.removeprefix('headlight-train: ').partition(' ')[0]} is not "
        "installed, which training needs and serving does not: "
        ".venv/bin/pip install --constraint constraints.txt --editable '.[train]'"
    )


def test_a_plan_with_a_teacher_says_before_any_work_that_transformers_is_missing(
    tmp_path: Path,
) -> None:
    tiny = write_plan(tmp_path)
    program = (
        "import sys; sys.modules['transformers'] = None; "
        "from training.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, *tiny.command(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (
        1,
        "",
        "headlight-train: transformers is not installed, which the teacher of a plan needs and "
        "serving does not: .venv/bin/pip install --constraint constraints.txt --editable "
        "'.[train,teacher]'\n",
    )
    assert not (tmp_path / "out.run").exists()

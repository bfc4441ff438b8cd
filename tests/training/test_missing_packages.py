"""`make install` installs `headlight-train` too, but not what it needs."""

import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

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

"""A run that has ended goes on for more epochs, as one run that was planned so."""

import json
from pathlib import Path

import pytest

from model.files import WEIGHTS
from tests.builders import tiny_checkpoint
from tests.training.tiny_runs import PRESET, Refusal, arguments, read_lines, write_preset
from training.__main__ import main
from training.errors import RecipeError
from training.fit.recipe import load_recipe

STATE = "state"


def history(folder: Path, output: str) -> list[dict[str, float]]:
    return read_lines(folder / f"{output}.run" / "history.jsonl")


def test_more_epochs_are_those_of_one_run_with_a_restart(tmp_path: Path) -> None:
    command = arguments(tmp_path, "out", "--epochs", "2")
    assert main([*command, "--keep-state"]) == 0
    first = (tmp_path / "out" / WEIGHTS).read_bytes()
    assert (tmp_path / "out.run" / STATE).is_dir()
    assert main([*command, "--extend", "3"]) == 0
    assert not (tmp_path / "out.run" / STATE).exists()

    write_preset(tmp_path / "tiny.toml", f"restarts = [2]\n{PRESET}")
    assert main(arguments(tmp_path, "whole", "--epochs", "5")) == 0

    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert (tmp_path / "out" / WEIGHTS).read_bytes() != first
    assert history(tmp_path, "out") == history(tmp_path, "whole")
    rates = [line["learning_rate"] for line in history(tmp_path, "out")]
    assert rates[1] < rates[2]  # it rises anew
    record = json.loads((tmp_path / "out" / "headlight.json").read_text())["recipe"]
    assert (record["epochs"], record["restarts"]) == (5, [2])


def test_a_run_that_stopped_early_can_be_lengthened(tmp_path: Path) -> None:
    # At this rate the first epoch stays the best one.
    options = ("--epochs", "9", "--patience", "1", "--learning-rate", "0.3")
    command = arguments(tmp_path, "out", *options)
    assert main([*command, "--keep-state"]) == 0
    done = len(history(tmp_path, "out"))
    assert done < 9
    assert main([*command, "--extend", "1"]) == 0
    record = json.loads((tmp_path / "out" / "headlight.json").read_text())["recipe"]
    assert (record["epochs"], record["restarts"]) == (done + 1, [done])


def test_without_a_state_the_other_way_is_told(tmp_path: Path, refusal: Refusal) -> None:
    command = arguments(tmp_path, "out", "--epochs", "1")
    tiny_checkpoint(tmp_path / "out")
    before = (tmp_path / "out" / WEIGHTS).read_bytes()
    assert refusal([*command, "--extend", "1"]) == (
        f"{tmp_path / 'out.run' / STATE}: no state of a run is kept there: fit with --keep-state "
        "first, or begin with only the weights by --init-from"
    )
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize("restarts", [[3], [2, 2], [2, 1]])
def test_restarts_ascend_below_the_epochs(restarts: list[int]) -> None:
    with pytest.raises(RecipeError, match="must ascend and be below epochs"):
        load_recipe("finetune", {"epochs": 3, "restarts": restarts})

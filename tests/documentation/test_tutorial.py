"""Every command of docs/tutorial.md runs, in its order, and answers what the page says."""

import contextlib
import csv
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.answers import TOLERANCE, ask, shown
from tests.documentation.markdown import ROOT, blocks, examples
from tests.end_to_end.servers import local_service
from tests.matching import near
from training.__main__ import main

PAGE = ROOT / "docs" / "tutorial.md"
FOLDER = ROOT / "docs" / "tutorial"
COMMANDS = [
    line
    for block in blocks(PAGE, "bash")
    for line in block.content.replace("\\\n", " ").splitlines()
]
FIRST, SECOND = examples(PAGE)
TRAIN = [shlex.split(line)[1:] for line in COMMANDS if "/headlight-train " in line]
OUTPUT = "checkpoints/messages"


def _train(folder: Path, arguments: list[str]) -> str:
    """Runs a command of training with a folder of its own in the place of `checkpoints`."""
    words = [str(folder / "messages") if word == OUTPUT else word for word in arguments]
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        assert main(words) == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that step 4 writes."""
    folder = tmp_path_factory.mktemp("checkpoints")
    _train(folder, TRAIN[0])
    return folder / "messages"


@pytest.fixture(scope="module")
def second_url(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service of step 5."""
    with local_service(trained, tmp_path_factory.mktemp("second")) as running:
        yield running.url


def test_no_command_is_left_out_of_these_tests() -> None:
    assert COMMANDS[0] == "make serve"
    assert COMMANDS[1] == ".venv/bin/pip install --constraint constraints.txt --editable '.[train]'"
    assert [words[0] for words in TRAIN] == ["fit", "evaluate"]
    assert COMMANDS[4:] == [
        f"make serve ARGS='--checkpoint {OUTPUT}'",
        "docker compose up --build --wait",
    ]


def test_the_service_answers_as_the_page_says(url: str) -> None:
    answer = ask(FIRST, url)
    assert near(answer, json.loads(FIRST.output), TOLERANCE), f"it answers {shown(answer)}"


def test_the_page_shows_rows_of_the_file() -> None:
    (shown_rows,) = blocks(PAGE, "csv")
    lines = (FOLDER / "messages.csv").read_text(encoding="utf-8").splitlines()
    assert set(shown_rows.content.splitlines()) <= set(lines)
    assert f"holds {len(lines) - 1} messages" in PAGE.read_text(encoding="utf-8")
    with (FOLDER / "held-out.csv").open(encoding="utf-8") as file:
        held_out = [row["text"] for row in csv.DictReader(file)]
    assert len(held_out) == 12
    assert not {text for text in held_out if text in "\n".join(lines)}


@pytest.mark.slow
def test_the_trained_model_is_as_good_as_the_page_says(trained: Path) -> None:
    printed = _train(trained.parent, TRAIN[1])
    accuracy = re.search(r"accuracy +([0-9.]+)%", printed)
    assert accuracy is not None, printed
    assert round(float(accuracy[1]) * 12 / 100) >= 11


@pytest.mark.slow
def test_the_trained_model_answers_as_the_page_says(second_url: str) -> None:
    """Training rounds differently on each kind of processor, so only the label is exact."""
    answer = _without_digits(ask(SECOND, second_url))
    assert answer == _without_digits(json.loads(SECOND.output))


def _without_digits(answer: object) -> tuple[object, ...]:
    assert isinstance(answer, dict)
    ((prediction),) = answer["predictions"]
    assert prediction["score"] > 0.5
    assert len(answer["model"]["version"]) == 12
    return (
        answer["model"]["name"],
        prediction["label"],
        list(prediction),
        list(prediction["probabilities"]),
        prediction["token_count"],
        prediction["truncated"],
    )

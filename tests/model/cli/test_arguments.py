"""Options: their values in our words, and the version of each program."""

from collections.abc import Callable
from importlib.metadata import version

import pytest

from model.cli.arguments import LineParser, number, positive, whole
from service.__main__ import main as serve
from tests.programs import UsageFault
from training.__main__ import main as train


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (whole, "1.5", "must be a whole number, got '1.5'"),
        (number, "many", "must be a number, got 'many'"),
        (positive, "0", "must be a whole number of at least 1, got '0'"),
    ],
)
def test_what_does_not_fit_names_the_option_that_was_typed(
    usage_fault: UsageFault, kind: Callable[[str], float], text: str, message: str
) -> None:
    parser = LineParser(prog="a-program")
    parser.add_argument("--some-option", type=kind)
    expected = f"a-program: argument --some-option: {message}; see a-program --help\n"
    assert usage_fault(parser.parse_args, "--some-option", text) == expected
    assert kind("7") == 7


@pytest.mark.parametrize(("main", "name"), [(serve, "headlight-serve"), (train, "headlight-train")])
def test_each_program_prints_its_version(
    capsys: pytest.CaptureFixture[str], main: Callable[[list[str]], int], name: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr() == (f"{name} {version('headlight')}\n", "")


@pytest.mark.parametrize(
    ("main", "typed", "hint"),
    [
        (serve, ["--max-sentence=5"], "; did you mean --max-sentences?"),
        (serve, ["--xyzzy"], ""),
        (train, ["evaluate", "f", "--checkpoint", "c", "--jsn", "x"], "; did you mean --json?"),
    ],
)
def test_an_unknown_option_shows_the_nearest(
    usage_fault: UsageFault, main: Callable[[list[str]], int], typed: list[str], hint: str
) -> None:
    shown = usage_fault(main, *typed)
    assert shown.count("\n") == 1
    assert "unrecognized arguments: " in shown
    assert ("did you mean" in shown) == bool(hint)
    assert hint in shown


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (
            ["fit", "f", "--output", "o", "--dtype", "float23"],
            "headlight-train fit: argument --dtype: must be one of auto, float32, bfloat16, got "
            "'float23'; did you mean float32?; see headlight-train fit --help\n",
        ),
        (["evalute"], ", got 'evalute'; did you mean evaluate?; see headlight-train --help\n"),
    ],
)
def test_a_value_that_is_no_choice_shows_the_choices_and_the_nearest(
    usage_fault: UsageFault, typed: list[str], line: str
) -> None:
    shown = usage_fault(train, *typed)
    assert shown.count("\n") == 1
    assert shown.endswith(line)

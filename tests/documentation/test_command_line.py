"""docs/reference/command-line.md has every command, option and default, and no other."""

import argparse
import re

import pytest

import scoring.__main__
import training.__main__
from service.command import make_parser
from service.settings import Settings
from tests.documentation.markdown import REFERENCE, ROOT, code, codes, rows, sections
from training.compare.variants import VARIANTS
from training.fit.recipe import NetworkSizes, Recipe, presets

PAGE = REFERENCE / "command-line.md"
EVALUATE = REFERENCE / "evaluate.md"


# What every program has; the page tells of both once.
_OF_EVERY_COMMAND = ("help", "version")


def _trainers() -> dict[str, argparse.ArgumentParser]:
    (commands,) = (
        action
        for action in training.__main__._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(commands.choices)


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {
        action.option_strings[-1]: action
        for action in parser._actions
        if action.option_strings and action.dest not in _OF_EVERY_COMMAND
    }


PARSERS = {
    "headlight-serve": make_parser(),
    **{f"headlight-train {name}": parser for name, parser in _trainers().items()},
    "headlight-score": scoring.__main__._parser(),
}
# How the page says what the parser leaves open.
DECIDED_LATER = (
    "none",
    "known by its name",
    "from the files",
    "a share of the rows",
    "the preset's",
    "the output with `.run` behind it",
    "the CPU quota, or the cores",
    "all",
    "the one that ships",
    "once and twice the preset's",
    "0.3, 1 and 3 times the preset's",
    "one for each core or GPU",
    "one on this machine",
    "`small`; `finetune` with `--init-from`",
)


def test_what_every_program_has_is_told_first() -> None:
    beginning = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]

    assert {f"--{name}" for name in _OF_EVERY_COMMAND} <= set(codes(beginning))
    for parser in (make_parser(), training.__main__._parser(), scoring.__main__._parser()):
        found = {action.dest for action in parser._actions}
        assert found >= set(_OF_EVERY_COMMAND)


def test_every_command_has_a_section() -> None:
    assert set(sections(PAGE)) == {*PARSERS, "make"}


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_of_a_command_is_described(command: str) -> None:
    table = rows(PAGE, "option", "default", section=command)

    assert [code(option) for option, *_ in table] == list(_options(PARSERS[command]))


@pytest.mark.parametrize("command", list(PARSERS)[1:])
def test_the_defaults_of_training_are_those_of_the_parser(command: str) -> None:
    for option, default, *_ in rows(PAGE, "option", "default", section=command):
        action = _options(PARSERS[command])[code(option)]
        if action.required:
            assert default == "required"
        elif isinstance(action.default, bool):
            assert default == "off"
        elif action.dest == "shard":
            assert code(default) == "/".join(map(str, action.default))
        elif action.default and default not in DECIDED_LATER:
            assert code(default) == str(action.default)
        else:
            assert default in DECIDED_LATER


def test_the_defaults_of_serving_are_those_of_the_settings() -> None:
    for option, default in rows(PAGE, "option", "default", section="headlight-serve"):
        value = Settings.model_fields[code(option).removeprefix("--").replace("-", "_")].default
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert code(default) == ("none" if value is None else shown)


def test_choices_are_named() -> None:
    sections_of = {
        "headlight-train fit": PAGE,
        "headlight-score": PAGE,
        "headlight-train evaluate": EVALUATE,
    }
    for command, page in sections_of.items():
        section = command if page == PAGE else None
        described = {
            codes(option)[0].split()[0]: codes(words)
            for option, _, words in rows(page, "option", "default", section=section)
        }
        for option, action in _options(PARSERS[command]).items():
            assert set(action.choices or ()) <= set(described[option]), option


def test_the_page_of_evaluate_has_its_options() -> None:
    named = [codes(option)[0].split()[0] for option, *_ in rows(EVALUATE, "option", "default")]

    assert named == list(_options(PARSERS["headlight-train evaluate"]))


def test_every_field_of_a_recipe_is_described() -> None:
    table = rows(PAGE, "field", "default")

    assert {code(field): code(default) for field, default, _ in table} == {
        name: "none" if field.default is None else str(field.default)
        for name, field in Recipe.model_fields.items()
    }
    assert codes(table[0][2]) == list(NetworkSizes.model_fields)


def test_every_variant_is_described() -> None:
    table = rows(PAGE, "variant", "", section="headlight-train compare")

    assert [code(name) for name, _ in table] == [*VARIANTS, "tf-idf"]


def test_every_preset_that_ships_is_described() -> None:
    assert [code(name) for name, _ in rows(PAGE, "preset", "for")] == list(presets())


def test_every_target_of_make_is_described() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)

    assert sorted(code(cells[0]) for cells in rows(PAGE, "command", "does")) == sorted(
        f"make {target}" for target in targets
    )


def test_every_variable_of_make_is_described() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    variables = re.findall(r"^#   ([A-Z_]+)=", makefile, re.MULTILINE)

    documented = [code(cells[0]).partition("=")[0] for cells in rows(PAGE, "variable")]
    assert documented == variables

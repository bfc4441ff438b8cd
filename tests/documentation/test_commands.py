"""The commands that pages show have options and targets that there are."""

import re

import pytest

from service.command import make_parser
from tests.documentation.markdown import README, ROOT, blocks, codes, commands, pages, sections
from tools.tables import parsers

_PROGRAM = re.compile(r"(?:\S*/)?headlight-(serve|score|train +(\w+))|-m training (\w+)")
_TARGETS = re.findall(
    r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
)
_OPTIONS = {
    name: {option for action in parser._actions for option in action.option_strings}
    for name, parser in {**parsers(), "serve": make_parser()}.items()
}
COMMANDS = [
    pytest.param(line, id=f"{page.name}: {line[:80]}")
    for page in pages()
    for line in commands(page)
    if _PROGRAM.search(line) or line.startswith("make ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_options_and_targets_of_a_command_exist(command: str) -> None:
    if command.startswith("make "):
        assert command.split()[1] in _TARGETS or "=" in command.split()[1]
        return
    program = _PROGRAM.search(command)
    assert program is not None
    name = program[2] or program[3] or program[1]
    used = re.findall(r"(?<!\S)--[a-z][a-z-]*", command[program.end() :])
    assert set(used) <= _OPTIONS[name]


def test_every_name_of_the_tree_in_the_readme_exists() -> None:
    (tree,) = blocks(README, "text")
    folder = ""
    paths = []
    for line in tree.content.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else name
        paths.append(folder + name if line.startswith(" ") else name)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_test_that_is_named_to_show_a_defence_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = [span for span in codes(text) if span.startswith("tests/")]
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_quick_start_is_one_command() -> None:
    assert "```bash\nmake serve\n```" in sections(README)["Quick start"]


def test_the_architecture_names_files_that_there_are() -> None:
    page = ROOT / "docs" / "concepts" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:model|service|training|scoring)/[\w/]+(?:\.\w+)?)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
    for package in ("model", "service"):
        rooms = [x.name for x in (ROOT / package).iterdir() if (x / "__init__.py").exists()]
        section = sections(page)[package]
        assert [room for room in rooms if f"`{room}/`" not in section] == []

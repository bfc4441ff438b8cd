"""docs/questions.md quotes messages as the code says them, with `…` for values."""

import ast
import re
from pathlib import Path

import pytest

from service.errors import ALL_ERRORS
from service.settings import PREFIX
from tests.documentation.markdown import ROOT, codes, rows

PAGE = ROOT / "docs" / "questions.md"
_VALUE = "…"
# Whatever a message says of others: of the operating system, for example.
_OF_OTHERS = ("Address already in use",)
_SHELL = re.compile(r"\$\$\([^()]*\)|\$\([^()]*\)|'\$\([^()]*\)'")


def _spoken(node: ast.expr) -> str | None:
    """What a literal says, values as `…`, and the prefix of settings as itself."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    said = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            said += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            is_prefix = isinstance(part.value, ast.Name) and part.value.id == "PREFIX"
            said += PREFIX if is_prefix else _VALUE
    return said


def _said_in(source: Path) -> list[str]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    found = (_spoken(node) for node in ast.walk(tree) if isinstance(node, ast.expr))
    return [words for words in found if words]


SAID = [
    words
    for package in ("model", "service", "training")
    for source in sorted((ROOT / package).rglob("*.py"))
    for words in _said_in(source)
]
SAID += _SHELL.sub(_VALUE, (ROOT / "Makefile").read_text("utf-8")).splitlines()
MESSAGES = [codes(cells[0])[0] for cells in rows(PAGE, "message", "what to do")]
MESSAGES += [codes(cells[1])[0] for cells in rows(PAGE, "status", "message")]


def _is_said(message: str) -> bool:
    """Whether one literal has every word of a message, in its order, and values between them."""
    for words in _OF_OTHERS:
        message = message.replace(words, _VALUE)
    parts = [re.escape(part.strip()) for part in message.split(_VALUE)]
    pattern = re.compile(rf"\s*{_VALUE}.*?".join(parts))
    return any(pattern.search(words) for words in SAID)


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 20
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_said_by_the_code(message: str) -> None:
    assert len(message.replace(_VALUE, "").strip()) > 10
    assert _is_said(message)


def test_a_status_is_one_of_the_table_of_errors() -> None:
    statuses = {int(cells[0]) for cells in rows(PAGE, "status", "message")}

    assert statuses <= {kind.status for kind in ALL_ERRORS}

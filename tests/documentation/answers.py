"""From the `curl` examples of the pages to the answers of a real service, and back into the pages.

After a change of the interface or of the checkpoint, `python -m tests.documentation.answers` asks
the service that is given and writes what it answers into the pages.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from tests.commands import printed
from tests.documentation.markdown import GUIDES, README, REFERENCE, Example, examples

PAGES = (README, REFERENCE / "http.md", GUIDES / "moving-over.md")
ADDRESS = "http://127.0.0.1:8000"
TOLERANCE = 0.02  # of floats

_WIDTH = 100
_DIGITS = 4


def curl_examples(page: Path) -> list[Example]:
    return [example for example in examples(page) if example.command.startswith("curl ")]


def ask(example: Example, url: str) -> object:
    """The JSON that the command of an example prints, of another service than that at `ADDRESS`."""
    bash = shutil.which("bash")
    assert bash is not None
    command = example.command.replace(ADDRESS, url)
    assert ADDRESS in example.command, f"asks another service: {example.command}"
    environment = {**os.environ, "NO_PROXY": "*"}
    return json.loads(printed(bash, "-c", command, env=environment))


def shown(answer: object) -> str:
    """An answer as pages show it: over lines that are not too long, numbers rounded."""
    return _lines(_rounded(answer), indent=0, column=0)


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {name: _rounded(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def _lines(value: object, *, indent: int, column: int) -> str:
    """A value that begins in a column; further lines are indented."""
    short = json.dumps(value, ensure_ascii=False)
    if column + len(short) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return short
    inner = indent + 1
    if isinstance(value, dict):
        parts = []
        for name, member in value.items():
            head = f"{json.dumps(name)}: "
            parts.append(head + _lines(member, indent=inner, column=inner + len(head)))
    else:
        parts = [_lines(item, indent=inner, column=inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + _filled(parts, indent=inner) + closing


def _filled(parts: list[str], *, indent: int) -> str:
    """Puts as many parts on a line as have room there."""
    lines = [parts[0]]
    for part in parts[1:]:
        joined = f"{lines[-1]}, {part}"
        if "\n" not in joined and indent + len(joined) <= _WIDTH:
            lines[-1] = joined
        else:
            lines.append(part)
    return f",\n{' ' * indent}".join(lines)


def _rewrite(page: Path, url: str) -> None:
    text = page.read_text(encoding="utf-8")
    for example in curl_examples(page):
        before = f"$ {example.command}\n{example.output}\n"
        text = text.replace(before, f"$ {example.command}\n{shown(ask(example, url))}\n")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        _rewrite(each, sys.argv[1] if len(sys.argv) > 1 else ADDRESS)

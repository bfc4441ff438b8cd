"""From a Markdown page to what tests compare: tables, code blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_BAR = re.compile(r"(?<!\\)\|")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Args:
        language: what stands behind the fence.
        content: its lines, the last one ended too.
    """

    language: str
    content: str


@dataclass(frozen=True, slots=True)
class Example:
    """A command and what it prints, from a `console` block.

    Args:
        command: without its prompt, over one or more lines.
        output: the lines behind it.
    """

    command: str
    output: str


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    folders = [ROOT / name for name in ("docs", "checkpoints", "benchmarks", "client")]
    return sorted([*ROOT.glob("*.md"), *(page for x in folders for page in x.rglob("*.md"))])


def blocks(page: Path, language: str) -> list[Block]:
    """The fenced blocks of a language, in their order."""
    return [block for block in all_blocks(page) if block.language == language]


def all_blocks(page: Path) -> list[Block]:
    """Every fenced block, in their order."""
    return [Block(*match) for match in _FENCE.findall(page.read_text(encoding="utf-8"))]


def examples(page: Path) -> list[Example]:
    """The commands of all `console` blocks, each with what it prints."""
    return [example for block in blocks(page, "console") for example in _examples(block.content)]


def _examples(content: str) -> Iterator[Example]:
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        length = next(at for at, line in enumerate(lines) if not line.endswith("\\")) + 1
        yield Example("\n".join(lines[:length]), "\n".join(lines[length:]))


def sections(page: Path) -> dict[str, str]:
    """The text behind each heading of the second level."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


def rows(page: Path, *header: str, section: str | None = None) -> list[tuple[str, ...]]:
    """The cells of all tables whose header begins with these cells.

    Args:
        page: in which they are.
        header: the first cells, or all.
        section: of the page, by its heading; the whole page if None.
    """
    text = page.read_text(encoding="utf-8") if section is None else sections(page)[section]
    found: list[tuple[str, ...]] = []
    inside = False
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in _BAR.split(line.strip().strip("|")))
        if not line.startswith("|"):
            inside = False
        elif cells[: len(header)] == header:
            inside = True
        elif inside and set(line) - set("|- :"):
            found.append(cells)
    assert found, f"{page.name} has no table {header}"
    return found


def codes(cell: str) -> list[str]:
    """What stands in code spans, in its order."""
    return [span.strip("`") for span in _CODE_SPAN.findall(cell)]


def code(cell: str) -> str:
    """What a cell holds, if it holds one code span and nothing else; else its words."""
    return cell.strip("`") if _CODE_SPAN.fullmatch(cell) else cell


def links(page: Path) -> list[str]:
    """The targets of all links, what looks like one inside of code left out."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(_CODE_SPAN.sub("code", text))


def anchors(page: Path) -> set[str]:
    """The fragments that the headings of a page can be reached by, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        anchor = _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found

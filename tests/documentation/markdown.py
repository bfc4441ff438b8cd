"""From a Markdown page to what tests compare: tables, code blocks, headings and links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDES = ROOT / "docs" / "guides"
REFERENCE = ROOT / "docs" / "reference"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_BAR = re.compile(r"(?<!\\)\|")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, and its lines, the last one ended too."""

    language: str
    content: str


@dataclass(frozen=True, slots=True)
class Example:
    """A command without its prompt, and the lines that it prints, from a `console` block."""

    command: str
    output: str


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    folders = [ROOT / name for name in ("docs", "checkpoints", "client", "deploy")]
    return sorted([*ROOT.glob("*.md"), *(page for x in folders for page in x.rglob("*.md"))])


def blocks(page: Path, language: str) -> list[Block]:
    """The fenced blocks of a language, in their order."""
    return [block for block in all_blocks(page) if block.language == language]


def all_blocks(page: Path) -> list[Block]:
    return [Block(*match) for match in _FENCE.findall(page.read_text(encoding="utf-8"))]


def commands(page: Path) -> list[str]:
    """What `bash` blocks and indented blocks run, each command on one line."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    indented = re.findall(r"^    (\S.*)$", _FENCE.sub("", text), re.MULTILINE)
    fenced = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [*indented, *(line for block in fenced for line in block.splitlines())]
    return [" ".join(line.split()) for line in lines]


def examples(page: Path) -> list[Example]:
    """The commands of the `console` blocks, each with its output."""
    found = []
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block.content, flags=re.MULTILINE)[1:]:
            lines = part.rstrip("\n").split("\n")
            length = 1 + next(i for i, line in enumerate(lines) if not line.endswith("\\"))
            found.append(Example("\n".join(lines[:length]), "\n".join(lines[length:])))
    return found


def sections(page: Path) -> dict[str, str]:
    """The text behind each heading of the second level."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


def rows(page: Path, *header: str) -> list[tuple[str, ...]]:
    """The cells of all tables whose header begins with these cells."""
    found: list[tuple[str, ...]] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = tuple(cell.strip() for cell in _BAR.split(line.strip().strip("|")))
        if not line.startswith("|"):
            inside = False
        elif cells[: len(header)] == header:
            inside = True
        elif inside and set(line) - set("|- :"):
            found.append(cells)
    assert found, f"{page.name} has no table {header}"
    return found


def codes(text: str) -> list[str]:
    """What stands in code spans, in its order."""
    return [span.strip("`") for span in _CODE_SPAN.findall(text)]


def code(cell: str) -> str:
    """What a cell holds, if it holds one code span and nothing else; else its words."""
    return cell.strip("`") if _CODE_SPAN.fullmatch(cell) else cell


def links(page: Path) -> list[str]:
    """The targets of all links, without what looks like one inside of code."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(_CODE_SPAN.sub("code", text))


def anchors(page: Path) -> set[str]:
    """The fragments of the headings of a page, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        anchor = _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found

"""Turns docs/ into a site: the navigation from docs/index.md, and links that lead out of docs/.

mkdocs loads this module as a hook. A page may link to any file of the repository, as it does where
the repository is read. On the site, such a file is a page under `repository/`: Markdown as it is,
other text as a block of code, a folder as a list. Their own links are followed in the same way.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "repository"
"""Where the site has files that are not in docs/."""

# A block of code, a span of code, or the target of a link: the first that begins wins.
_PARTS = re.compile(
    r"(?P<block>^```.*?^```$)|(?P<span>`[^`\n]+`)|(?P<before>\]\()(?P<target>[^()\s]+)(?=\))",
    re.MULTILINE | re.DOTALL,
)
_ENTRY = re.compile(r"\[(?P<title>[^\[\]]+)\]\((?P<target>[^()\s#]+\.md)\)")
_SECTION = re.compile(r"^## +(.+?) *$", re.MULTILINE)
_LANGUAGES = {
    "Dockerfile": "docker",
    "Makefile": "make",
    ".cfg": "cfg",
    ".json": "json",
    ".py": "python",
    ".sh": "bash",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}

Entry: TypeAlias = "dict[str, str | Navigation]"
Navigation: TypeAlias = list[Entry]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Reads the navigation from the lists of docs/index.md."""
    index = Path(config.docs_dir, "index.md")
    config.nav = [{"Home": "index.md"}, *navigation(index)]
    return config


def navigation(index: Path) -> Navigation:
    """The sections of an index, each with the pages that its lists link to.

    Args:
        index: with a heading of the second level for each section.

    Returns:
        What mkdocs takes as `nav`. Links that lead out of the folder of the index are left out. A
        page called README.md stands for its folder: the pages that its own links name follow it.
    """
    _, *parts = _SECTION.split(index.read_text(encoding="utf-8"))
    sections = zip(parts[::2], parts[1::2], strict=True)
    return [{title: list(_entries(index.parent, text, "index.md"))} for title, text in sections]


def _entries(docs: Path, text: str, source: str) -> Iterator[Entry]:
    """Every page once, in the order of the links in a text of the page `source`."""
    seen = {source}
    for found in _ENTRY.finditer(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        if target in seen or target.startswith(".."):
            continue
        seen.add(target)
        if target.endswith("/README.md"):
            inner = _entries(docs, (docs / target).read_text(encoding="utf-8"), target)
            pages = [entry for entry in inner if next(iter(entry.values())) not in seen]
            yield {found["title"]: [{found["title"]: target}, *pages]}
        else:
            yield {_title(found["title"], docs / target): target}


def _title(link: str, page: Path) -> str:
    """The words of a link to a page; what the page calls itself if the link is a number."""
    first, _, _ = page.read_text(encoding="utf-8").partition("\n")
    words = first.removeprefix("# ") if link.isdecimal() else link
    return (words[:1].upper() + words[1:]).replace("`", "")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside docs/ that a page links to, and for those it links to."""
    docs = Path(config.docs_dir)
    waiting = [
        (f"{docs.name}/{file.src_uri}", Path(docs, file.src_uri).read_text(encoding="utf-8"))
        for file in files.documentation_pages()
    ]
    made: set[str] = set()
    while waiting:
        source, text = waiting.pop()
        for target in _targets(source, text):
            if target in made or target.startswith(f"{docs.name}/"):
                continue
            made.add(target)
            content = _content(docs.parent, target, source)
            files.append(File.generated(config, _place(target), content=content))
            waiting.append((target, content))
    return files


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,
    files: Files,  # noqa: ARG001 -- mkdocs passes it by its name
) -> str:
    """Points links that lead out of docs/ to the pages made of their targets."""
    return as_on_site(markdown, page.file.src_uri, docs=Path(config.docs_dir).name)


def as_on_site(markdown: str, place: str, *, docs: str = "docs") -> str:
    """A page as the site has it.

    Args:
        markdown: as it stands in the repository.
        place: of the page on the site.
        docs: the folder of the repository that holds the pages.

    Returns:
        The page with links that hold on the site. In code, a bar needs no backslash there.
    """
    source = _origin(place, docs)

    def replaced(part: re.Match[str]) -> str:
        target = part["target"]
        if target is None:
            return part[0].replace("\\|", "|") if part["span"] else part[0]
        path, _, fragment = target.partition("#")
        if not path or _is_elsewhere(target):
            return part[0]
        goal = _joined(source, path)
        inside = goal.startswith(f"{docs}/")
        here = goal.removeprefix(f"{docs}/") if inside else _place(goal)
        relative = posixpath.relpath(here, posixpath.dirname(place) or ".")
        return part["before"] + relative + (f"#{fragment}" if fragment else "")

    return _PARTS.sub(replaced, markdown)


def _targets(source: str, text: str) -> Iterator[str]:
    """The files of the repository that a file links to."""
    if source.endswith(".md"):
        for part in _PARTS.finditer(text):
            path = (part["target"] or "").partition("#")[0]
            if path and not _is_elsewhere(path):
                yield _joined(source, path)


def _content(root: Path, target: str, source: str) -> str:
    """What the page of a file holds, or of a folder."""
    path = root / target
    if target.startswith("..") or not path.exists():
        raise PluginError(f"{source} links to {target}, which is not in the repository")
    if path.is_dir():
        names = sorted(item.name for item in path.iterdir() if item.name != "__pycache__")
        return f"# `{target}/`\n\n" + "\n".join(f"- `{name}`" for name in names) + "\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = _LANGUAGES.get(path.suffix or path.name, "text")
    return f"# `{target}`\n\n````{language}\n{text.rstrip()}\n````\n"


def _place(target: str) -> str:
    """Where the site has a file of the repository."""
    return f"{FOLDER}/{target}" + ("" if target.endswith(".md") else ".md")


def _origin(place: str, docs: str) -> str:
    """The file of the repository that a page of the site was made of, or one beside it."""
    inside = place.startswith(f"{FOLDER}/")
    return place.removeprefix(f"{FOLDER}/") if inside else f"{docs}/{place}"


def _joined(source: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _is_elsewhere(target: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is not None

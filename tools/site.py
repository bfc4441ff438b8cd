"""Makes pages of the files outside docs/ that the documentation links to, as a hook of mkdocs.

On the site such a file is a page under `repository/`: Markdown as it is, other text as a block of
code. Its own links stay where they lead to another page of the site, and become words elsewhere.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "repository"

# Code, in which nothing is a link, or a link: the first that begins wins.
_PARTS = re.compile(
    r"```.*?^```$|`[^`\n]+`|\[(?P<text>[^\[\]]*)\]\((?P<path>[^()\s#]+)(?P<place>#[^()\s]+)?\)",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside docs/ that a page links to."""
    docs = Path(config.docs_dir)
    found: set[str] = set()
    for file in files.documentation_pages():
        text = (docs / file.src_uri).read_text(encoding="utf-8")
        found.update(_targets(f"{docs.name}/{file.src_uri}", text))
    for target in sorted(x for x in found if not x.startswith(f"{docs.name}/")):
        content = _content(docs.parent / target, target)
        files.append(File.generated(config, _address(target), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links that lead out of docs/ to the pages made of their targets."""
    docs = Path(config.docs_dir).name
    here = page.file.src_uri
    outside = here.startswith(f"{FOLDER}/")
    source = here.removeprefix(f"{FOLDER}/") if outside else f"{docs}/{here}"

    def replaced(part: re.Match[str]) -> str:
        path = part["path"]
        if not path or _ELSEWHERE.match(path):
            return part[0]
        goal = _joined(source, path)
        inside = goal.startswith(f"{docs}/")
        address = goal.removeprefix(f"{docs}/") if inside else _address(goal)
        if outside and files.get_file_from_path(address) is None:
            return part["text"]
        relative = posixpath.relpath(address, posixpath.dirname(here) or ".")
        return f"[{part['text']}]({relative}{part['place'] or ''})"

    return _PARTS.sub(replaced, markdown)


def _targets(source: str, text: str) -> Iterator[str]:
    for part in _PARTS.finditer(text):
        if part["path"] and not _ELSEWHERE.match(part["path"]):
            yield _joined(source, part["path"])


def _joined(source: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _address(target: str) -> str:
    return f"{FOLDER}/{target}" + ("" if target.endswith(".md") else ".md")


def _content(path: Path, target: str) -> str:
    if path.is_dir():
        names = sorted(item.name for item in path.iterdir() if item.name != "__pycache__")
        return f"# `{target}/`\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# `{target}`\n\n````text\n{text.rstrip()}\n````\n"

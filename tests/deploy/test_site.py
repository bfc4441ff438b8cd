"""The site of docs/: without a dead link, and whole without the internet."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.end_to_end.servers import environment

ROOT = Path(__file__).parents[2]
_WITHOUT_NETWORK = """
import socket, sys
def refuse(*_):
    raise AssertionError("the build of the site uses the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(sys.argv[1:], prog_name="mkdocs")
"""
# Attributes that a browser loads by itself.
_LOADED = {"src", "srcset", "poster", "data", "background", "action", "formaction"}
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


@dataclass
class Page(HTMLParser):
    """The addresses that a browser loads by itself, the links, and the anchors of a page."""

    assets: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors.update(attributes[name] for name in ("id", "name") if name in attributes)
        self.assets += [attributes[name] for name in sorted(_LOADED & set(attributes))]
        if "href" in attributes:
            (self.links if tag in {"a", "area"} else self.assets).append(attributes["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of the site, built strictly with sockets that cannot connect."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK, "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment({"NO_MKDOCS_2_WARNING": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {path: Page() for path in folder.rglob("*.html")}
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    return pages


def test_every_link_leads_to_a_page_and_a_place_on_it(site: dict[Path, Page]) -> None:
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            has_place = not fragment or target not in site or fragment in site[target].anchors
            if not target.is_file() or not has_place:
                dead.append((path.name, link))

    assert dead == []


def test_no_page_loads_anything_from_elsewhere(site: dict[Path, Page]) -> None:
    loaded = [(path.name, each) for path, page in site.items() for each in page.assets]
    root = next(path.parent for path in site if path.name == "404.html")
    for sheet in root.rglob("*.css"):
        targets = _IN_STYLES.findall(sheet.read_text(encoding="utf-8"))
        loaded += [(sheet.name, target) for target in targets]

    assert len(loaded) > 5
    assert [each for each in loaded if _ELSEWHERE.match(each[1])] == []

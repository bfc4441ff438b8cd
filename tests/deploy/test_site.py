"""The site of docs/: built strictly, and whole without the internet."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

from tests.commands import printed
from tests.end_to_end.servers import environment

_WITHOUT_NETWORK = """
import socket, sys
def refuse(*_):
    raise AssertionError("the build of the site uses the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(sys.argv[1:], prog_name="mkdocs")
"""
# Attributes that a browser loads by itself; of links only those that are not to be followed.
_LOADED = {"src", "srcset", "poster", "data", "background", "action", "formaction"}
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


class Assets(HTMLParser):
    """Collects the addresses that a browser loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loaded = _LOADED if tag in {"a", "area"} else {*_LOADED, "href"}
        self.addresses += [value or "" for name, value in attrs if name in loaded]


def test_no_page_loads_anything_from_elsewhere(tmp_path: Path) -> None:
    build = (sys.executable, "-c", _WITHOUT_NETWORK, "build", "--strict", "--site-dir", tmp_path)
    printed(*build, env=environment({"NO_MKDOCS_2_WARNING": "1"}))
    loaded = []
    for page in tmp_path.rglob("*.html"):
        addresses = Assets(page.read_text(encoding="utf-8")).addresses
        loaded += [(page.name, address) for address in addresses]
    for sheet in tmp_path.rglob("*.css"):
        targets = _IN_STYLES.findall(sheet.read_text(encoding="utf-8"))
        loaded += [(sheet.name, target) for target in targets]
    assert len(loaded) > 5
    assert [each for each in loaded if _ELSEWHERE.match(each[1])] == []

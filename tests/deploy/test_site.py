"""The site of docs/: built strictly, and whole without the internet."""

import re
import sys
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
# Tags but links that are to be followed, and their attributes that a browser loads by itself.
_TAG = re.compile(r"<(?!/|a\s|area\s)\w[^>]*>")
_LOADED = re.compile(
    r'\s(?:src|srcset|poster|data|background|action|formaction|href)="([^"]*)"',
)
_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


def test_no_page_loads_anything_from_elsewhere(tmp_path: Path) -> None:
    build = (sys.executable, "-c", _WITHOUT_NETWORK, "build", "--strict", "--site-dir", tmp_path)
    printed(*build, env=environment({"NO_MKDOCS_2_WARNING": "1"}))
    loaded = []
    for page in tmp_path.rglob("*.html"):
        tags = _TAG.findall(page.read_text(encoding="utf-8"))
        loaded += [(page.name, address) for tag in tags for address in _LOADED.findall(tag)]
    for sheet in tmp_path.rglob("*.css"):
        targets = _IN_STYLES.findall(sheet.read_text(encoding="utf-8"))
        loaded += [(sheet.name, target) for target in targets]
    assert len(loaded) > 5
    assert [each for each in loaded if _ELSEWHERE.match(each[1])] == []

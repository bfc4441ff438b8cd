"""Builds a site without a network, and reads what its pages name."""

import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

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
# Whatever a browser loads by itself while it shows a page.
_LOADED = {"src", "srcset", "poster", "data", "background", "action", "formaction"}


def build(configuration: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds a site strictly into a folder, with sockets that cannot connect."""
    arguments = ["build", "--strict", "--config-file", str(configuration), "--site-dir"]
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK, *arguments, str(folder)],
        cwd=configuration.parent,
        env=environment({"NO_MKDOCS_2_WARNING": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass
class Found(HTMLParser):
    """What a page of the site holds.

    Args:
        assets: addresses that a browser loads by itself.
        links: where its links lead.
        anchors: fragments that it can be reached by.
        navigation: the links of the main navigation.
    """

    assets: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    navigation: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self.assets += [given[name] for name in sorted(_LOADED & set(given))]
        if "href" not in given:
            return
        (self.links if tag in {"a", "area"} else self.assets).append(given["href"])
        if tag == "a" and "md-nav__link" in given.get("class", ""):
            self.navigation.append(given["href"])


def read(page: Path) -> Found:
    """What a built page holds."""
    found = Found()
    found.feed(page.read_text(encoding="utf-8"))
    return found

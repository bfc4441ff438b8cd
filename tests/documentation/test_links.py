"""Every link of every page leads somewhere, and no page names a place of one machine."""

import re
from pathlib import Path

import pytest

from tests.documentation.markdown import README, ROOT, anchors, links, pages

_PRIVATE = re.compile(r"(?:/home/|/Users/|/root/|/work/|/tmp/|[A-Z]:\\|file://)\w*")
EVERY = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


@EVERY
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if fragment:
            assert fragment in anchors(target), link


@EVERY
def test_links_to_elsewhere_are_encrypted(page: Path) -> None:
    unencrypted = [link for link in links(page) if link.startswith("http://")]

    assert unencrypted == []


@EVERY
def test_no_page_names_a_place_of_one_machine(page: Path) -> None:
    assert _PRIVATE.findall(page.read_text(encoding="utf-8")) == []


@EVERY
def test_a_page_begins_with_its_title(page: Path) -> None:
    assert re.match(r"# \S", page.read_text(encoding="utf-8"))


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {README}
    waiting = [README]
    while waiting:
        page = waiting.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)

    assert sorted(set(pages()) - reached) == []

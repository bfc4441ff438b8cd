"""Every page keeps to its budget of words, links lead somewhere, and each page can be reached."""

import re
from pathlib import Path

import pytest

from tests.documentation.markdown import README, ROOT, anchors, links, pages

# Most words of each page, as `wc -w` counts them.
BUDGETS = {
    "README.md": 900,
    "CHANGELOG.md": 700,
    "CONTRIBUTING.md": 1000,
    "SECURITY.md": 850,
    "checkpoints/default/README.md": 100,
    "checkpoints/two-classes/README.md": 250,
    "client/README.md": 100,
    "deploy/helm/headlight/README.md": 850,
    "docs/benchmarks.md": 850,
    "docs/concepts/architecture.md": 1300,
    "docs/concepts/attention.md": 1500,
    "docs/guides/bulk-scoring.md": 800,
    "docs/guides/client.md": 1300,
    "docs/guides/deploy.md": 2370,
    "docs/guides/moving-over.md": 1050,
    "docs/guides/operate.md": 1650,
    "docs/guides/other-models.md": 320,
    "docs/guides/page.md": 1090,
    "docs/guides/training.md": 1750,
    "docs/index.md": 250,
    "docs/model-card.md": 1800,
    "docs/questions.md": 250,
    "docs/reference/checkpoint.md": 1250,
    "docs/reference/command-line.md": 2290,
    "docs/reference/http.md": 4100,
    "docs/reference/metrics.md": 800,
    "docs/reference/python.md": 1050,
    "docs/reference/settings.md": 1470,
    "docs/reference/tables.md": 560,
    "docs/resilience.md": 800,
    "docs/tutorial.md": 640,
}
EACH_DECISION = 200
ALL_DECISIONS = 3640
ALL = 36_900

_PRIVATE = re.compile(r"(?:/home/|/Users/|/root/|/work/|/tmp/|[A-Z]:\\|file://)\w*")
EVERY = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


def _words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def _is_decision(page: Path) -> bool:
    return page.parent.name == "decisions"


@EVERY
def test_a_page_keeps_to_its_budget(page: Path) -> None:
    budget = BUDGETS.get(str(page.relative_to(ROOT)), EACH_DECISION if _is_decision(page) else 0)
    assert _words(page) <= budget


def test_all_pages_together_keep_to_theirs() -> None:
    assert sum(map(_words, filter(_is_decision, pages()))) <= ALL_DECISIONS
    assert sum(map(_words, pages())) <= ALL
    assert {str(page.relative_to(ROOT)) for page in pages()} >= set(BUDGETS)


@EVERY
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if fragment:
            assert fragment in anchors(target), link


@EVERY
def test_a_page_begins_with_its_title_and_names_no_place_of_one_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# \S", text)
    assert _PRIVATE.findall(text) == []


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

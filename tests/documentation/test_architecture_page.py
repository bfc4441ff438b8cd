"""docs/concepts/architecture.md names every module of every package, and no other."""

import re

import pytest

from tests.documentation.markdown import ROOT, codes, rows, sections

PAGE = ROOT / "docs" / "concepts" / "architecture.md"
FOLDERS = {
    "model": ROOT / "model",
    "service": ROOT / "service",
    "training": ROOT / "training",
    "scoring": ROOT / "scoring",
    "headlight_client": ROOT / "client" / "headlight_client",
}


@pytest.mark.parametrize("package", FOLDERS)
def test_every_module_is_named_once(package: str) -> None:
    folder = FOLDERS[package]
    named = [name for cells in rows(PAGE, "module", section=package) for name in codes(cells[0])]

    modules = {
        str(module.relative_to(folder))
        for module in folder.rglob("*.py")
        if module.name != "__init__.py"
    }
    data = {
        f"{content.parent.relative_to(folder)}/"
        for content in folder.rglob("*")
        if content.suffix in {".toml", ".html"}
    }
    assert sorted(named) == sorted(modules | data)


def test_the_walk_of_a_sentence_is_short_and_true() -> None:
    text = PAGE.read_text(encoding="utf-8")
    walk = re.findall(r"^\d+\. `([^`]+)`", text, flags=re.MULTILINE)

    assert 10 <= len(walk) <= 15
    assert all((ROOT / path).is_file() for path in walk)


def test_every_package_has_a_section() -> None:
    assert [name for name in sections(PAGE) if name in FOLDERS] == list(FOLDERS)


def test_stages_name_modules_that_there_are() -> None:
    for _, _, maker, _ in rows(PAGE, "stage", "type"):
        for path in codes(maker):
            assert (ROOT / path).is_file(), path

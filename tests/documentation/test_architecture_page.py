"""docs/concepts/architecture.md names every module of every package, and no other."""

import pytest

from tests.documentation.markdown import ROOT, codes, rows, sections

PAGE = ROOT / "docs" / "concepts" / "architecture.md"
FOLDERS = {
    "model": ROOT / "model",
    "service": ROOT / "service",
    "training": ROOT / "training",
    "headlight_client": ROOT / "client" / "headlight_client",
}


@pytest.mark.parametrize("package", FOLDERS)
def test_every_module_is_named_once(package: str) -> None:
    named = [name for cells in rows(PAGE, "module", section=package) for name in codes(cells[0])]

    there = [
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in FOLDERS[package].iterdir()
        if entry.name not in ("__init__.py", "__pycache__", "py.typed")
    ]
    assert sorted(named) == sorted(there)


def test_every_package_has_a_section() -> None:
    assert [name for name in sections(PAGE) if name in FOLDERS] == list(FOLDERS)


def test_stages_name_modules_that_there_are() -> None:
    for _, _, maker, _ in rows(PAGE, "stage", "type"):
        for path in codes(maker):
            assert (ROOT / path).is_file(), path

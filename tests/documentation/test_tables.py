"""The generated tables are as generated, and stand where readers look for them."""

from pathlib import Path

import pytest

from tests.documentation.markdown import REFERENCE, ROOT
from tools import tables

PAGES = [page for page in tables.pages() if tables.tables_in(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_as_generated(page: Path) -> None:
    """`python -m tools.tables` writes the pages."""
    assert page.read_text(encoding="utf-8") == tables.generated(page)


def test_each_page_has_its_tables() -> None:
    names = {page.name: tables.tables_in(page) for page in PAGES if page.parent == REFERENCE}
    assert names["settings.md"] == ["settings"]
    assert names["metrics.md"] == ["metrics"]
    assert names["python.md"] == ["names", "errors"]
    assert "problems" in names["http.md"]
    options = {name for name in names["command-line.md"] if name.startswith("options ")}
    assert options == {f"options {command}" for command in tables.parsers()}


def test_a_page_that_differs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- table: errors -->\nold\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.main(["--check"]) == 1
    assert capsys.readouterr().out == "page.md\n"
    assert tables.main([]) == 0
    assert "`BlankTextError`" in page.read_text(encoding="utf-8")
    assert tables.main(["--check"]) == 0

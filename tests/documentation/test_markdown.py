"""What the other tests read from a page is what stands there."""

from pathlib import Path

import pytest

from tests.documentation.markdown import (
    Block,
    Example,
    all_blocks,
    anchors,
    code,
    codes,
    examples,
    links,
    rows,
    sections,
)

TEXT = """# The page: `a.json`

A [link](other.md#place), `[no link](nowhere.md)`, [`code`](code.md) and ![a picture](x.png).

## First

| name | default |
| --- | --- |
| `one` | `1` |
| `a\\|b`, `c` | two words |

```console
$ first \\
    -d 'x'
line 1
line 2
$ second
```

## First

| name | default |
| --- | --- |
| `two` | none |

```text
[no link](nowhere.md)
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with all that pages have."""
    path = tmp_path / "page.md"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_links_are_found_outside_of_code_alone(page: Path) -> None:
    assert links(page) == ["other.md#place", "code.md", "x.png"]


def test_anchors_are_made_as_github_makes_them(page: Path) -> None:
    assert anchors(page) == {"the-page-ajson", "first", "first-1"}


def test_rows_are_those_of_all_tables_with_the_header(page: Path) -> None:
    assert rows(page, "name", "default") == [
        ("`one`", "`1`"),
        (r"`a\|b`, `c`", "two words"),
        ("`two`", "none"),
    ]


def test_a_table_that_is_not_there_is_a_failure(page: Path) -> None:
    with pytest.raises(AssertionError, match="has no table"):
        rows(page, "setting")


def test_sections_are_those_of_the_second_level(page: Path) -> None:
    assert list(sections(page)) == ["First"]
    assert rows(page, "name", section="First") == [("`two`", "none")]


def test_examples_are_commands_with_their_output(page: Path) -> None:
    assert examples(page) == [
        Example("first \\\n    -d 'x'", "line 1\nline 2"),
        Example("second", ""),
    ]


def test_blocks_have_their_language(page: Path) -> None:
    assert [block.language for block in all_blocks(page)] == ["console", "text"]
    assert all_blocks(page)[1] == Block("text", "[no link](nowhere.md)\n")


def test_code_is_taken_out_of_its_marks() -> None:
    assert code("`one`") == "one"
    assert code("`one` word") == "`one` word"
    assert codes("`one`, `two words` and three") == ["one", "two words"]

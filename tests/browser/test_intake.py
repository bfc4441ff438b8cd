"""Pasted lines and files become the rows that they hold, whatever writes them."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from tests.browser.table_of_many import MadeUp, Many, prediction_of
from tests.browser.visits import Visit

ENDING = "has no known ending: take a file that ends in .csv, .tsv, .jsonl, .ndjson or .txt."
ADVICE = "split it, or use headlight-score."
MANY = f"has 10,001 rows, and at most 10,000 are scored here: {ADVICE}"
NO_TEXT = "a.csv is not text: choose a file of text, such as CSV."
WORKBOOK = (
    "is a workbook: in Excel, choose “Save as” and the type “CSV UTF-8”, and take that file. "
    "headlight-score reads .xlsx as it is."
)


@pytest.fixture(scope="module")
def many(shared: Visit) -> Many:
    """The section, opened, with a service that is made up."""
    served = MadeUp(lambda _: prediction_of({"negative": 0.25, "positive": 0.75}))
    served.stand_in(shared)
    return Many(shared)


# Half of a surrogate pair is not in any file in UTF-8.
cell = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\",;\t\r\n' "), max_size=9
)
SAME_VISIT = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SAME_VISIT
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(cell, min_size=width, max_size=width))
    ),
    st.sampled_from(",;\t"),
    # With other line ends, Python leaves a lone one of another kind without quotes.
    st.sampled_from(
        [("\r\n", csv.QUOTE_MINIMAL), *((end, csv.QUOTE_ALL) for end in ("\n", "\r\n", "\r"))]
    ),
)
def test_what_python_writes_is_read_exactly(
    shared: Visit, records: list[list[str]], delimiter: str, form: tuple[str, Literal[0, 1]]
) -> None:
    end, quoting = form
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(records)
    found = shared.call("intake.js", "readCsv", file.getvalue(), delimiter)
    assert [record["cells"] for record in found] == records
    assert {record["reason"] for record in found} <= {""}
    # Each begins on the line behind those of all before it.
    lines = 1
    for record in found:
        assert record["line"] == lines
        lines += 1 + sum(len(re.findall("\r\n|\r|\n", each)) for each in record["cells"])


@SAME_VISIT
@given(st.lists(cell, min_size=2, max_size=4))
@example(["=1+1", "'tis", 'say "no", then; -go', "@a|=b", "+1 5", "plain, 'twas", "\t=x", "a,'b"])
@example(['a;"=b"', "one\n=two", "\uff1d1", "\u00a0=1", " " * 100 + "=1", "- a dash"])
def test_what_the_page_writes_is_read_by_python_and_is_no_formula(
    shared: Visit, record: list[str]
) -> None:
    written = shared.call("intake.js", "writeRecord", record)
    (found,) = csv.reader(io.StringIO(written, newline=""), strict=True)
    assert [re.sub(r"(\A|[;,|\t\r\n])'", r"\1", each) for each in found] == record
    for each in found:
        is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?", each)
        assert is_number or not re.search(r"(\A|[;,|\t\r\n])[\s\"]*[=+\-@\uff1d]", each)


def test_another_column_and_header_can_be_chosen(many: Many) -> None:
    many.choose("two.csv", "comment,answer\nFirst,Second\n")
    column = many.change().get_by_label("Texts are in")
    expect(column.locator("option")).to_have_text(["comment", "answer"])
    many.score()
    assert many.column(1) == ["First"]
    many.change()
    column.select_option("answer")
    many.score()
    assert many.column(1) == ["Second"]
    many.change()
    many.button("It is a row").click()
    assert column.locator("option").all_inner_texts() == ["column 1", "column 2"]
    assert many.note() == "2 rows."
    expect(many.part("#many-header")).to_contain_text("The first line is read as a row")
    many.button("It has the names").click()
    assert many.note() == "1 row."
    many.button("It is a row").click()
    column.select_option("column 2")
    many.score()
    assert many.column(1) == ["answer", "Second"]


def test_a_file_takes_the_place_of_lines_and_gives_it_back(many: Many) -> None:
    many.choose("one.txt", "Another.\n")
    many.button("Remove the file").click()
    many.paste("A line.")
    many.choose("one.txt", "Of the file.\n")
    expect(many.part("#many-lines")).to_be_hidden()
    expect(many.button("Score")).to_be_focused()
    assert many.visit.page.get_by_role("status").inner_text() == "1 row."
    many.score()
    assert many.column(1) == ["Of the file."]
    many.button("Remove the file").click()
    expect(many.part("#many-lines")).to_be_focused()
    many.score()
    assert many.column(1) == ["A line."]


def test_a_file_is_dropped(many: Many) -> None:
    transfer = many.visit.page.evaluate_handle(
        """() => {
          const transfer = new DataTransfer();
          transfer.items.add(new File(['{"text": "Dropped."}'], 'one.ndjson'));
          return transfer;
        }"""
    )
    body = many.visit.page.locator("body")
    body.dispatch_event("dragover", {"dataTransfer": transfer})
    expect(many.part("xpath=.")).to_have_class("dropping")
    body.dispatch_event("drop", {"dataTransfer": transfer})
    expect(many.part("xpath=.")).not_to_have_class("dropping")
    assert many.note() == "1 row."
    many.score()
    assert many.column(1) == ["Dropped."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"x", f"a.docx {ENDING}"),
        ("csv", b"x", f"csv {ENDING}"),
        ("a.csv", b"text\ncaf\xe9\n\1", NO_TEXT),
        ("a.csv", b"text\n\0", NO_TEXT),
        ("a.csv", b"PK\0\0", f"a.csv {WORKBOOK}"),
        ("a.xlsx", b"x", f"a.xlsx {WORKBOOK}"),
        ("a.csv", b"", "a.csv has no rows: choose one with sentences."),
        ("a.csv", b"text\n\n", "a.csv has no rows: choose one with sentences."),
        ("a.txt", b"x\n" * 10_001, f"a.txt {MANY}"),
        ("a.txt", b"x" * 50_000_001, f"a.txt has 51 MB, and at most 50 MB are read: {ADVICE}"),
    ],
)
def test_a_file_that_cannot_be_taken_says_why(
    many: Many, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    many.visit.page.get_by_label("Choose a file").set_input_files(path)
    assert many.note() == message
    expect(many.part("#many-chosen")).to_have_count(0)
    assert many.visit.page.get_by_role("status").inner_text() == message


@pytest.mark.parametrize(
    ("name", "values", "is_rated"),
    [
        # A rating is known by its name, or by what is in its column.
        ("Sterne", ["4,0", "1,0", "n/a"], True),
        ("b", ["★★★★☆", "★☆☆☆☆"], True),
        ("b", ["4 out of 5", "2 out of 5"], True),
        ("b", ["positiv", "negativ"], True),
        ("b", ["1", "2", "5"], True),
        ("month", ["1", "2", "5"], False),
        ("b", ["1", "2", "7"], False),
        # Questions of a form are names, however long they are.
        ("How many stars do you give to us?", ["1", "1"], False),
        ("How many stars do you give to us?", ["1", "4"], True),
    ],
)
def test_columns_are_found_by_what_they_hold(
    shared: Visit, name: str, values: list[str], is_rated: bool
) -> None:
    lines = [f"Long text {at};{value}\n" for at, value in enumerate(values)]
    content = "".join([f"a;{name}\n", *lines])
    found = shared.call("intake.js", "readContent", "a.csv", "csv", content)
    assert (found["columns"], found["column"]) == (["a", name], 0)
    assert found["compared"] == (1 if is_rated else -1)


def test_commas_of_texts_divide_no_cells(shared: Visit) -> None:
    lines = ["Lovely view from the balcony, we slept well.", "No soup.", "Well, it was, ah, cold."]
    found = shared.call("intake.js", "readContent", "a.csv", "csv", "\n".join(lines))
    assert [each["cells"] for each in found["records"]] == [[line] for line in lines]
    assert found["columns"] == ["column 1"]


def test_markup_in_a_row_stays_text(many: Many) -> None:
    text = "<img/src=x/onerror=alert(1)> <b>bold</b>"
    many.choose("a.jsonl", "\n".join(json.dumps({text: 1, "text": text}) for _ in range(3)))
    many.score()
    assert many.column(1) == [text] * 3
    assert many.part(":is(b, img)").count() == 0

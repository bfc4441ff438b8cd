"""Datasets read from files, what is said of bad rows, and the classes that labels name."""

import hashlib
import json
import re
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from model.checkpoint.records import DataSource
from model.tables.columns import Columns
from model.tables.rows import ClassName
from tests.labelled_files import write_rows
from tests.matching import exactly
from training.data.dataset import Dataset, read_dataset
from training.data.labels import Label, class_number, parse_label
from training.errors import DataError, RecipeError


def test_files_are_joined_in_the_order_given(tmp_path: Path) -> None:
    first = write_rows(tmp_path / "b.csv", [("one", "bad"), ("It is two.", "good")])
    second = write_rows(tmp_path / "a.jsonl", [("three", "mixed")])
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)]
    read = read_dataset([first, second])
    assert read == Dataset(
        texts=("one", "It is two.", "three"),
        label_ids=(0, 1, 2),
        labels=("bad", "good", "mixed"),
        sources=(
            DataSource(file="b.csv", rows=2, sha256=digests[0]),
            DataSource(file="a.jsonl", rows=1, sha256=digests[1]),
        ),
    )
    assert len(read) == 3


def test_labels_fix_the_classes_and_their_order(tmp_path: Path) -> None:
    words = write_rows(tmp_path / "a.tsv", [("one", "good"), ("two", "good")])
    numbers = write_rows(tmp_path / "b.tsv", [("three", 1), ("four", 0)])
    read = read_dataset([words, numbers], labels=["good", "bad"])
    assert read.labels == ("good", "bad")
    assert read.label_ids == (0, 0, 1, 0)


def test_all_bad_rows_are_counted_and_each_kind_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "fine", "label": 1}\n'
        '{"text": " \\u200b", "label": 1}\n'
        '{"text": "half \\ud83d", "label": 1}\n'
        '{"text": null, "label": 1}\n'
        '{"text": "fine", "label": null}\n'
        '{"text": "fine"}\n'
        "nothing\n"
        '{"text": 5, "label": 1}\n' + 5 * '{"text": null, "label": 1}\n'
    )
    message = (
        f"{path}: row 2: the text is blank: give the row a text, or leave it out; "
        "row 3: the text is not valid Unicode: lone surrogate at position 5; write a whole "
        "surrogate pair or leave it out; "
        "row 4: the text is null (and 5 more: 9, 10, 11, ...); "
        "row 5: the label is empty: give every row a label, or leave the row out; "
        "row 6: lacks 'label'; row 7: is not JSON: Expecting value at character 1; "
        "row 8: the text must be a string, is int (12 bad rows)"
    )
    with pytest.raises(DataError, match=exactly(message)):
        read_dataset([path])


@pytest.mark.parametrize(
    ("rows", "row", "fault"),
    [
        ([("one", 0), ("two", "good")], 3, "label 'good' is one of words and numbers mixed: "),
        (
            [("one", "Good"), ("two", "bad"), ("three", "good")],
            4,
            "labels 'Good' and 'good' differ only by case: ",
        ),
        (
            [("one", "caf\u00e9"), ("two", "bar"), ("three", "cafe\u0301")],
            4,
            r"labels 'caf\xe9' and 'cafe\u0301' look alike: write them alike",
        ),
        ([("one", "good"), ("two", "g\u043eod")], 3, r"labels 'good' and 'g\u043eod' look alike"),
        ([("one", "good"), ("two", "go\u200bod")], 3, r"labels 'good' and 'go\u200bod' look"),
        ([("one", "good"), ("two", "good")], None, "every label is 'good': a classifier needs "),
    ],
)
def test_labels_that_make_no_classes(
    tmp_path: Path, rows: list[tuple[object, object]], row: int | None, fault: str
) -> None:
    path = write_rows(tmp_path / "a.tsv", rows)
    with pytest.raises(DataError, match=re.escape(fault)) as error:
        read_dataset([path])
    assert error.value.row == row


@pytest.mark.parametrize(
    ("spelled", "names"),
    [
        (("1E2", "100"), ("100", "1E2")),
        (("007", "7"), ("7", "007")),
        (("1_2", "12"), ("12", "1_2")),
        (("+1", "2.0"), ("1", "2")),
        (("10", "9"), ("9", "10")),
        (("-1", "1"), ("-1", "1")),
    ],
)
def test_classes_keep_the_spelling_of_what_is_no_plain_number(
    tmp_path: Path, spelled: tuple[str, str], names: tuple[str, str]
) -> None:
    path = write_rows(tmp_path / "a.tsv", list(zip(("one", "two"), spelled, strict=True)))
    read = read_dataset([path])
    assert read.labels == names
    assert len(set(read.label_ids)) == 2


def test_na_is_a_word_as_a_hint_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "a.tsv", [("one", "NA"), ("two", "good")])
    assert read_dataset([path]).labels == ("NA", "good")
    expected = "'NA' is read as a word, a class of its own: leave its rows out if they have none\n"
    assert capsys.readouterr().err == expected
    write_rows(path, [("one", "0"), ("two", "NA"), ("three", "1")])
    with pytest.raises(DataError, match="; 'NA' is read as a word, a class of its own"):
        read_dataset([path])


def write_named(
    path: Path, numbers: list[int | None], names: object, *, kind: str = "ClassLabel"
) -> Path:
    """Writes a Parquet file as `datasets` does, with the names of its classes in the schema."""
    feature = {"names": names, "_type": kind}
    metadata = json.dumps({"info": {"features": {"label": feature}}})
    texts = [f"text {index}" for index in range(len(numbers))]
    table = pyarrow.table({"text": texts, "label": pyarrow.array(numbers, pyarrow.int64())})
    parquet.write_table(table.replace_schema_metadata({"huggingface": metadata}), path)
    return path


@pytest.mark.parametrize(
    ("names", "labels", "read"),
    [
        (["positive", "negative"], None, ["positive", "negative"]),
        (["positive", "negative"], ("negative", "positive"), ["positive", "negative"]),
        (["pos", "neg"], ("negative", "neutral", "positive"), ["positive", "negative"]),
        (["1", "2"], None, ["1", "2"]),
        (["0", "1"], None, ["negative", "positive"]),
        (None, None, ["negative", "positive"]),
        ([1, 2], None, ["negative", "positive"]),
    ],
)
def test_names_of_classes_stand_in_the_schema_of_a_parquet_file(
    tmp_path: Path, names: object, labels: tuple[str, ...] | None, read: list[str]
) -> None:
    dataset = read_dataset([write_named(tmp_path / "a.parquet", [0, 1], names)], labels=labels)
    assert [dataset.labels[label_id] for label_id in dataset.label_ids] == read


@pytest.mark.parametrize(
    "kind",
    [pyarrow.decimal128(38, 0), pyarrow.decimal256(60, 2), pyarrow.float32(), pyarrow.bool_()],
    ids=str,
)
def test_whole_numbers_of_every_type_are_labels(tmp_path: Path, kind: pyarrow.DataType) -> None:
    labels = pyarrow.array([1, 0]).cast(kind)
    parquet.write_table(
        pyarrow.table({"text": ["a", "b"], "label": labels}), tmp_path / "a.parquet"
    )
    read = read_dataset([tmp_path / "a.parquet"])
    assert (read.labels, read.label_ids) == (("negative", "positive"), (1, 0))


def test_a_folder_names_the_label_and_null_is_none(tmp_path: Path) -> None:
    rows = {"good": "text\nfine\n", "bad": "text\npoor\n\\N\n"}
    paths = [tmp_path / f"label={name}" / "a.csv" for name in rows]
    for path, content in zip(paths, rows.values(), strict=True):
        path.parent.mkdir()
        path.write_text(content)
    with pytest.raises(DataError, match="line 3: the text is null"):
        read_dataset(paths)
    read = read_dataset(paths, columns=Columns(skip_bad=True))
    assert (read.labels, read.texts, read.label_ids) == (("bad", "good"), ("fine", "poor"), (1, 0))


@pytest.mark.parametrize(
    ("number", "labels", "fault"),
    [
        (2, None, "label 2 has no name: the schema of the file names 0 to 1"),
        (-1, None, "the label is empty: give every row a label, or leave the row out"),
        (None, None, "the label is empty: give every row a label, or leave the row out"),
        # The name `1` is no index, although the labels are words.
        (0, ("negative", "positive"), "label '1' is not one of negative, positive"),
    ],
)
def test_a_number_without_a_class_in_the_schema(
    tmp_path: Path, number: int | None, labels: tuple[str, ...] | None, fault: str
) -> None:
    path = write_named(tmp_path / "a.parquet", [number, 0], ["1", "2"])
    with pytest.raises(DataError, match=re.escape(f"{path}: row 1: {fault}")):
        read_dataset([path], labels=labels)


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ([], " must be two or more different names, got none"),
        (["one", "one"], " must be two or more different names, got one, one"),
        (["one", " "], " must be two or more different names, got one,  "),
        (["é", "e\u0301"], r" '\xe9' and 'e\u0301' look alike: name each class once"),
    ],
)
def test_labels_must_be_two_or_more_different_names(labels: list[str], fault: str) -> None:
    message = f"labels{fault}"
    with pytest.raises(RecipeError, match=exactly(message)):
        read_dataset([Path("unread.tsv")], labels=labels)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, folder, empty, link = (tmp_path / f"{name}.tsv" for name in "abcd")
    folder.mkdir()
    link.symlink_to(link)
    empty.write_text("text\tlabel\n")
    for path, fault in [
        (missing, "does not exist"),
        (folder, "is a folder: name the files in it"),
        (link, "cannot be read: Too many levels of symbolic links"),
        (empty, "has no rows: it must hold a text and a label in each"),
    ]:
        with pytest.raises(DataError, match=exactly(f"{path}: {fault}")):
            read_dataset([path])


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *((word, word) for word in ("positive", "5 stars", "True", "NA")),
        *((word, word) for word in ("1_2", "1E2", "007", "\uff11")),
        (" positive ", "positive"),
        ("1", 1),
        ("-1", -1),
        ("1.00", 1),
        (1, 1),
        (1.0, 1),
        (True, 1),
        (False, 0),
        ("+1", 1),
        ("-1.0", -1),
        (ClassName("1"), ClassName("1")),
    ],
)
def test_labels_are_words_or_whole_numbers(value: object, label: Label) -> None:
    parsed = parse_label(value)
    assert parsed == label
    assert type(parsed) is type(label)


NOT_A_NAME = (
    "label '<b>' must not have the character U+003C: markup (< and >), control characters, line "
    "breaks and half surrogate pairs are refused"
)


def test_a_label_that_no_checkpoint_may_hold_is_refused_with_its_row(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", [("one", "good"), ("two", "<b>")])
    with pytest.raises(DataError, match=exactly(f"{path}: line 3: {NOT_A_NAME}")):
        read_dataset([path])
    with pytest.raises(RecipeError, match=exactly(f"labels: {NOT_A_NAME}")):
        read_dataset([path], labels=["good", "<b>"])


@pytest.mark.parametrize(
    "value", ["0.5", 0.5, "1.01", "nan", float("nan"), "inf", ["positive"], {}, b"1"]
)
def test_what_is_neither_word_nor_whole_number_is_refused(value: object) -> None:
    message = (
        f"label {value!r} is neither a word nor a whole number: name each class by a word, "
        "or number the classes from 0"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        parse_label(value)


@pytest.mark.parametrize(
    ("label", "labels", "number"),
    [
        ("positive", ("negative", "positive"), 1),
        ("negative", ("positive", "negative"), 1),
        (0, ("positive", "negative"), 0),
        (2, ("bad", "mixed", "good"), 2),
        (5, ("1", "2", "3", "4", "5"), 4),
        (1, ("1", "2", "3", "4", "5"), 0),
        (-1, ("-1", "1"), 0),
    ],
)
def test_a_label_is_found_by_name_or_place(
    label: Label, labels: tuple[str, ...], number: int
) -> None:
    assert class_number(label, labels) == number


@pytest.mark.parametrize(
    ("label", "labels", "fault"),
    [
        ("maybe", ("no", "yes"), "label 'maybe' is not one of no, yes (or 0 to 1)"),
        ("Yes", ("no", "yes"), "label 'Yes' is not one of no, yes (or 0 to 1)"),
        (2, ("no", "yes"), "label 2 is not one of no, yes (or 0 to 1)"),
        (-1, ("no", "yes"), "label -1 is not one of no, yes (or 0 to 1)"),
        (
            "cafe\u0301",
            ("bar", "caf\u00e9"),
            r"the label and a class, 'cafe\u0301' and 'caf\xe9' look alike: write them alike",
        ),
        # A name that is a number rules out that numbers are places: 0 would be ambiguous.
        (0, ("1", "2"), "label 0 is not one of 1, 2"),
        (0, ("007", "008"), "label 0 is not one of 007, 008"),
    ],
)
def test_an_unknown_label_is_refused(label: Label, labels: tuple[str, ...], fault: str) -> None:
    message = f"^{re.escape(fault)}(: correct it, or leave the row out)?$"
    with pytest.raises(ValueError, match=message):
        class_number(label, labels)


MESSY = 'text,label\ngood,1\n ,1\nbad\nfine,nan\ncaf\xe9,1\n"a"b,1\n\n\u200b,1\nbad,0\n'
FAULTS = (
    "line 3: the text is blank: give the row a text, or leave it out (and 1 more: 9); "
    "line 4: the header has 2 columns, this row has 1; "
    "line 5: label 'nan' is neither a word nor a whole number: name each class by a word, or "
    "number the classes from 0; "
    "line 7: is not CSV: ',' expected after '\"': write a quote inside a field twice (\"\")"
)


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(MESSY, encoding="utf-8")
    second.write_text("text,label\n,1\ngood,Good\nbad,good\n", encoding="utf-8")
    message = (
        f"{first}: {FAULTS} (5 bad rows); {second}: line 2: the text is blank: give the row a "
        "text, or leave it out; "
        f"{second}: line 3: label 'Good' is one of words and numbers mixed: use one kind in all "
        "rows, or name the classes in their order with --labels; "
        f"{second}: line 4: labels 'Good' and 'good' differ only by case: write them alike"
    )
    with pytest.raises(DataError, match=exactly(message)):
        read_dataset([first, second])


def test_bad_rows_are_skipped_and_counted_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(MESSY, encoding="utf-8")
    read = read_dataset([path], columns=Columns(skip_bad=True))
    assert read.texts == ("good", "caf\xe9", "bad")
    assert read.sources[0].rows == 3
    assert capsys.readouterr().err == f"{path}: skipped 5 bad rows: {FAULTS}\n"


def test_stars_are_classes_or_become_sentiment(tmp_path: Path) -> None:
    rows = [(f"text {stars}", stars) for stars in (5, 4, "3", "2.0", "1")]
    path = write_rows(tmp_path / "a.csv", rows, header=("review", "stars"))
    assert read_dataset([path]).labels == ("1", "2", "3", "4", "5")
    read = read_dataset([path], columns=Columns(stars=True))
    assert [read.labels[index] for index in read.label_ids] == [
        *("positive", "positive", "neutral", "negative", "negative")
    ]
    write_rows(path, [("a", 1), ("b", 6), ("c", 5)], header=("review", "stars"))
    with pytest.raises(DataError, match="line 3: label 6 is no number of stars from 1 to 5"):
        read_dataset([path], columns=Columns(stars=True))


def test_stars_are_no_places_of_classes_even_where_bad_rows_are_skipped(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", [(f"text {stars}", stars) for stars in range(1, 6)])
    message = (
        f"{path}: its labels are numbers from 1 to 5, and the classes negative, neutral, positive "
        "have the numbers 0 to 2: add --stars-to-sentiment if they are stars"
    )
    labels = ["negative", "neutral", "positive"]
    with pytest.raises(DataError, match=exactly(message)):
        read_dataset([path], columns=Columns(skip_bad=True), labels=labels)


def test_only_0_and_1_are_negative_and_positive(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", [("bad", 0), ("good", 1)])
    labels = ["negative", "neutral", "positive"]
    dataset = read_dataset([path], labels=labels, some=True)
    assert (dataset.labels, dataset.label_ids) == (("negative", "positive"), (0, 1))
    write_rows(path, [("bad", 0), ("so so", 1), ("good", 2)])
    assert read_dataset([path], labels=labels, some=True).label_ids == (0, 1, 2)


@pytest.mark.parametrize(
    ("labels", "numbers", "shown"),
    [
        (("negative", "neutral", "positive"), [0, 2], "0, 2"),
        (("complaint", "praise", "question"), [0, 1], "0, 1"),
    ],
)
def test_other_numbers_that_are_fewer_than_the_classes_are_refused(
    tmp_path: Path, labels: tuple[str, ...], numbers: list[int], shown: str
) -> None:
    path = write_rows(tmp_path / "a.tsv", [("a film", number) for number in numbers])
    fault = (
        f"{path}: the labels are {shown}, and the classes {', '.join(labels)}: which ones are "
        "meant is not sure; name each class by its word, or give --labels in the order of the "
        "numbers"
    )
    with pytest.raises(DataError, match=exactly(fault)):
        read_dataset([path], labels=labels, some=True)

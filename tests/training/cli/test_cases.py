"""`fit` and `evaluate` on files like those that people bring, and on one with every fault."""

import json
from pathlib import Path

import pytest

from model import open_checkpoint
from tests.shared_data import shared_case
from tests.training.tiny_runs import PRESET, write_preset
from training.__main__ import main

PAIR = ("negative", "positive")
SIZE = "gr\u00f6\u00dfe"


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> str:
    text = PRESET.replace("epochs = 3", "epochs = 1")
    return str(write_preset(tmp_path_factory.mktemp("preset") / "tiny.toml", text))


def fit(path: Path, folder: Path, preset: str, *options: str) -> list[str]:
    """The words of a run that validates on the rows that it learns from."""
    validation = ("--validation", str(path), "--preset", preset, "--threads", "1")
    return ["fit", str(path), "--output", str(folder), *validation, *options]


@pytest.mark.parametrize(
    ("name", "rows", "labels", "options"),
    [
        ("dup_other.parquet", 4, PAIR, ()),
        ("lab_u2.csv", 3, ("100", "1E2", "2E5"), ()),
        ("m_header1252.csv", 2, ("1", "2"), ("--encoding", "cp1252", "--label-column", SIZE)),
    ],
)
def test_a_file_is_learnt_from_and_measured(
    tmp_path: Path,
    preset: str,
    name: str,
    rows: int,
    labels: tuple[str, ...],
    options: tuple[str, ...],
) -> None:
    path, folder, figures = shared_case(name), tmp_path / "out", tmp_path / "figures.json"

    assert main(fit(path, folder, preset, *options)) == 0

    checkpoint = open_checkpoint(folder)
    (source,) = checkpoint.manifest.training_data
    assert checkpoint.config.labels == labels
    assert (source.file, source.rows) == (path.name, rows)
    evaluate = ["evaluate", str(path), "--checkpoint", str(folder), "--json", str(figures)]
    assert main([*evaluate, *options]) == 0
    (report,) = json.loads(figures.read_text())["files"]
    assert report["rows"] == rows


def test_folders_name_the_classes(tmp_path: Path, preset: str) -> None:
    files = map(str, sorted(shared_case("hive").rglob("*.parquet")))
    folder = tmp_path / "out"
    options = ("--label-column", "lang", "--preset", preset, "--threads", "1")

    assert main(["fit", *files, "--output", str(folder), *options]) == 0
    assert open_checkpoint(folder).config.labels == ("de", "en")


def test_a_file_of_one_class_is_measured(tmp_path: Path, checkpoint_folder: Path) -> None:
    path, figures = shared_case("bad_utf8.parquet"), tmp_path / "figures.json"
    given = ("--checkpoint", str(checkpoint_folder), "--json", str(figures), "--skip-bad-rows")

    assert main(["evaluate", str(path), *given]) == 0
    assert json.loads(figures.read_text())["files"][0]["rows"] == 1


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("lab_u7.csv", (), "labels '\\uff11' and 1 look alike: write them alike"),
        (
            "m_group_null.parquet",
            ("--label-column", "id"),
            "row 3: the text is null; row 4: the text is blank: give the row a text, or leave it "
            "out (2 bad rows)",
        ),
    ],
)
def test_a_file_is_refused_in_one_line(
    tmp_path: Path,
    preset: str,
    capsys: pytest.CaptureFixture[str],
    name: str,
    options: tuple[str, ...],
    fault: str,
) -> None:
    path = shared_case(name)

    assert main(fit(path, tmp_path / "out", preset, *options)) == 1

    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"headlight-train: {path}: ")
    assert fault in said[-1]
    assert not (tmp_path / "out").exists()


MESSY = (
    b"text,label\n"
    b"A good film.,1\n"
    b" ,1\n"
    b"A bad film.\n"
    b"A bad film.,0,\n"
    b"A dull film.,0,2\n"
    b"A fine film.,maybe not\n"
    b"A fine film.,\n"
    b"caf\xe9,1\n"
    b'"A "good" film.",1\n'
    b",0\n"
    b'"A long\nfilm.",0\n'
    b"A weak film.,angry\n"
)
FAULTS = (
    "line 3: the text is blank: give the row a text, or leave it out (and 1 more: 11); "
    "line 4: the header has 2 columns, this row has 1 (and 1 more: 6); "
    "line 7: label 'maybe not' is not one of negative, positive (or 0 to 1): correct it, or leave "
    "the row out (and 1 more: 14); "
    "line 8: the label is empty: give every row a label, or leave the row out; "
    "line 9: is not UTF-8: convert the file to UTF-8, or name its encoding, such as --encoding "
    "cp1252; "
    "line 10: is not CSV: ',' expected after '\"': write a quote inside a field twice (\"\")"
)


def test_every_fault_is_told_in_one_run_and_skipped_if_asked(
    tmp_path: Path, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "messy.csv", tmp_path / "out"
    path.write_bytes(MESSY)
    words = fit(path, folder, preset, "--labels", "negative,positive")
    evaluate = ["evaluate", str(path), "--checkpoint", str(folder)]
    refused = f"headlight-train: {path}: {FAULTS} (9 bad rows)"

    assert main(words) == 1
    assert capsys.readouterr().err.splitlines()[-1] == refused
    assert main([*words, "--skip-bad-rows"]) == 0
    assert f"{path}: skipped 9 bad rows: {FAULTS}" in capsys.readouterr().err.splitlines()
    assert open_checkpoint(folder).manifest.training_data[0].rows == 3
    assert main(evaluate) == 1
    assert capsys.readouterr().err.splitlines()[-1] == refused
    assert main([*evaluate, "--skip-bad-rows"]) == 0
    assert "  rows       3 (0 truncated)\n" in capsys.readouterr().out

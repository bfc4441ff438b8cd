"""A job from the command line to its totals: parts, bad rows, going on, refusing."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

import scoring.__main__ as command
from model import load_predictor, open_checkpoint
from model.atomic import beside
from model.tables.files import FORMATS
from tests.builders import tiny_checkpoint
from tests.hub_stand_in import files_of
from tests.programs import UsageFault
from tests.scoring.conftest import Run, refusal, rows_of

TEXTS = ["a good film", "the plot is dull", "superb", "not bad", "a long, cold movie", "weak cast"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A CSV with a label, one bad row among six good ones, and a line break."""
    path = tmp_path / "in" / "rows.csv"
    path.parent.mkdir()
    rows = [f"{place},{place % 2},{text}" for place, text in enumerate(TEXTS) if "," not in text]
    rows.insert(2, "9,1")
    rows.append('4,0,"a long,\ncold movie"')
    path.write_text("\n".join(["id,label,text", *rows]) + "\n", encoding="utf-8")
    return path


def test_a_part_has_the_columns_of_the_input_and_the_answers(
    run: Run,
    table: Path,
    tmp_path: Path,
    checkpoint_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"

    assert run(table, "--output", output, "--dtype", "float32") == 0

    written = ["SUCCESS.json", "bad-rows.jsonl", "manifest.json", "part-00000.parquet"]
    assert sorted(files_of(output)) == written
    found = parquet.read_table(output / "part-00000.parquet")
    assert found.column_names == [
        *("id", "input_label", "text", "label", "score", "probability_negative"),
        *("probability_positive", "token_count", "truncated", "model_version"),
    ]
    opened = open_checkpoint(checkpoint_folder)
    predictor = load_predictor(opened, device="cpu", dtype="float32")
    rows = found.to_pylist()
    assert [row["text"] for row in rows] == [*TEXTS[:4], TEXTS[5], "a long,\ncold movie"]
    for row in rows:
        (answer,) = predictor.predict([predictor.encode(row["text"])])
        assert (row["label"], row["token_count"]) == (answer.label, answer.token_count)
        assert row["score"] == pytest.approx(answer.score, abs=1e-6)
        positive = answer.probabilities["positive"]
        assert row["probability_positive"] == pytest.approx(positive, abs=1e-6)
        assert row["truncated"] is False
        assert row["model_version"] == opened.version
    bad = [json.loads(line) for line in (output / "bad-rows.jsonl").read_text().splitlines()]
    reason = "the header has 3 columns, this row has 2"
    assert bad == [{"file": str(table), "row": 4, "reason": reason}]
    success = json.loads((output / "SUCCESS.json").read_text())
    counts = {label: sum(row["label"] == label for row in rows) for label in opened.config.labels}
    assert success == {
        "rows_in": 7,
        "rows_out": 6,
        "bad_rows": 1,
        "reasons": {reason: 1},
        "truncated": 0,
        "tokens": sum(row["token_count"] for row in rows),
        "labels": counts,
        "parts": 1,
        "bytes": (output / "part-00000.parquet").stat().st_size,
        "model_version": opened.version,
    }
    said = capsys.readouterr().err
    assert "the input's column 'label' is kept as 'input_label'\n" in said
    assert f"bad rows: 1: {reason}\nall bad rows: {output}/bad-rows.jsonl\n" in said
    assert "good film" not in said


@pytest.mark.parametrize("form", ["csv.gz", "parquet"])
def test_the_form_of_the_input_is_kept(run: Run, tmp_path: Path, form: str) -> None:
    path, output, kind = tmp_path / f"rows.{form}", tmp_path / "out", form.removesuffix(".gz")
    frame = pd.DataFrame({"id": range(len(TEXTS)), "text": TEXTS})
    getattr(frame, f"to_{kind}")(path, index=False)
    assert run(path, "--output", output, "--format", "input", "--columns", "text,id") == 0
    found = getattr(pd, f"read_{kind}")(output / f"part-00000.{form}")
    assert list(found.columns)[:4] == ["text", "id", "label", "score"]
    assert found["text"].tolist() == TEXTS
    assert found["id"].tolist() == list(range(len(TEXTS)))
    assert found["score"].between(0.5, 1).all()


def test_a_job_goes_on_where_it_ended(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (table, "--part-bytes", "20")
    assert run(*arguments, "--output", tmp_path / "whole") == 0
    whole = files_of(tmp_path / "whole")
    assert len(whole) >= 6

    output = tmp_path / "out"
    # An engine that does two units and then no more leaves the others without a part.
    assert run(*arguments, "--output", output, most=2) == 1
    assert "SUCCESS.json" not in files_of(output)
    first = {path: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert len(first) == 2
    # A part that is cut, and a part whose record is gone, are written again.
    parts = sorted(first)
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    (output / ".records" / "00001.json").unlink()
    beside(output / "part-00002.parquet", "part").write_bytes(b"half")
    for name in ("part-00001.parquet", "manifest.json"):
        beside(output / name, "lock").touch()
    assert run(*arguments, "--output", output) == 0

    assert files_of(output) == whole
    assert run(*arguments, "--output", output) == 0
    assert "is finished already: 6 of 7 rows are scored in" in capsys.readouterr().err
    assert files_of(output) == whole


def test_shards_share_a_folder_and_the_last_one_adds_up(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (table, "--part-bytes", "20")
    assert run(*arguments, "--output", tmp_path / "whole") == 0
    output = tmp_path / "out"
    for shard in ("3/3", "1/3"):
        assert run(*arguments, "--output", output, "--shard", shard) == 0
        assert "other shards are not finished" in capsys.readouterr().err
        assert not (output / "SUCCESS.json").exists()
    assert run(*arguments, "--output", output, "--shard", "2/3") == 0
    assert files_of(output) == files_of(tmp_path / "whole")


def test_other_inputs_options_and_models_are_refused(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output, most=0) == 1
    advice = ": choose another --output, or start again with --overwrite"
    began = f"{output}: holds a job that began otherwise: "

    more = table.with_name("more.csv")
    more.write_text("id,label,text\n1,0,fine\n", encoding="utf-8")
    assert run(table.parent, "--output", output) == 1
    assert refusal(capsys) == f"{began}{more} is new{advice}"
    assert run(more, "--output", output) == 1
    assert refusal(capsys) == f"{began}{more} is new; {table} is missing{advice}"
    assert run(table, "--output", output, "--encoding", "cp1252", "--delimiter", ";") == 1
    expected = f"{began}--encoding was left out, is cp1252; --delimiter was ',', is ';'{advice}"
    assert refusal(capsys) == expected
    others = ("--truncation", "left", "--granularity", "sentence")
    assert run(table, "--output", output, "--format", "input", *others) == 1
    assert refusal(capsys) == (
        f"{began}--truncation was right, is left; --granularity was text, is sentence; --format "
        f"was parquet, is input{advice}"
    )
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    assert run(table, "--output", output, "--checkpoint", other) == 1
    versions = [open_checkpoint(path).version for path in (other,)]
    assert refusal(capsys).endswith(f", is {versions[0]}{advice}")

    os.utime(table, (1, 1))  # the same content at another time is the same
    assert run(table, "--output", output, most=0) == 1
    table.write_bytes(table.read_bytes().replace(b"superb", b"Superb"))
    assert run(table, "--output", output) == 1
    assert refusal(capsys) == f"{began}{table} has changed{advice}"
    assert run(table, "--output", output, "--overwrite") == 0
    assert json.loads((output / "SUCCESS.json").read_text())["rows_out"] == 6


@pytest.mark.parametrize("name", ["thesis.tex", ".draft.tmp", "part-of-a-book.txt"])
def test_a_folder_of_others_is_left_alone(
    run: Run, table: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / name).write_text("dear", encoding="utf-8")
    for overwrite in ([], ["--overwrite"]):
        assert run(table, "--output", output, *overwrite) == 1
        expected = f"{output}: holds {name}, which no job writes: choose an empty or a new folder"
        assert refusal(capsys) == expected
    assert files_of(output) == {name: b"dear"}


def test_lost_rows_are_found(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output, "--part-bytes", "1", most=3) == 1
    record = output / ".records" / "00001.json"
    content = json.loads(record.read_text())
    content["rows_out"] -= 1
    record.write_text(json.dumps(content), encoding="utf-8")
    assert run(table, "--output", output, "--part-bytes", "1") == 1
    assert "part-00001.parquet: has 0 rows and 0 bad ones of 1: " in refusal(capsys)
    assert not (output / "SUCCESS.json").exists()


def test_long_texts_are_cut_and_counted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\ngood\n" + "good " * 50 + "\nbad\n", encoding="utf-8")
    assert run(path, "--output", tmp_path / "cut") == 0
    assert json.loads((tmp_path / "cut" / "SUCCESS.json").read_text())["truncated"] == 1


MISTAKES = {
    ("nowhere.csv",): "nowhere.csv: does not exist: give files, folders, globs or URLs",
    ("{in}/none*.csv",): f"{{in}}/none*.csv: holds no file that is read: use {FORMATS}",
    ("{in}/rows.csv", "{in}"): "{in}/rows.csv: is named twice, also as {in}/rows.csv: name it once",
    ("{in}/rows.csv", "--columns", "id,nmae"): "{in}/rows.csv: no column is named 'nmae' among "
    "'id', 'label', 'text': change --columns",
    ("{in}/rows.csv", "--ray-address", "x:1"): "--ray-address is for --engine ray: leave it out, "
    "or choose that engine",
    ("{in}/rows.csv", "--device", "gpu"): "--device: device must be auto, cpu, cuda or cuda:N, "
    "got gpu",
    ("{in}/rows.csv", "--output", "{in}/rows.csv"): "--output {in}/rows.csv: is the input: "
    "name another file",
    ("{in}/rows.csv", "--parts", "--output", "{in}/rows.csv"): "{in}/rows.csv: is a file: "
    "give the path of a folder",
    ("ftp9://host/rows.csv",): "ftp9://host/rows.csv: ftp9:// is not known: install the package "
    "with which fsspec knows it",
    ("s3://key:secret@bucket/rows.csv",): "s3://…: a URL may hold no user and no password: use "
    "the environment variables of the store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=lambda arguments: " ".join(arguments))
def test_a_mistake_is_told_in_one_line(
    run: Run,
    table: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = {"{in}": str(table.parent)}
    given = [argument.replace("{in}", folder["{in}"]) for argument in arguments]
    assert run("--output", tmp_path / "out", *given) == 1
    shown = MISTAKES[arguments].replace("{in}", folder["{in}"])
    assert refusal(capsys) == shown
    assert not (tmp_path / "out").exists() or files_of(tmp_path / "out") == {}


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b"])
def test_a_shard_is_one_of_several(shard: str, usage_fault: UsageFault) -> None:
    assert usage_fault(command.main, "in.csv", "--output", "out", "--shard", shard) == (
        "headlight-score: argument --shard: must be I/N with I from 1 to N, such as 1/8, got "
        f"'{shard}'; see headlight-score --help\n"
    )


@pytest.mark.parametrize("name", ["data", ".//data//", "../.work/data"])
def test_folders_are_read_in_order_and_their_other_files_left_out(
    run: Run,
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / ".work" / "data"
    left_out = ("_notes/c.csv", ".hidden.csv", "b/.f/g.csv", "readme.md", "b/_SUCCESS")
    for file in ("b/2.csv", "a.csv", *left_out):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"text\n{file}\n", encoding="utf-8")
    monkeypatch.chdir(folder.parent)
    # The output lies in the input.
    for _ in range(2):
        assert run(name, "--output", folder / "out") == 0
        assert "skipped 1 files that have another suffix: " in capsys.readouterr().err
    assert [row["text"] for row in rows_of(folder / "out")] == ["a.csv", "b/2.csv"]

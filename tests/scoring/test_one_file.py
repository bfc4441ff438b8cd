"""One file in, one file out: where it goes, what it holds, and what is said of it."""

import csv
import gc
import io
import itertools
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from model.tables.files import Compression, Format, format_of
from model.tables.writing import Target
from scoring.errors import ScoringError
from scoring.one_file import choose_target
from scoring.scorer import Scorer
from tests.matching import exactly
from tests.programs import run_python
from tests.scoring.conftest import PATIENCE, ROOT, Run, refusal, wait_until

REVIEWS = 'id,review,label\n1,"good, and ""really""",positive\n2, ,negative\n3,bad,negative\n'


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_frame(path: Path, frame: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        book = openpyxl.Workbook()
        for row in ([*frame.columns], *frame.itertuples(index=False)):
            book.active.append([*row])
            book.active.cell(book.active.max_row, 2).data_type = "s"
        book.save(path)
    return path


def table_of(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_one_command_writes_a_file_beside_the_input(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "reviews.csv", REVIEWS)

    assert run(path) == 0

    assert sorted(each.name for each in tmp_path.iterdir()) == ["reviews.csv", "reviews.scored.csv"]
    header, first, second, third = table_of(tmp_path / "reviews.scored.csv")
    assert header == ["id", "review", "input_label", "label", "score"]
    assert first[:3] == ["1", 'good, and "really"', "positive"]
    assert first[3] in ("negative", "positive")
    assert len(first[4]) <= len("0.123456")
    assert 0.5 <= float(first[4]) <= 1
    assert second == ["2", " ", "negative", "", ""]
    assert third[:3] == ["3", "bad", "negative"]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"reading {path}: 3 rows, CSV separated by commas"
    assert said[1] == "the texts are in the column 'review'; also kept: 'id', 'label'"
    assert said[2] == "the column 'label' of the input is named 'input_label'"
    assert said[4].startswith("scored 2 of 3 rows: negative ")
    assert said[5].startswith("no answer: 1 row (line 3): the text is blank: ")
    assert said[6].startswith(f"written to {tmp_path / 'reviews.scored.csv'}: each row ")
    assert said[7].endswith("--compare label --overwrite")


@pytest.mark.parametrize(
    ("source", "output", "written", "form"),
    [
        ("a.csv", None, "a.scored.csv", ("csv", None)),
        ("a.b.csv.gz", None, "a.b.scored.csv.gz", ("csv", "gzip")),
        ("a.csv.bz2", None, "a.scored.csv.bz2", ("csv", "bz2")),
        ("a.jsonl.zst", None, "a.scored.jsonl.zst", ("jsonl", "zstd")),
        ("a.zip", None, "a.scored.csv", ("csv", None)),
        ("a.jsonl.zip", None, "a.scored.csv", ("csv", None)),
        ("a.xlsx", None, "a.scored.csv", ("csv", None)),
        ("a.csv", "b.parquet", "b.parquet", ("parquet", None)),
        ("a.jsonl.gz", "-", "-", ("jsonl", None)),
    ],
)
def test_the_form_is_that_of_the_input_or_of_the_output(
    source: str, output: str | None, written: str, form: tuple[Format, Compression | None]
) -> None:
    known = format_of(source)
    assert choose_target(source, output, known[0] if known else "csv") == Target(written, *form)


@pytest.mark.parametrize("name", ["a.xlsx", "a.zip", "a.csv.zip", "a.doc"])
def test_forms_that_are_not_written_are_refused(name: str) -> None:
    message = f"--output {name}: this form is not written: name a .csv"
    with pytest.raises(ScoringError, match=exactly(message)):
        choose_target("a.csv", name, "csv")


@pytest.mark.parametrize(
    ("name", "output", "read"),
    [
        ("in.jsonl", "out.csv.gz", pd.read_csv),
        ("in.csv", "out.json", lambda path: pd.DataFrame(json.loads(path.read_text()))),
        ("in.jsonl", "out.parquet", pd.read_parquet),
    ],
)
def test_a_form_becomes_another(
    run: Run, tmp_path: Path, name: str, output: str, read: Callable[[Path], pd.DataFrame]
) -> None:
    frame = pd.DataFrame({"text": ["good", "bad caf\u00e9"], "n": ["x", "y"]})
    path = write_frame(tmp_path / name, frame)
    assert run(path, "--output", tmp_path / output) == 0
    scored = read(tmp_path / output)
    assert list(scored.columns) == ["text", "n", "label", "score"]
    assert scored["text"].tolist() == ["good", "bad caf\u00e9"]
    assert scored["score"].between(0.5, 1).all()


FORMULAS = ("=HYPERLINK(1)", "@SUM(A1)", "+1+1", "- a", " \u00a0=1", '"=1', "\uff1d1", "-1 %")
PLAIN = ("-5", "+3.2e7", "-1,234.5%", "'=1", "good ;-)")


@pytest.mark.parametrize("output", ["out.csv", "out.tsv"])
@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.xlsx", "in.csv"])
def test_no_text_of_another_form_becomes_a_formula(
    run: Run, tmp_path: Path, name: str, output: str
) -> None:
    frame = pd.DataFrame({"text": "good", "=n": [*FORMULAS, *PLAIN], "m": -5})
    path = write_frame(tmp_path / name, frame)
    assert run(path, "--output", tmp_path / output) == 0
    assert run(tmp_path / output) == 0
    mark = "" if (name, output) == ("in.csv", "out.csv") else "'"
    for table in (output, f"out.scored{output[3:]}"):
        lines = (tmp_path / table).read_text("utf-8").splitlines()
        rows = csv.reader(lines) if output == "out.csv" else (line.split("\t") for line in lines)
        cells = [f"{mark}{cell}" for cell in FORMULAS] + [*PLAIN]
        assert [row[1:3] for row in rows] == [[f"{mark}=n", "m"], *([cell, "-5"] for cell in cells)]


def test_columns_of_parquet_keep_their_types(run: Run, tmp_path: Path) -> None:
    days = pyarrow.array([date(2026, 1, 2), None], pyarrow.date32())
    lists = pyarrow.array([[1, 2], []], pyarrow.list_(pyarrow.int16()))
    table = pyarrow.table({"text": ["good", None], "day": days, "lists": lists})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert run(tmp_path / "a.parquet") == 0
    assert run(tmp_path / "a.parquet", "--output", tmp_path / "a.csv") == 0
    scored = parquet.read_table(tmp_path / "a.scored.parquet")
    assert scored.select(["text", "day", "lists"]).equals(table)
    assert scored["label"].null_count == scored["score"].null_count == 1
    assert [row[:3] for row in table_of(tmp_path / "a.csv")] == [
        ["text", "day", "lists"],
        ["good", "2026-01-02", "[1,2]"],
        ["", "", "[]"],
    ]


TIMES = {
    "timestamp[ns]": (1767323045123456789, "2026-01-02 03:04:05.123456789"),
    "timestamp[ns, tz=Europe/Berlin]": (1, "1970-01-01 01:00:00.000000001+01:00"),
    "timestamp[us, tz=UTC]": (0, "1970-01-01 00:00:00+00:00"),
    "timestamp[us, tz=Mars/Phobos]": (10, "1970-01-01 00:00:00.000010+00:00"),
    "timestamp[ms]": (253402300800000, "10000-01-01 00:00:00"),
    "time64[ns]": (1, "00:00:00.000000001"),
    "duration[ns]": (86400 * 10**9 + 1, "1 days 00:00:00.000000001"),
    "date32[day]": (10**6, "4707-11-29"),
}


def test_times_have_all_digits_and_json_no_infinity(
    checkpoint_folder: Path, run: Run, tmp_path: Path
) -> None:
    columns: dict[str, pyarrow.Array] = {"text": pyarrow.array(["good"])}
    for name, (number, _) in TIMES.items():
        zone = name.partition("tz=")[2].rstrip("]")
        kind = pyarrow.timestamp(name[10:12], zone) if zone else pyarrow.type_for_alias(name)
        columns[name] = pyarrow.array([number], kind)
    columns["inner"] = pyarrow.array([[1]], pyarrow.list_(pyarrow.timestamp("ns")))
    tensor = pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int8(), 2))
    kind = pyarrow.fixed_shape_tensor(pyarrow.int8(), [2])
    columns["tensor"] = pyarrow.ExtensionArray.from_storage(kind, tensor)
    columns["share"] = pyarrow.array([float("nan")])
    columns["shares"] = pyarrow.array([[{"a": float("-inf"), "b": 0.5}]])
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    write(tmp_path / "pandas.py", "raise ImportError")  # it is not needed
    command = ("-m", "scoring", path, "--checkpoint", checkpoint_folder)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    run_python(*command, "--output", tmp_path / "a.csv", env=environment)
    assert run(path, "--output", tmp_path / "a.jsonl") == 0

    texts = [text for _, text in TIMES.values()]
    kept = ["1970-01-01 00:00:00.000000001"]
    _, row = table_of(tmp_path / "a.csv")
    shares = '[{"a":null,"b":0.5}]'
    assert row[1:-2] == [*texts, json.dumps(kept), "[1,2]", "NaN", shares]
    found = json.loads((tmp_path / "a.jsonl").read_text(), parse_constant=pytest.fail)
    assert list(found.values())[1:-2] == [*texts, kept, [1, 2], None, json.loads(shares)]


def test_rows_that_cannot_be_divided_stay_in_their_place(run: Run, tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", b'text,id\ngood,1\nbad\ngood,2,3\n\xff,4\n"a"b,5\nbad,6,,\nx\ry,7\n'
    )

    assert run(path) == 0

    rows = table_of(tmp_path / "a.scored.csv")
    assert [row[:2] for row in rows] == [
        ["text", "id"],
        ["good", "1"],
        ["bad", ""],
        ["good", "2,3"],
        ["\\xff", "4"],
        ["ab", "5"],
        ["bad", "6"],
        ["x y", "7"],
    ]
    assert [bool(row[2]) for row in rows[1:]] == [True, False, False, False, False, True, False]


def test_a_file_in_another_encoding_is_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["text", "gr\u00fcn", "sch\u00f6n", "good", "\u20ac", "bad"]
    path = write(tmp_path / "a.csv", "\n".join(rows).encode("cp1252"))
    fault = "3 of 5 rows are not UTF-8: name the encoding, such as --encoding cp1252"
    for options in ((), ("--parts", "--output", tmp_path / "parts")):
        assert run(path, "--text-column", "text", *options) == 1
        assert refusal(capsys) == f"{path}: {fault}"
    assert not (tmp_path / "a.scored.csv").exists()
    assert run(path, "--encoding", "cp1252") == 0
    assert [row[0] for row in table_of(tmp_path / "a.scored.csv")] == rows


def test_a_file_without_a_row_to_score_is_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.csv", "text,id\n ,1\n,2\n")
    assert run(path) == 1
    assert refusal(capsys) == (
        f"{path}: no row can be scored: line 2: the text is blank: give the row a text, or leave "
        "it out"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    parquet.write_table(pyarrow.table({"text": [" ", None]}), tmp_path / "a.parquet")
    assert run(tmp_path / "a.parquet") == 1
    gc.collect()  # what of a half-written file is left complains now
    assert "no row can be scored" in refusal(capsys)


def test_lines_that_are_no_objects_stay_in_their_place(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "good"}\nno\n{"id": 1}\n{"text": "bad"}\n')
    assert run(path) == 0
    rows = [json.loads(line) for line in (tmp_path / "a.scored.jsonl").read_text().splitlines()]
    assert rows[1:3] == [{"label": None, "score": None}, {"id": 1, "label": None, "score": None}]
    assert [row.get("text") for row in rows] == ["good", None, None, "bad"]


def test_standard_output_has_the_rows_and_nothing_else_and_must_be_open(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.csv", "text\ngood\n")
    assert run(path, "--output", "-") == 0
    written, said = capfd.readouterr()
    header, row = csv.reader(io.StringIO(written))
    assert (header, row[0]) == (["text", "label", "score"], "good")
    assert "written to standard output: " in said
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    monkeypatch.setattr(sys, "stdout", None)
    assert run(path, "--output", "-") == 1
    assert refusal(capfd) == "--output -: standard output is closed: name a file"


def test_what_is_there_is_replaced_only_if_asked(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.csv", "text\ngood\n")
    there = write(tmp_path / "a.scored.csv", "mine")
    assert run(path) == 1
    expected = f"{there}: is there already: replace it with --overwrite, or name another --output"
    assert refusal(capsys) == expected
    assert there.read_text() == "mine"
    assert run(path, "--overwrite") == 0
    assert table_of(there)[0] == ["text", "label", "score"]
    assert run(path, "--output", path, "--overwrite") == 1
    assert refusal(capsys) == f"--output {path}: is the input: name another file"
    assert path.read_text() == "text\ngood\n"


def test_a_folder_gets_parts(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.csv", "text\ngood\n")
    (tmp_path / "there.csv").mkdir()
    assert run(path, "--parts") == 1
    expected = "--output is missing: give a folder for the parts, as in --output scored"
    assert refusal(capsys) == expected
    for options in (["new.csv/"], ["there.csv"], ["parts.csv", "--parts"]):
        assert run(path, "--output", f"{tmp_path}/{options[0]}", *options[1:]) == 0
        assert (tmp_path / options[0] / "part-00000.parquet").is_file()


INTERRUPTED = (
    "interrupted: nothing is written; run the same command again, or with --parts --output DIR, "
    "which goes on where it was interrupted"
)


def hit(function: Callable[..., Any], number: int | None) -> Callable[..., Any]:
    """Lets a function fail, or send this process a signal first; twice, as some terminals do."""

    def called(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        if number is None:
            raise MemoryError
        for _ in range(2):
            os.kill(os.getpid(), number)
        return function(*given, **named)

    return called


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, None])
@pytest.mark.parametrize(
    "place",
    [
        "scoring.one_file.scan_table",
        "model.tables.table.TextTable.read",
        "scoring.scorer.load_on",
        "model.tokenization.tokenizer.Tokenizer.encode",
        "model.predictor.Predictor._predict",
        "model.tables.writing._DelimitedRows.write",
        "os.fsync",
    ],
)
def test_an_interruption_or_a_failure_is_no_fault_of_a_text_and_leaves_nothing(
    place: str, number: int | None, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.csv", "text\n" + "good bad film\n" * 9)
    threads, collected = threading.active_count(), gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, hit(pkgutil.resolve_name(place), number))
        assert run(path) == (128 + number if number else 1)
    wait_until(lambda: threading.active_count() == threads)
    assert gc.get_threshold() == collected
    *progress, said = capsys.readouterr().err.splitlines()
    assert said.startswith(f"headlight-score: {INTERRUPTED if number else 'memory ran out: '}")
    assert all(line.startswith("score: 9/9") for line in progress)
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert run(path, "--parts", "--output", tmp_path / "parts") == 0


@pytest.mark.parametrize("nth", range(3))
def test_a_signal_in_the_end_of_a_thread_still_waits_for_it(
    nth: int, run: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", "text\n" + "good bad film\n" * 9)
    end, calls, threads = ThreadPoolExecutor.shutdown, itertools.count(), threading.active_count()

    def interrupted(executor: ThreadPoolExecutor, **options: bool) -> None:
        if next(calls) == 2 * nth:  # of the two for each thread, it ends the first
            signal.raise_signal(signal.SIGINT)
        end(executor, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
        assert run(path) == 128 + signal.SIGINT
    assert threading.active_count() == threads
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


STEPS = (
    "model.tables.table.TextTable.read",
    "scoring.scorer.Scorer.encode",
    "scoring.scorer.Scorer.answer",
    "scoring.one_file.join_answers",
)


def on_call(number: int, place: str, act: Callable[[], object]) -> Callable[..., Any]:
    """Lets a function act before it works on its call of this number, from 1."""
    function, calls = pkgutil.resolve_name(place), itertools.count(1)

    def called(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        if next(calls) == number:
            act()
        return function(*given, **named)

    return called


def test_a_piece_is_at_each_step_at_once_and_the_rows_keep_their_order(
    run: Run, checkpoint_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scoring.one_file._PIECE_BYTES", 200)
    texts = [f"good bad film {number} " * (1 + number % 7) for number in range(60)]
    path = write(tmp_path / "a.csv", "text\n" + "\n".join(texts) + "\n")
    met = threading.Barrier(len(STEPS))
    with pytest.MonkeyPatch.context() as patch:
        for number, place in enumerate(reversed(STEPS), start=1):
            patch.setattr(place, on_call(number, place, partial(met.wait, PATIENCE)))
        assert run(path) == 0
    _, *rows = table_of(tmp_path / "a.scored.csv")
    answers = Scorer(checkpoint_folder).score(texts)
    assert [(row[0], row[1]) for row in rows] == list(zip(texts, answers.labels, strict=True))
    assert [float(row[2]) for row in rows] == pytest.approx(answers.scores.tolist(), abs=2e-6)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_in_a_pass(
    number: int, checkpoint_folder: Path, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", "text\ngood\n")
    script = (
        "import sys, time, model.predictor as predictor; from scoring.__main__ import main; "
        "wait = lambda *_: print('here', flush=True) or [time.sleep(0.01) for _ in range(60_000)]; "
        "predictor.Predictor._predict = wait; sys.exit(main())"
    )
    command = [sys.executable, "-c", script, str(path), "--checkpoint", str(checkpoint_folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert "here\n" in iter(process.stdout.readline, "")
        process.send_signal(number)
        _, said = process.communicate(timeout=120)

    assert (process.returncode, said) == (143, f"headlight-score: {INTERRUPTED}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


def test_of_two_runs_one_writes_and_no_other_file_is_replaced(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, there = write(tmp_path / "a.csv", "text\ngood\n"), tmp_path / "a.scored.csv"
    path.chmod(0o600)
    score = Scorer.answer
    appear = partial(write, there, "theirs")
    busy = f"{there}: another command is writing it: wait for it, or name another file"
    late = f"{there}: is there by now, and stays: nothing is written; name another file"
    for meanwhile, status in ((lambda: run(path, "--overwrite"), 0), (appear, 1)):

        def score_late(scorer: Scorer, texts: Any, *, advance: Any, call: Any = meanwhile) -> Any:  # noqa: ANN401
            with pytest.MonkeyPatch.context() as undone:
                undone.setattr(Scorer, "answer", score)
                call()
            return score(scorer, texts, advance=advance)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scorer, "answer", score_late)
            assert run(path) == status
        assert (busy, late)[status] in capsys.readouterr().err
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a.csv", "a.scored.csv"]
        if status == 0:
            assert there.stat().st_mode & 0o777 == 0o600
            there.unlink()
    assert there.read_text() == "theirs"


def test_a_link_and_a_long_name_are_written(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, link = write(tmp_path / "a.csv", "text\ngood\n"), tmp_path / "link.csv"
    link.symlink_to("target.csv")
    assert run(path, "--output", link, "--overwrite") == 0
    assert link.is_symlink()
    assert table_of(tmp_path / "target.csv")[1][0] == "good"
    long = path.rename(tmp_path / f"{'a' * 248}.csv")
    assert run(long, "--output", tmp_path / f"{'b' * 251}.csv") == 0
    long.chmod(0o600)
    assert run(long, "--parts", "--output", tmp_path / "parts") == 0
    assert (tmp_path / "parts" / "part-00000.parquet").stat().st_mode & 0o777 == 0o600
    assert run(long) == 1
    name = f"{'a' * 248}.scored.csv"
    assert refusal(capsys) == f"{tmp_path / name}: cannot be written: File name too long"


@pytest.mark.parametrize("options", [[], ["--output", "-"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_standard_output_is_one_line(
    options: list[str], unbuffered: str, checkpoint_folder: Path, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", "text\ngood\n")
    command = ("-m", "scoring", path, "--checkpoint", checkpoint_folder, *options)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ended = run_python(*command, stdout=full, env=environment, check=False)
    told = [line for line in ended.stderr.splitlines() if line.startswith("headlight-score: ")]
    if options:
        assert told == ["headlight-score: -: cannot be written: No space left on device"]
    else:
        assert table_of(tmp_path / "a.scored.csv")[1][0] == "good"
        assert told == [
            "headlight-score: standard output: No space left on device; the answers are written"
        ]
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr


def test_windows(tmp_path: Path) -> None:
    """It starts, writes a file and parts, and a checkpoint is saved and replaced."""
    script = (
        "import tests.windows; tests.windows.pretend(); from pathlib import Path; import sys; "
        "from scoring.__main__ import main; from tests.builders import tiny_checkpoint; "
        "folder, *words = sys.argv[1:]; path = tiny_checkpoint(Path(folder)); "
        "tiny_checkpoint(path); words += ['--checkpoint', folder, '--overwrite']; "
        "parts = ['--parts', '--workers', '1', '--output', folder + '-parts']; "
        "sys.exit(main(words) or main(words) or main(words + parts))"
    )
    path = write(tmp_path / "a.csv", "text\ngood\n")
    ended = run_python("-c", script, tmp_path / "tiny", path, check=False)
    assert ended.returncode == 0, ended.stderr
    assert table_of(tmp_path / "a.scored.csv")[1][0] == "good"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        *("a.csv", "a.scored.csv", "tiny", "tiny-parts")
    ]


def test_a_file_without_a_header(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["A very good film.\t1", "A very bad film\t0", 'The "best, of all.\t1']
    path = write(tmp_path / "a.txt", "\n".join(lines) + "\n")
    assert run(path, "--no-header") == 0
    rows = table_of(tmp_path / "a.scored.txt", "\t")
    assert rows[0] == ["text", "input_label", "label", "score"]
    assert ["\t".join(row[:2]) for row in rows[1:]] == lines
    assert "3 rows, text lines without a header" in capsys.readouterr().out


def test_the_answers_are_compared_with_a_column(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.csv", "text,stars\n" + "good,5\nbad,1\nfilm,3\n ,x\n" * 2)
    assert run(path, "--compare", "stars") == 0
    said = capsys.readouterr().out.splitlines()
    scored = pd.read_csv(tmp_path / "a.scored.csv", keep_default_na=False)
    right = 2 * sum(
        scored["label"][row] == label for row, label in enumerate(["positive", "negative"])
    )
    assert "numbers in 'stars': 1 and 2 are negative, 4 and 5 are positive" in said
    assert f"agreement with 'stars': {right} of 4 rows, {right / 4:.1%}" in said
    assert "not compared: 2 rows without a label that the model has" in said
    assert not any("good" in line or "film" in line for line in said)


def test_a_column_that_cannot_be_compared_is_refused_before_the_work(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.csv", 'text,Sterne\ngood,5\nbad,"1,5"\n')
    there = write(tmp_path / "a.scored.csv", "mine")
    assert run(path, "--compare", "label", "--overwrite") == 1
    told = "--compare label: is none of the kept columns 'text', 'Sterne': name one of them"
    assert refusal(capsys) == told
    assert run(path, "--compare", "Sterne", "--overwrite") == 1
    assert refusal(capsys).startswith("--compare Sterne: line 3 has '1,5': name a column whose ")
    assert there.read_text() == "mine"
    assert run(path, "--parts", "--output", tmp_path / "x", "--compare", "Sterne") == 1
    assert refusal(capsys) == "--compare is for one file into one file: leave it out, or --parts"

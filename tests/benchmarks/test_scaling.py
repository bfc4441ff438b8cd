"""How the service scales on a machine: what is measured where, the tables, the pictures."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import scaling
from benchmarks.errors import BenchmarkError
from benchmarks.scaling import Cost, Machine, Scaling, Throughput, counts, main, pinned, tables
from benchmarks.scaling_plots import draw
from benchmarks.texts import numbered
from model import open_checkpoint
from tests.end_to_end.servers import ROOT

FOUND = Scaling(
    [Throughput(1, 400.0, 390.0, 500.0), Throughput(2, 750.0, 700.0, 1000.0)],
    [Cost(8, 60.25, 50.0), Cost(16, 55.0, 45.0)],
    [400.0, 280.0, 290.0],
    [3.0, 5.0, 4.0],
)
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="nothing can be pinned")
needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)


@pytest.mark.parametrize(
    ("cores", "measured"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (12, [1, 2, 4, 8, 12])],
)
def test_powers_of_two_and_all_cores_are_measured(cores: int, measured: list[int]) -> None:
    assert counts(cores) == measured


def test_a_numbered_text_has_the_tokens_that_were_asked_for() -> None:
    tokenizer = open_checkpoint(ROOT / "checkpoints" / "default").tokenizer
    for tokens in scaling.LENGTHS:
        text = numbered(scaling.text_of(tokenizer, tokens), 200_000)
        assert len(tokenizer.encode(text).input_ids) == tokens
    with pytest.raises(BenchmarkError, match=r"a numbered text has at least [0-9]+ tokens, got 2"):
        scaling.text_of(tokenizer, 2)


@needs_linux
def test_what_starts_in_the_block_is_pinned() -> None:
    before = os.sched_getaffinity(0)
    first = min(before)
    with pinned([first]):
        assert os.sched_getaffinity(0) == {first}
    assert os.sched_getaffinity(0) == before


def test_the_tables() -> None:
    assert tables(FOUND).splitlines() == [
        "| cores | replicas, one a core | one replica | the model alone |",
        "| ----- | -------------------- | ----------: | --------------: |",
        "| 1     | 400.0                |       390.0 |           500.0 |",
        "| 2     | 750.0                |       700.0 |          1000.0 |",
        "",
        "| tokens | service, µs a token | the model alone, µs a token |",
        "| ------ | ------------------- | --------------------------: |",
        "| 8      | 60.2                |                        50.0 |",
        "| 16     | 55.0                |                        45.0 |",
        "",
        "|                          | median | least |  most |",
        "| ------------------------ | ------ | ----: | ----: |",
        "| first replica, MB        | 400.0  | 400.0 | 400.0 |",
        "| each further one, MB     | 285.0  | 280.0 | 290.0 |",
        "| start to first answer, s | 4.0    |   3.0 |   5.0 |",
    ]


def test_the_pictures(tmp_path: Path) -> None:
    draw(FOUND.throughput, FOUND.costs, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cost.svg", "throughput.svg"]
    for path in tmp_path.iterdir():
        assert path.read_text(encoding="utf-8").startswith("<?xml")


@needs_linux
@needs_wrk
def test_a_checkpoint_that_is_missing_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", str(tmp_path / "missing"), "--cores", "1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("benchmarks.scaling: replica")
    assert f"did not start: --checkpoint: {tmp_path / 'missing'}: " in last


@needs_linux
@needs_wrk
def test_an_interrupt_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "measure", interrupt)
    assert main([]) == 130
    assert capsys.readouterr().err == "benchmarks.scaling: interrupted\n"

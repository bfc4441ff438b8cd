"""One short round of `make score-faults`, and what its judgement finds."""

import errno
import json
import random
from pathlib import Path

import pytest
from pyarrow import parquet

import scoring.__main__ as command
from tests.resilience.scoring import Place, Round, place
from tests.resilience.scoring_inputs import FORMS, make_inputs
from tests.resilience.small_disk import small_disk
from tests.scoring.conftest import OwnProcess


@pytest.mark.slow
def test_a_job_that_much_happens_to_writes_the_same_bytes(tmp_path: Path) -> None:
    with place(tmp_path) as where:
        outcome = Round(where, "text", rows=4_000, seed=1).run(most=6)

    assert outcome.faults == []
    assert outcome.done.total() > 0
    assert outcome.runs > 0


@pytest.mark.parametrize("form", FORMS)
def test_made_inputs_have_good_and_bad_rows_in_every_file(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    make_inputs(tmp_path / "in", form, rows=400, seed=0)
    monkeypatch.setattr(command, "_engine", lambda *_: (OwnProcess(), 1))
    options = ["--checkpoint", str(checkpoint_folder), "--output", str(tmp_path / "out")]

    assert command.main([str(tmp_path / "in"), *options]) == 0

    success = json.loads((tmp_path / "out" / "SUCCESS.json").read_text())
    assert success["rows_in"] == 400
    assert 0 < success["bad_rows"] <= 8
    lines = (tmp_path / "out" / "bad-rows.jsonl").read_text().splitlines()
    files = {json.loads(line)["file"] for line in lines}
    assert files == {str(path) for path in (tmp_path / "in").iterdir()}


def test_ends_that_no_fault_leads_to_are_noted(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        where = Place(tmp_path, tmp_path / "none", disk, {}, tmp_path / "unreadable")
        turn = Round(where, "json", rows=200, seed=0)
        for code, told, met in (
            (0, [], set()),
            (-9, [], {"driver killed"}),
            (143, ["interrupted"], {"driver interrupted"}),
            (1, ["cannot be read"], {"read error"}),
        ):
            turn._judge(code, told, met)
        assert turn.outcome.faults == []
        turn._judge(-9, [], {"worker killed"})
        turn._judge(1, ["EngineError"], {"driver killed"})
        turn._judge(1, [], {"disk full"})
    assert turn.outcome.faults == [
        "status -9 after ['worker killed']: []",
        "status 1 after ['driver killed']: ['EngineError']",
        "status 1 after ['disk full']: []",
    ]


def test_a_small_disk_is_full_and_has_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        if not disk.is_small:
            pytest.skip("a disk can be mounted by root alone")
        disk.fill()
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is compared
            (disk.folder / "more").write_bytes(bytes(4096))
        assert caught.value.errno == errno.ENOSPC
        disk.free()
        (disk.folder / "more").write_bytes(bytes(4096))


def test_harm_is_undone(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        where = Place(tmp_path, tmp_path / "none", disk, {}, tmp_path / "unreadable")
        turn = Round(where, "parquet", rows=400, seed=0)
        turn._harm.chance = random.Random(0)
        before = {path: path.read_bytes() for path in turn._inputs.iterdir()}
        times = {path: path.stat().st_mtime_ns for path in before}
        for _ in range(5):
            turn._harm._damage(None)  # type: ignore[arg-type]
            turn._harm._break_reads(None)  # type: ignore[arg-type]
        changed = [path for path in before if path.read_bytes() != before[path]]
        assert changed
        assert where.unreadable.exists()
        turn._harm.heal()
    assert {path: path.read_bytes() for path in before} == before
    assert {path: path.stat().st_mtime_ns for path in before} == times
    assert not where.unreadable.exists()
    assert sum(parquet.read_metadata(path).num_rows for path in before) == 400

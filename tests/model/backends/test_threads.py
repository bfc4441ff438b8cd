"""How many threads a container may use."""

from pathlib import Path

import pytest

from model.backends import threads
from model.backends.threads import choose_threads


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_usable_cores", lambda: 4)


def test_a_setting_is_taken_as_it_is(tmp_path: Path) -> None:
    assert choose_threads(7, cgroup=tmp_path) == 7


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 4),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("900000 100000\n", 4),
        ("100000 0\n", 4),
        ("nonsense\n", 4),
    ],
)
def test_version_2(tmp_path: Path, content: str, expected: int) -> None:
    (tmp_path / "cpu.max").write_text(content, encoding="ascii")
    assert choose_threads(0, cgroup=tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 4), ("75000", 1), ("300000", 3)])
def test_version_1(tmp_path: Path, quota: str, expected: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n", encoding="ascii")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n", encoding="ascii")
    assert choose_threads(0, cgroup=tmp_path) == expected


def test_without_a_cgroup(tmp_path: Path) -> None:
    assert choose_threads(0, cgroup=tmp_path) == 4


def test_the_cores_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    assert choose_threads(0, cgroup=tmp_path) >= 1

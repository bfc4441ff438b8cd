"""How full the memory is, by folders that look like those of the kernel."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.errors import OverloadedError
from service.http.gate import ANY_SHARE, LARGE_SHARE, MemoryWatch

V1_NO_LIMIT = "9223372036854771712"


@dataclass
class Clock:
    """A clock that a test moves."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def write_v2(folder: Path, limit: str, used: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\nactive_file 9\ninactive_file {cache}\nslab 3\n")


def write_v1(folder: Path, limit: str, used: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"cache 9\ninactive_file 1\ntotal_inactive_file {cache}\n")


def watch(root: Path, own: str, clock: Clock | None = None) -> MemoryWatch:
    (root / "own").write_text(own)
    return MemoryWatch(root=root, own=root / "own", clock=clock or Clock())


def test_the_cache_of_files_does_not_count(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "1000", used=950, cache=300)
    write_v1(tmp_path / "memory/app", "1000", used=850, cache=300)
    assert watch(tmp_path, "0::/app\n").share == 0.65
    assert watch(tmp_path, "5:cpu:/app\n4:hugetlb,memory:/app\n").share == 0.55


def test_the_fullest_of_all_groups_round_the_process_counts(tmp_path: Path) -> None:
    write_v2(tmp_path / "pod/app", "1000", used=100)
    write_v2(tmp_path / "pod", "2000", used=1800)
    assert watch(tmp_path, "0::/pod/app\n").share == 0.9


@pytest.mark.parametrize("own", ["0::/outside/of/it\n", "4:memory:/outside/of/it\n"])
def test_a_container_sees_its_own_group_at_the_root(tmp_path: Path, own: str) -> None:
    write_v2(tmp_path, "1000", used=300)
    write_v1(tmp_path / "memory", "1000", used=300)
    assert watch(tmp_path, own).share == 0.3


def test_without_a_limit_nothing_is_refused(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "max", used=10**15)
    write_v1(tmp_path / "memory/app", V1_NO_LIMIT, used=10**15)
    for own in ("0::/app\n4:memory:/app\n", "0::/\n", ""):
        watching = watch(tmp_path, own)
        assert watching.share == 0
        watching.check(LARGE_SHARE)
    nothing = tmp_path / "nothing"
    assert MemoryWatch(root=nothing, own=nothing).share == 0


def test_it_is_read_four_times_a_second_at_most(tmp_path: Path) -> None:
    clock = Clock()
    write_v2(tmp_path / "app", "1000", used=100)
    watching = watch(tmp_path, "0::/app\n", clock)
    seen = [watching.share]
    write_v2(tmp_path / "app", "1000", used=900)
    for _ in range(4):
        clock.now += 0.125
        seen.append(watching.share)
    assert seen == [0.1, 0.1, 0.9, 0.9, 0.9]


def test_a_group_that_is_gone_refuses_nothing(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "1000", used=999)
    watching = watch(tmp_path, "0::/app\n")
    (tmp_path / "app/memory.stat").unlink()
    assert watching.share == 0


@pytest.mark.parametrize(
    ("used", "large", "small"), [(900, True, True), (901, False, True), (951, False, False)]
)
def test_large_requests_are_refused_first(
    tmp_path: Path, used: int, *, large: bool, small: bool
) -> None:
    write_v2(tmp_path / "app", "1000", used)
    watching = watch(tmp_path, "0::/app\n")
    for most, admitted, kind in (
        (LARGE_SHARE, large, "90% the service takes no large request"),
        (ANY_SHARE, small, "95% the service takes no request that computes"),
    ):
        if admitted:
            watching.check(most)
            continue
        detail = (
            f"{used / 1000:.0%} of the memory is in use, and above {kind}: try again later, or ask "
            "another replica."
        )
        with pytest.raises(OverloadedError, match=f"^{re.escape(detail)}$") as caught:
            watching.check(most)
        assert caught.value.retry_after == 2

"""Which requests the gate admits: by the room in the queue, and by how full the memory is."""

import json
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware

from service.errors import OverloadedError, Refusal
from service.http.access import LARGE_SHARE, ApiKeys, Gate, MemoryWatch
from service.http.middleware import Lifecycle
from service.metrics import Metrics

PATH = b"/predict"
NOWHERE = Path("/nowhere")
PEER = ("192.0.2.1", 4711)


def full(client: Hashable, route: str, seconds: float) -> None:
    """Has no room."""
    assert (client, route, seconds) == (PEER, "/predict", 5.0)  # the route, whatever the path
    raise OverloadedError("full.", refusal=Refusal.DEADLINE, retry_after=3)


def has_room(client: Hashable, route: str, seconds: float) -> None:
    """Has room."""
    assert (client, route, seconds) == (PEER, "/predict", 5.0)


def make(
    check_room: Callable[[Hashable, str, float], None], *, groups: Path = NOWHERE
) -> tuple[Gate, Metrics]:
    metrics = Metrics([("/predict", "POST", {200, 503})])
    memory = MemoryWatch(root=groups, own=groups / "own")
    gate = Gate(
        check_room,
        Lifecycle(),
        metrics,
        memory,
        api_keys=ApiKeys(frozenset()),
        routes={("POST", "/predict"): "/predict", ("POST", "/hf"): "/predict"},
        with_error={("POST", "/hf")},
        seconds=5.0,
        cors=CORSMiddleware(Starlette(), ["https://a.example"], expose_headers=["Retry-After"]),
    )
    return gate, metrics


@pytest.mark.parametrize(("path", "closes"), [(PATH, False), (b"/hf", True)])
async def test_a_refusal_has_a_complete_answer(path: bytes, *, closes: bool) -> None:
    """On a path of another system it repeats its detail as `error`."""
    gate, _ = make(full)
    asked = [(b"x-request-id", b"mine"), (b"origin", b"https://a.example")]
    answer = gate.reject(b"POST", path, asked, peer=PEER, closes=closes)
    assert answer is not None
    assert gate.reject(b"GET", b"/health/live", []) is None
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"x-request-id: mine", b"retry-after: 3", b"cache-control: no-store"} <= set(lines)
    assert b"access-control-allow-origin: https://a.example" in lines
    assert (b"connection: close" in lines) is closes
    assert f"content-length: {len(body)}".encode() in lines
    problem = json.loads(body)
    repeated = "full." if path == b"/hf" else None
    assert (problem["type"], problem["detail"]) == ("/problems/overloaded", "full.")
    assert problem.get("error") == repeated
    other = OverloadedError("full.", refusal=Refusal.CONNECTIONS)
    body = gate.answer(other, (b"POST", path), [], closes=True).partition(b"\r\n\r\n")[2]
    assert json.loads(body).get("error") == repeated


V1_NO_LIMIT = "9223372036854771712"


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


def watch(root: Path, own: str, clock: Callable[[], float] = lambda: 100.0) -> MemoryWatch:
    (root / "own").write_text(own)
    return MemoryWatch(root=root, own=root / "own", clock=clock)


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
    now = 100.0
    write_v2(tmp_path / "app", "1000", used=100)
    watching = watch(tmp_path, "0::/app\n", lambda: now)
    seen = [watching.share]
    write_v2(tmp_path / "app", "1000", used=900)
    for now in (100.125, 100.25, 100.375, 100.5):  # noqa: B007 - the clock
        seen.append(watching.share)
    assert seen == [0.1, 0.1, 0.9, 0.9, 0.9]


def test_a_group_that_is_gone_refuses_nothing(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "1000", used=999)
    watching = watch(tmp_path, "0::/app\n")
    (tmp_path / "app/memory.stat").unlink()
    assert watching.share == 0


@pytest.mark.parametrize(
    ("used", "headers", "admitted"),
    [
        (900, [(b"content-length", b"65537")], True),
        (901, [(b"content-length", b"65537")], False),
        (901, [(b"transfer-encoding", b"chunked")], False),
        (901, [(b"content-length", b"9"), (b"content-encoding", b"gzip")], False),
        (950, [(b"content-length", b"65536")], True),
        (951, [(b"content-length", b"1")], False),
        (951, [], False),
    ],
)
async def test_a_full_memory_refuses_large_bodies_first(
    tmp_path: Path, used: int, headers: list[tuple[bytes, bytes]], *, admitted: bool
) -> None:
    (tmp_path / "own").write_text("0::/")
    write_v2(tmp_path, "1000", used)
    gate, metrics = make(has_room, groups=tmp_path)
    assert gate.reject(b"GET", b"/health/live", headers) is None
    answer = gate.reject(b"POST", PATH, headers, peer=PEER)
    assert (answer is None) is admitted
    count = metrics.requests.labels("/predict", "POST", "503")
    assert count._value.get() == int(not admitted)
    assert metrics.refused.labels("memory")._value.get() == int(not admitted)

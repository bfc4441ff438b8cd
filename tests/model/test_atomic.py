"""Files and folders are written whole or not at all, and by one process at a time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import Timeout

from model.atomic import held, replacing, replacing_folder, write_whole

ROOT = Path(__file__).parents[2]
OTHER = """
import pathlib, sys
from model.atomic import replacing, replacing_folder
work = getattr(sys.modules["model.atomic"], sys.argv[1])
with work(pathlib.Path(sys.argv[2])) as fresh:
    (fresh / "a").write_bytes(b"half") if sys.argv[1].endswith("folder") else fresh.write(b"half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def another(work: str, path: Path) -> "subprocess.Popen[str]":
    """Starts a process that has begun to write."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, work, path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_and_a_live_one_keeps_its_file(
    tmp_path: Path,
) -> None:
    with another("replacing", tmp_path / "a") as first:
        left = names(tmp_path)
        with pytest.raises(Timeout), replacing(tmp_path / "a", wait=False):
            pass
        write_whole(tmp_path / "b", b"whole")
        assert names(tmp_path) == [*left, "b"]
        first.send_signal(signal.SIGKILL)
    assert names(tmp_path) == [*left, "b"]
    with replacing(tmp_path / "a", wait=False, exclusive=True) as file:
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a", "b"]


def test_a_folder_that_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    with another("replacing_folder", tmp_path / "a") as first:
        first.send_signal(signal.SIGKILL)
    assert len(names(tmp_path)) == 2
    with replacing_folder(tmp_path / "a") as fresh:
        (fresh / "b").write_bytes(b"whole")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["b"]


def test_one_that_waits_writes_after_the_other(tmp_path: Path) -> None:
    with another("replacing", tmp_path / "a") as first:
        script = "import pathlib, sys; from model.atomic import write_whole as write"
        script += "; write(pathlib.Path(sys.argv[1]), b'last')"
        waiting = subprocess.Popen([sys.executable, "-c", script, tmp_path / "a"], cwd=ROOT)
        first.communicate(timeout=120)
    assert (tmp_path / "a").read_bytes() == b"half"
    assert waiting.wait(timeout=120) == 0
    assert (tmp_path / "a").read_bytes() == b"last"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_what_appears_meanwhile_is_not_replaced(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "a"
    if not links:
        monkeypatch.setattr(os, "link", fail)
    with pytest.raises(FileExistsError), replacing(path, exclusive=True):
        path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError), replacing(path, exclusive=True):
        raise AssertionError("it began")

    assert path.read_bytes() == b"theirs"
    path.unlink()
    with replacing(path, exclusive=True) as file:
        file.write(b"mine")
    assert path.read_bytes() == b"mine"
    assert names(tmp_path) == ["a"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        raise ZeroDivisionError
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in ("folder/a", "folder/b"):  # of which the second does not exist
        link = tmp_path / Path(target).name
        link.symlink_to(target)
        if target == "folder/a":
            (tmp_path / target).write_bytes(b"old")
        write_whole(link, b"new")
        assert link.is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"
        with pytest.raises(FileExistsError), replacing(link, exclusive=True):
            pass
    assert names(tmp_path / "folder") == ["a", "b"]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with subprocess.Popen(["cat", tmp_path / "a"], stdout=subprocess.PIPE) as reader:
        write_whole(tmp_path / "a", b"new")
        assert reader.stdout is not None
        assert reader.stdout.read() == b"new"
    assert (tmp_path / "a").is_fifo()
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("umask", "like", "before", "mode"),
    [
        (0o022, None, None, 0o644),
        (0o027, None, None, 0o640),
        (0o022, 0o600, None, 0o600),
        (0o022, 0o444, None, 0o644),
        (0o022, 0o777, None, 0o644),
        (0o022, 0o644, 0o640, 0o640),
        (0o022, 0o600, 0o644, 0o600),
    ],
)
def test_nobody_may_read_it_who_may_not_read_what_it_comes_from(
    umask: int, like: int | None, before: int | None, mode: int, tmp_path: Path
) -> None:
    old = os.umask(umask)
    try:
        for name, bits in (("like", like), ("a", before)):
            if bits is not None:
                (tmp_path / name).touch()
                (tmp_path / name).chmod(bits)
        with replacing(tmp_path / "a", like=[tmp_path / "like"]) as file:
            (fresh,) = tmp_path.glob(".*.part")
            assert fresh.stat().st_mode & 0o777 == mode
            file.write(b"new")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("name", ["a" * 255, "ä" * 127])
def test_any_name_that_a_file_may_have_can_be_written(name: str, tmp_path: Path) -> None:
    write_whole(tmp_path / name, b"new")
    with replacing_folder(tmp_path / name[1:]):
        pass
    assert names(tmp_path) == sorted([name, name[1:]])


def test_a_lock_is_held_by_one_and_taken_from_a_killed_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()  # as a killed process leaves it
    with held(lock):
        with pytest.raises(Timeout), held(lock):
            raise AssertionError("two hold it")
        assert lock.exists()
    assert not lock.exists()

"""Processes and all that they started, whatever group or parent those have by now."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.processes import ProcessTree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")

MEGABYTES = 64
# The first holds memory that its two children, in sessions of their own, share.
SHARING = f"""
import os, sys, time
held = os.urandom({MEGABYTES} * 2**20)
for _ in range(2):
    if not os.fork():
        os.setsid()
        break
    print(flush=True)
time.sleep(600)
"""
# The first asks another one to start a third, and then the second ends.
ORPHANED = """
import os, sys, time
if not os.fork():
    os.setsid()
    if os.fork():
        sys.stdin.readline()
        os._exit(0)
    print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def started(program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def state(process: int) -> str:
    """One letter; that of a process which has ended is Z."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return "Z"
    return text.rpartition(")")[2].split()[0]


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_memory_is_that_of_all_and_what_they_share_counts_once() -> None:
    with started(SHARING) as process:
        tree = ProcessTree(process.pid)
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        held = tree.memory_bytes()
        alone = int(
            Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii").split("Pss:")[1].split()[0]
        )
        tree.signal(signal.SIGKILL)

    assert held is not None
    # Each has a third of what all share.
    assert 1024 * alone < MEGABYTES * 2**20 < held < 1.5 * MEGABYTES * 2**20


def test_a_process_is_known_when_its_parent_has_ended() -> None:
    with started(ORPHANED) as process:
        tree = ProcessTree(process.pid)
        assert process.stdout is not None
        assert process.stdin is not None
        third = int(process.stdout.readline())
        tree.signal(signal.SIGSTOP)
        wait_until(lambda: state(third) == "T")
        tree.signal(signal.SIGCONT)
        process.stdin.write("end\n")
        process.stdin.flush()
        wait_until(
            lambda: (
                Path(f"/proc/{third}/stat").read_text("ascii").rpartition(")")[2].split()[2]
                != str(process.pid)
            )
        )
        tree.signal(signal.SIGKILL)
        wait_until(lambda: state(third) == "Z")


def test_processor_time_is_that_of_all() -> None:
    computing = "import os, time\nif not os.fork(): os.setsid()\nwhile True: pass"
    with started(computing) as process:
        tree = ProcessTree(process.pid)
        wait_until(lambda: tree.processor_seconds() > 0.2)
        tree.signal(signal.SIGKILL)


def test_processes_that_have_ended_hold_nothing_and_take_no_signal() -> None:
    tree = ProcessTree(2**30)

    tree.signal(signal.SIGKILL)

    assert tree.memory_bytes() == 0
    assert tree.processor_seconds() == 0
    assert os.getpid() not in tree._alive()

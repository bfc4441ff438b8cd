"""What the memory of one service consists of while mixed load goes on, and nothing disturbs it.

    python -m tests.resilience.drift --minutes 10
    MALLOC_ARENA_MAX=2 python -m tests.resilience.drift
    ONEDNN_PRIMITIVE_CACHE_CAPACITY=0 python -m tests.resilience.drift --kinds "one sentence"

The service inherits the environment. Prints a line each half minute; needs Linux.
"""

import argparse
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.end_to_end.servers import ROOT, service
from tests.resilience.load import KINDS, Client, Tally

_EVERY = 30.0
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+) *(.*)")


def read_parts(smaps: str) -> dict[str, float]:
    """Sums the resident memory of a process by what it is.

    Args:
        smaps: the content of `/proc/PID/smaps`.

    Returns:
        In MB: `code` that was compiled at run time, `heap` (malloc's first arena), `anonymous`
        (other arenas, large blocks, stacks) and `files`.
    """
    parts = dict.fromkeys(("code", "heap", "anonymous", "files"), 0.0)
    part = "files"
    for line in smaps.splitlines():
        if mapping := _MAPPING.fullmatch(line):
            permissions, inode, name = mapping.groups()
            if inode != "0":
                part = "files"
            elif name == "[heap]":
                part = "heap"
            else:
                part = "code" if "x" in permissions and not name else "anonymous"
        elif line.startswith("Rss:"):
            parts[part] += int(line.split()[1]) / 1000
    return parts


def main() -> int:
    """Starts the service and watches it."""
    parser = argparse.ArgumentParser(description="Memory of one service under mixed load.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--threads", default="1", help="of the service")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    given = parser.parse_args()
    limits = ("--dtype", "auto", "--threads", given.threads, "--request-timeout", "60")
    tally, stop = Tally(), threading.Event()

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            client.ask(chance.choice(given.kinds), chance)

    with (
        tempfile.TemporaryDirectory() as folder,
        service(given.checkpoint, Path(folder), *limits) as running,
    ):
        client = Client(running.port, tally)
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(given.clients)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        while (seconds := time.monotonic() - begin) < 60 * given.minutes:
            time.sleep(_EVERY)
            smaps = Path(f"/proc/{running.process.pid}/smaps").read_text(encoding="utf-8")
            parts = read_parts(smaps)
            shown = ", ".join(f"{name} {size:.0f}" for name, size in parts.items())
            answers = tally.right.total()
            print(
                f"{(seconds + _EVERY) / 60:5.1f} min, {answers:6} answers: "
                f"{sum(parts.values()):.0f} MB ({shown})",
                flush=True,
            )
        stop.set()
        for thread in threads:
            thread.join()
    print(f"refused: {tally.refused.total()}; wrong or lost: {dict(tally.faults) or 'none'}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())

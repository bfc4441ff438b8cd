"""Scores files while processes are killed, the disk fills up, and files go bad.

    python -m tests.resilience.scoring --rounds 8

Each round scores made files of one form by one engine. At random moments something happens to it;
whenever the command has ended, it is started again, until the output is finished. The status is 0
if each output was, byte for byte, that of an undisturbed run, if no part was written twice, and if
each command told its end as it should.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path

from tests.builders import tiny_checkpoint
from tests.resilience.scoring_faults import Harm, Nodes, Process, RayNodes
from tests.resilience.scoring_inputs import FORMS, make_inputs
from tests.resilience.small_disk import SmallDisk, small_disk
from tests.scoring.conftest import ROOT, files_of, told_of
from tests.scoring.read_errors import prepare

ENGINES = ("local", "ray")
_DISK_MEGABYTES = 256
_PART_BYTES = 20_000
# A command that ends later hangs.
_PATIENCE = 900
_LASTING = {"disk full", "file damaged", "read error"}


@dataclass(slots=True)
class Outcome:
    """How the rounds went.

    Args:
        done: how often each fault was done.
        runs: how many commands it took.
        faults: what must not be.
    """

    done: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """What all rounds share.

    Args:
        folder: for inputs and whole outputs.
        checkpoint: that scores.
        disk: for outputs.
        variables: of the environment of commands.
        unreadable: the file that makes reads fail.
    """

    folder: Path
    checkpoint: Path
    disk: SmallDisk
    variables: Mapping[str, str]
    unreadable: Path

    def command(self, inputs: Path, output: Path, *options: str) -> Process:
        """Starts a job, or goes on with it."""
        program = [sys.executable, "-m", "scoring", str(inputs), "--output", str(output)]
        fixed = ["--part-bytes", str(_PART_BYTES), "--dtype", "float32", "--workers", "2"]
        return subprocess.Popen(
            [*program, "--checkpoint", str(self.checkpoint), *fixed, *options],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.variables},
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """Makes a model and a disk.

    Args:
        folder: for all of it.
    """
    variables, unreadable = prepare(folder)
    with small_disk(folder / "disk", _DISK_MEGABYTES) as disk:
        yield Place(folder, tiny_checkpoint(folder / "tiny"), disk, variables, unreadable)


class Round:
    """One job from its beginning to its totals.

    Args:
        where: model and disk.
        form: of the inputs.
        rows: of the inputs.
        seed: of inputs and faults.
        nodes: of the cluster that scores; None: processes of this machine.
        options: of the command, that choose the cluster.
    """

    def __init__(
        self,
        where: Place,
        form: str,
        *,
        rows: int,
        seed: int,
        nodes: Nodes | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._where = where
        self._options = options
        self._chance = random.Random(seed)
        self._inputs = where.folder / f"in-{form}-{seed}"
        make_inputs(self._inputs, form, rows=rows, seed=seed)
        self._output = where.disk.folder / f"out-{form}-{seed}"
        self._harm = Harm(self._inputs, where.disk, where.unreadable, self._chance, nodes)
        self._is_local = nodes is None
        self.outcome = Outcome()

    def run(self, *, most: int) -> Outcome:
        """Runs it with faults, and compares.

        Args:
            most: faults; after them the job is left alone.
        """
        whole = self._where.folder / f"{self._output.name}-whole"
        code, said = _end(self._where.command(self._inputs, whole))
        if code:
            raise RuntimeError(f"the undisturbed run ended with {code}: {said}")
        kinds = self._harm.kinds()
        waiting: list[str] = []
        while len(waiting) < most:  # all kinds are met, if there are faults enough
            waiting += self._chance.sample(list(kinds), min(len(kinds), most - len(waiting)))
        before: dict[Path, int] = {}
        while not self._run_once(waiting):
            now = self._parts()
            again = [path.name for path in before.keys() & now.keys() if before[path] != now[path]]
            if again and self._is_local:  # actors of a killed driver may end a unit after it
                self.outcome.faults.append(f"written twice: {', '.join(sorted(again))}")
            before = now
        if files_of(self._output) != files_of(whole):
            self.outcome.faults.append(f"{self._output.name} differs from that of a run alone")
        return self.outcome

    def _run_once(self, waiting: list[str]) -> bool:
        """Runs a command with faults until it ends; returns whether the job is finished."""
        process = self._where.command(self._inputs, self._output, *self._options)
        self.outcome.runs += 1
        kinds = self._harm.kinds()
        met = set()
        while waiting and self._wait(process, self._chance.randrange(8)):
            kind = waiting.pop()
            met.add(kind)
            self.outcome.done[kind] += 1
            kinds[kind](process)
            if kind in _LASTING:
                self._wait(process, self._chance.randrange(1, 4))
                self._harm.heal()
        code, said = _end(process)
        self._judge(code, told_of(said), met, said)
        if any(word in said for word in ("superb", "boring")):
            self.outcome.faults.append("a command tells words of a text")
        return code == 0

    def _wait(self, process: Process, parts: int) -> bool:
        """Waits for further parts and a moment; returns whether the command still runs."""
        wanted = len(self._parts()) + parts
        until = time.monotonic() + _PATIENCE
        while len(self._parts()) < wanted and process.poll() is None:
            if time.monotonic() > until:
                self.outcome.faults.append("no part is written any more")
                process.kill()
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0, 0.2))
        return process.poll() is None

    def _parts(self) -> dict[Path, int]:
        found = {}
        for path in self._output.glob("part-*"):
            found[path] = path.stat().st_mtime_ns
        return found

    def _judge(self, code: int, told: Sequence[str], met: set[str], said: str = "") -> None:
        """Notes an end that is not one of those that the faults lead to."""
        right = {0: True, -9: "driver killed" in met, 1: bool(met & _LASTING)}
        right |= dict.fromkeys((130, 143, -2, -15), "driver interrupted" in met)
        has_words = bool(told) or code <= 0
        if not right.get(code, False) or not has_words:
            last = list(told) or said.splitlines()[-3:]
            self.outcome.faults.append(f"status {code} after {sorted(met)}: {last}")


def _end(process: Process) -> tuple[int, str]:
    try:
        _, said = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
    return process.returncode, said


@contextmanager
def ray_nodes(chance: random.Random) -> Iterator[RayNodes]:
    """A cluster of a head and two nodes, for as long as the block lasts."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield RayNodes(cluster, chance)
    finally:
        cluster.shutdown()


def main() -> int:
    """Runs the rounds, and prints how each went."""
    parser = argparse.ArgumentParser(description="Scores files while everything goes wrong.")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=40_000, help="of each round")
    parser.add_argument("--faults", type=int, default=28, help="of each round")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, place(Path(folder)) as where:
        if not where.disk.is_small:
            print("no disk can be mounted here, which needs root: none is filled", flush=True)
        turns = list(product(given.engines, FORMS)) * given.rounds
        for number, (engine, form) in enumerate(islice(turns, given.rounds)):
            seed = given.seed + number
            sizes = {"rows": given.rows, "seed": seed}
            began = time.monotonic()
            if engine == "ray":
                with ray_nodes(random.Random(seed)) as nodes:
                    options = ("--engine", "ray", "--ray-address", nodes.address)
                    outcome = Round(where, form, **sizes, nodes=nodes, options=options).run(
                        most=given.faults
                    )
            else:
                outcome = Round(where, form, **sizes).run(most=given.faults)
            wrong += len(outcome.faults)
            done = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.done.items()))
            print(
                f"{form}, {engine}: {time.monotonic() - began:.0f} s, {outcome.runs} runs, {done}: "
                f"{'; '.join(outcome.faults) or 'the same bytes'}",
                flush=True,
            )
    print(f"{given.rounds} rounds of {given.rows:,} rows, {wrong} faults of ours")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

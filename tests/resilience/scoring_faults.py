"""Does harm to a job that scores files: to its processes, its disk and its inputs."""

import os
import random
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.resilience.small_disk import SmallDisk
from tests.scoring.conftest import workers_of

Process = subprocess.Popen[str]
_TRIES = 5


class Nodes(Protocol):
    """The nodes of a cluster, of which one can be lost."""

    def lose(self) -> None:
        """Kills a node, and adds another."""

    def actors(self) -> list[int]:
        """The processes that do units."""


@dataclass(slots=True)
class Harm:
    """What harms one job.

    Args:
        inputs: the folder of its files.
        disk: that holds its output.
        unreadable: the file that makes reads fail.
        chance: decides what is hit.
        nodes: of the cluster; None: processes of this machine.
    """

    inputs: Path
    disk: SmallDisk
    unreadable: Path
    chance: random.Random
    nodes: Nodes | None = None
    _damaged: dict[Path, tuple[bytes, int]] = field(default_factory=dict)

    def kinds(self) -> Mapping[str, Callable[[Process], None]]:
        """The faults that this job can have; `heal` undoes those that last."""
        kinds: dict[str, Callable[[Process], None]] = {
            "driver killed": lambda process: process.kill(),
            "driver interrupted": self._interrupt,
            "worker killed": self._kill_worker,
            "file damaged": self._damage,
        }
        if self.disk.is_small:
            kinds["disk full"] = lambda _: self.disk.fill()
        if self.nodes is None:
            kinds["read error"] = self._break_reads  # actors have another environment
        else:
            kinds["node killed"] = lambda _: self.nodes.lose()  # type: ignore[union-attr]
        return kinds

    def heal(self) -> None:
        """Makes room, mends files, and lets reads work again."""
        self.disk.free()
        self.unreadable.unlink(missing_ok=True)
        for path, (content, modified) in self._damaged.items():
            _write(path, content, modified)
        self._damaged.clear()

    def _interrupt(self, process: Process) -> None:
        process.send_signal(self.chance.choice((signal.SIGINT, signal.SIGTERM)))

    def _kill_worker(self, process: Process) -> None:
        found = workers_of(process.pid) if self.nodes is None else self.nodes.actors()
        if found:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(found), signal.SIGKILL)

    def _damage(self, _: Process) -> None:
        """Turns bits of a tenth of a file, at the same size and time."""
        path = self._file()
        content = path.read_bytes()
        begin = self.chance.randrange(len(content))
        end = begin + len(content) // 10
        broken = content[:begin] + bytes(byte ^ 1 for byte in content[begin:end]) + content[end:]
        modified = path.stat().st_mtime_ns
        self._damaged.setdefault(path, (content, modified))
        _write(path, broken, modified)

    def _break_reads(self, _: Process) -> None:
        path = self._file()
        size = path.stat().st_size
        begin = self.chance.randrange(size)
        fresh = self.unreadable.with_suffix(".new")
        fresh.write_text(f"{path.name} {begin} {size}\n", encoding="utf-8")
        fresh.replace(self.unreadable)

    def _file(self) -> Path:
        return self.chance.choice(sorted(self.inputs.iterdir()))


def _write(path: Path, content: bytes, modified: int) -> None:
    """Writes in place, without a moment at which the file is short or has another time."""
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(modified, modified))


class RayNodes:
    """A Ray cluster of a head without room and two nodes on this machine.

    Args:
        cluster: a `ray.cluster_utils.Cluster`, its head running.
        chance: decides which node is lost.
    """

    def __init__(self, cluster: Any, chance: random.Random) -> None:  # noqa: ANN401
        self.address: str = cluster.address
        self._cluster = cluster
        self._chance = chance
        self._nodes = [self._add() for _ in range(2)]

    def lose(self) -> None:
        """Kills a node, and adds another."""
        lost = self._nodes.pop(self._chance.randrange(len(self._nodes)))
        self._cluster.remove_node(lost, allow_graceful=False)
        self._nodes.append(self._add())

    def _add(self) -> Any:  # noqa: ANN401
        """Starts a node, and tries again: on a busy machine it may come too late for Ray."""
        for _ in range(_TRIES):
            try:
                return self._cluster.add_node(num_cpus=1)
            except Exception as error:  # Ray has no type for it
                failed = error
        raise failed

    def actors(self) -> list[int]:
        """The processes of actors."""
        found = subprocess.run(
            ["pgrep", "-f", "ray::UnitActor"], capture_output=True, text=True, check=False
        )
        return [int(line) for line in found.stdout.split()]

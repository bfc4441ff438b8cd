"""Measures rows a second: of the command from a local file, and of the model alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.servers import ROOT, environment


@dataclass(frozen=True, slots=True)
class Setup:
    """What all measurements share.

    Args:
        inputs: the file.
        checkpoint: the folder of the model.
        dtype: of the model.
        part_bytes: of a unit.
        cores: that may be used; N workers get the first N of them.
    """

    inputs: Path
    checkpoint: Path
    dtype: str
    part_bytes: int
    cores: Sequence[int]


@dataclass(frozen=True, slots=True)
class Scored:
    """What the command did.

    Args:
        rows: of the file.
        seconds: from its start to its end.
        rate: rows a second while all workers were at work, without start and plan.
    """

    rows: int
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Alone:
    """What the model does on the same texts in the same passes, from memory.

    Args:
        rate: rows a second with its tokenizer.
        passes: rows a second of the passes, their tokens given.
    """

    rate: float
    passes: float


def score(setup: Setup, workers: int, output: Path) -> Scored:
    """Scores the file by workers of one thread, each on a core of its own.

    Args:
        setup: of the measurement.
        workers: how many.
        output: a folder that does not exist yet.

    Raises:
        BenchmarkError: the command fails, or there are too few parts to judge.
    """
    command = [sys.executable, "-m", "scoring", str(setup.inputs), "--output", str(output)]
    options = ["--checkpoint", str(setup.checkpoint), "--dtype", setup.dtype, "--device", "cpu"]
    sizes = ["--workers", str(workers), "--part-bytes", str(setup.part_bytes)]
    began = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - a module of our own
        [*command, *options, *sizes],
        cwd=ROOT,
        env=environment(os.environ),
        preexec_fn=_pin(setup.cores[:workers]),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise BenchmarkError(f"headlight-score failed: {done.stderr.strip().splitlines()[-1]}")
    manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
    rows = [unit["rows"] for unit in manifest["units"]]
    ends = sorted(
        (path.stat().st_mtime_ns, rows[int(path.name[5:10])]) for path in output.glob("part-*")
    )
    if len(ends) < 4 * workers:
        raise BenchmarkError(
            f"{len(ends)} parts are too few for {workers} workers: make --part-bytes smaller, or "
            "the file larger"
        )
    # From the moment at which every worker has ended a part.
    first, last = ends[workers - 1][0], ends[-1][0]
    later = sum(count for _, count in ends[workers:])
    return Scored(sum(rows), seconds, later / ((last - first) / 1e9))


def measure_alone(setup: Setup, workers: int, manifest: Path) -> Alone:
    """Lets as many processes as workers score the same units, of which each takes its share.

    Args:
        setup: of the measurement.
        workers: how many.
        manifest: of a job that the command did.

    Raises:
        BenchmarkError: a process fails.
    """
    with ExitStack() as stack:
        processes = []
        for place in range(workers):
            fixed = (manifest, setup.checkpoint, setup.dtype, place, workers, 1)
            process = subprocess.Popen(  # noqa: S603 - a module of our own
                [sys.executable, "-m", "benchmarks.scoring.alone", *map(str, fixed)],
                cwd=ROOT,
                env={**environment(os.environ), "OMP_NUM_THREADS": "1"},
                preexec_fn=_pin(setup.cores[:workers]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(_end, process)
            processes.append(process)
        for process in processes:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise BenchmarkError("a process with the model alone ended too early")
        told = [_Told(**json.loads(text)) for text in _start_all(processes)]
    return Alone(
        sum(each.rows / (each.encoding + each.passes) for each in told),
        sum(each.rows / each.passes for each in told),
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What one process took, in rows and seconds."""

    rows: int
    encoding: float
    passes: float


def _start_all(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Lets all begin at once; returns what each prints."""
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()
    printed = [process.communicate()[0] for process in processes]
    if not all(printed):
        raise BenchmarkError("a process with the model alone ended too early")
    return printed


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _pin(cores: Sequence[int]) -> Callable[[], None] | None:
    """Returns what keeps a new process on some cores, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, cores)

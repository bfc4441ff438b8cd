"""Runs jobs in this process or as the command, with the smallest real model."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs, parquet

import scoring.__main__ as command
from scoring.job import Started
from scoring.manifest import UnitRecord
from scoring.parts import PartScorer, UnitFailure

Run = Callable[..., int]
ROOT = Path(__file__).parents[2]
PATIENCE = 600
ROWS = 400
PARTS = ("--part-bytes", "60", "--dtype", "float32", "--workers", "2")


@pytest.fixture
def run(checkpoint_folder: Path) -> Run:
    return partial(run_here, checkpoint_folder)


def run_here(checkpoint: Path, *arguments: object, most: int | None = None) -> int:
    """Runs the command in this process; `most` units end it early."""

    def results(_: object, started: Started) -> Iterator[UnitRecord | UnitFailure]:
        with closing(PartScorer(started.job)) as scorer:
            for number in started.left[:most]:
                yield scorer.score(number)

    # A process of its own tries the tokenizer, which tests of checkpoints hold.
    tried = mock.patch("model.checkpoint.opening.try_tokenizer")
    with mock.patch.object(command, "_results", results), tried:
        return command.main(["--checkpoint", str(checkpoint), *map(str, arguments)])


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of many lengths, for more than a hundred parts, some of them bad."""
    path = tmp_path_factory.mktemp("in") / "rows.csv"
    rows = [f"{place},{'good bad film ' * (place % 9)}" for place in range(ROWS)]
    path.write_text("\n".join(["id,text", *rows]) + "\n", encoding="utf-8")
    return path


def start(
    checkpoint: Path,
    inputs: Path | str,
    output: Path | str,
    *options: str,
    limit: Callable[[], None] | None = None,
) -> subprocess.Popen[str]:
    """Starts the command, with small parts and two workers unless `options` say otherwise."""
    command = [sys.executable, "-m", "scoring", str(inputs), "--output", str(output)]
    return subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint), *PARTS, *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def wait_for_parts(output: Path, count: int, process: subprocess.Popen[str]) -> None:
    def is_there() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return len(list(output.glob("part-*"))) >= count

    wait_until(is_there)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.002)


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line that the command wrote, without its name."""
    return capsys.readouterr().err.splitlines()[-1].removeprefix("headlight-score: ")


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in sorted(output.glob("part-*")):
        if part.suffix == ".parquet":
            rows += parquet.read_table(part).to_pylist()
        else:
            rows += map(json.loads, part.read_text(encoding="utf-8").splitlines())
    return rows


def told_of(said: str) -> Sequence[str]:
    """The faults that the command has told."""
    return [line for line in said.splitlines() if line.startswith("headlight-score: ")]


def workers_of(driver: int) -> list[int]:
    """The processes that a driver has started to score."""
    tasks = Path(f"/proc/{driver}/task").glob("*/children")
    children = [child for task in tasks for child in task.read_text().split()]
    found = []
    for child in children:
        with suppress(OSError):  # it has ended meanwhile
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8"):
                found.append(int(child))
    return found


def is_alive(process: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return state[0] != "Z"


@contextmanager
def s3_bucket() -> Iterator[fs.S3FileSystem]:
    """An S3 server of this machine with a bucket named `box`, which the environment names."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    values = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with mock.patch.dict(os.environ, values):
            system = fs.S3FileSystem(
                endpoint_override=values["AWS_ENDPOINT_URL"], allow_bucket_creation=True
            )
            system.create_dir("box")
            yield system
    finally:
        server.stop()

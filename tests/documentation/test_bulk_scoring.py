"""The commands of docs/guides/bulk-scoring.md run, each with files where the page has them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyarrow import Table, fs, parquet

from tests.documentation.markdown import ROOT, blocks, commands
from tests.end_to_end.servers import environment
from tests.scoring.conftest import s3_bucket

PAGE = ROOT / "docs" / "guides" / "bulk-scoring.md"
TEXTS = ["A superb film.", "Dull, and far too long."]
PROGRAM = ".venv/bin/headlight-score"


INSTALLS = [command for command in commands(PAGE) if "/pip " in command]
ONE, FIRST, _RAY, SLURM = [command for command in commands(PAGE) if command.startswith(PROGRAM)]


@pytest.fixture
def folder(tmp_path: Path, checkpoint_folder: Path) -> Path:
    """Where the commands run: with the program where the page has it, and the tiny model."""
    for name in (PROGRAM, "bin/headlight-score"):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -m scoring "$@" --workers 1 '
            f"--checkpoint {checkpoint_folder}\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
    return tmp_path


@pytest.fixture
def bucket() -> Iterator[fs.S3FileSystem]:
    """An S3 server with the page's bucket, in which a file of reviews is."""
    with s3_bucket() as bucket:
        table = Table.from_pydict({"text": TEXTS})
        parquet.write_table(table, "box/reviews/1.parquet", filesystem=bucket)
        yield bucket


def run(command: str, folder: Path, **variables: str) -> None:
    paths = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment({"PATH": paths, **variables}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def totals(content: bytes) -> tuple[int, int]:
    found = json.loads(content)
    return found["rows_in"], found["rows_out"]


def test_the_extras_that_are_installed_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [re.findall(r"'\.\[([a-z,]+)\]'", command) for command in INSTALLS]

    assert named == [["score"], ["score,ray"]]
    assert {"score", "ray"} <= set(project["optional-dependencies"])


@pytest.mark.slow
def test_the_first_command_scores_one_file_into_one(folder: Path) -> None:
    (folder / "reviews.csv").write_text("text\nfine\n", encoding="utf-8")

    run(ONE, folder)

    written = (folder / "reviews.scored.csv").read_text(encoding="utf-8").splitlines()
    assert written[0] == "text,label,score"
    assert written[1].startswith("fine,")


@pytest.mark.slow
def test_a_file_is_scored_into_parts(folder: Path) -> None:
    lines = ["text", *(f'"{text}"' for text in TEXTS)]
    (folder / "reviews.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    run(FIRST, folder)

    assert totals((folder / "scored" / "SUCCESS.json").read_bytes()) == (2, 2)
    # The globs of the page find the parts and nothing else.
    globs = re.findall(r"FROM '(scored/[^']+)'", PAGE.read_text(encoding="utf-8"))
    (glob,) = set(globs)
    labels = [label for part in folder.glob(glob) for label in parquet.read_table(part)["label"]]
    assert len(labels) == 2


@pytest.mark.slow
def test_a_task_of_a_job_array_scores_its_share(folder: Path) -> None:
    (folder / "data" / "reviews").mkdir(parents=True)
    (folder / "data" / "reviews" / "a.csv").write_text("text\nfine\n", encoding="utf-8")

    # One unit: the other fifteen tasks of the page have nothing to do.
    run(SLURM.replace("/data/", f"{folder}/data/"), folder, SLURM_ARRAY_TASK_ID="1")

    assert totals((folder / "data" / "scored" / "SUCCESS.json").read_bytes()) == (1, 1)


@pytest.mark.slow
def test_a_pod_of_an_indexed_job_scores_its_share(folder: Path, bucket: fs.S3FileSystem) -> None:
    (job,) = [yaml.safe_load(block.content) for block in blocks(PAGE, "yaml")]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (command,) = container["args"]
    assert command.endswith(f"/{job['spec']['completions']}")

    run(command, folder, JOB_COMPLETION_INDEX="0")

    with bucket.open_input_stream("box/scored/SUCCESS.json") as file:
        assert totals(file.read()) == (2, 2)

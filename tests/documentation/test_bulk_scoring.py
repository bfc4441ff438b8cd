"""The commands of docs/guides/bulk-scoring.md run, each with files where the page has them."""

import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet

from scoring.__main__ import _parser
from tests.commands import printed
from tests.documentation.markdown import ROOT, blocks, commands
from tests.end_to_end.servers import environment

PAGE = ROOT / "docs" / "guides" / "bulk-scoring.md"
PROGRAM = ".venv/bin/headlight-score"
INSTALLS = [command for command in commands(PAGE) if "/pip " in command]
ONE, FIRST, _RAY, SLURM = [command for command in commands(PAGE) if command.startswith(PROGRAM)]


def run(command: str, folder: Path, program: str, **variables: str) -> str:
    """Runs a command where its program is a script; returns what it prints."""
    for name in (PROGRAM, "bin/headlight-score"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
        path.chmod(0o755)
    paths = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    return printed(
        "sh", "-c", command, folder=folder, env=environment({"PATH": paths, **variables})
    )


def test_the_extras_that_are_installed_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [re.findall(r"'\.\[([a-z,]+)\]'", command) for command in INSTALLS]
    assert named == [["score"], ["score,ray"]]
    assert {"score", "ray"} <= set(project["optional-dependencies"])


@pytest.mark.slow
def test_the_first_commands_score_one_file_into_one_and_into_parts(
    tmp_path: Path, checkpoint_folder: Path
) -> None:
    program = f'exec {sys.executable} -m scoring "$@" --checkpoint {checkpoint_folder}'
    (tmp_path / "reviews.csv").write_text("text\nfine\nA superb film.\n", encoding="utf-8")
    run(ONE, tmp_path, program)
    written = (tmp_path / "reviews.scored.csv").read_text(encoding="utf-8").splitlines()
    assert written[0] == "text,label,score"
    assert written[1].startswith("fine,")
    run(FIRST, tmp_path, f"{program} --workers 1")
    found = json.loads((tmp_path / "scored" / "SUCCESS.json").read_bytes())
    assert (found["rows_in"], found["rows_out"]) == (2, 2)
    # The globs of the page find the parts and nothing else.
    (glob,) = set(re.findall(r"FROM '(scored/[^']+)'", PAGE.read_text(encoding="utf-8")))
    labels = [label for part in tmp_path.glob(glob) for label in parquet.read_table(part)["label"]]
    assert len(labels) == 2


def test_a_task_of_a_job_array_and_a_pod_of_an_indexed_job_score_their_shares(
    tmp_path: Path,
) -> None:
    (job,) = [yaml.safe_load(block.content) for block in blocks(PAGE, "yaml")]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (pod,) = container["args"]
    assert pod.endswith(f"/{job['spec']['completions']}")
    for command, variables in (
        (SLURM, {"SLURM_ARRAY_TASK_ID": "1"}),
        (pod, {"JOB_COMPLETION_INDEX": "0"}),
    ):
        words = shlex.split(run(command, tmp_path, 'echo "$@"', **variables))
        assert _parser().parse_args(words).shard == (1, job["spec"]["completions"])

"""Data sets by name: which Parquet files of the hub are read, and what is said otherwise."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.families import save_family
from tests.hub_stand_in import Hub, files_of, run_hub

ROOT = Path(__file__).parents[3]
NAME = "people/reviews"


def rows(count: int) -> bytes:
    written = io.BytesIO()
    texts = [
        f"A {'good' if number % 2 else 'dull'} film, number {number}." for number in range(count)
    ]
    table = pyarrow.table({"sentence": texts, "label": [number % 2 for number in range(count)]})
    parquet.write_table(table, written)
    return written.getvalue()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with run_hub() as running:
        yield running


def run(hub: Hub, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(hub, tmp_path, "-m", "training", *arguments)


def run_python(hub: Hub, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**clean, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_on_names_alone(hub: Hub, tmp_path: Path) -> None:
    """Network and rows come from the hub; the record says from which commits."""
    family = save_family(tmp_path / "film", "roberta", labels=("negative", "positive"))
    network = hub.add("people/film", files_of(family))
    data = hub.add(
        NAME,
        {
            "data/train-00000-of-00002.parquet": rows(20),
            "data/train-00001-of-00002.parquet": rows(12),
            "data/validation-00000-of-00001.parquet": rows(8),
        },
        kind="datasets",
    )
    output = tmp_path / "out"

    done = run(
        hub, tmp_path, "fit", f"hf:{NAME}", "--validation", f"hf:{NAME}@main:validation",
        "--init-from", "hf:people/film@main", "--epochs", "1", "--max-length", "16",
        "--output", str(output),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    manifest = json.loads((output / "headlight.json").read_text())
    assert [(each["file"], each["rows"]) for each in manifest["training_data"][:2]] == [
        (f"reviews@{data[:12]}_data_train-00000-of-00002.parquet", 20),
        (f"reviews@{data[:12]}_data_train-00001-of-00002.parquet", 12),
    ]
    assert manifest["recipe"]["init_from_hub"] == f"people/film@{network}"
    assert json.loads((output / "config.json").read_text())["model_type"] == "roberta"

    # What was fetched at a commit needs no hub.
    asked = len(hub.asked)
    done = run(
        hub, tmp_path, "evaluate", f"hf:{NAME}@{data}:validation", "--checkpoint", str(output),
        "--json", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert len(hub.asked) == asked


@pytest.mark.parametrize(
    ("files", "chosen", "fault"),
    [
        (
            {"train.csv": b""},
            "",
            "has no Parquet files: the hub offers them for most data sets at the revision "
            "refs/convert/parquet",
        ),
        (
            {"data/test-00000-of-00001.parquet": b"", "a/train/0000.parquet": b""},
            ":validation",
            "has no split validation: give hf:NAME@REVISION:SPLIT with one of a/train, test",
        ),
        (
            {"a/train/0000.parquet": b"", "b/train/0000.parquet": b""},
            "",
            "has more than one split train: give hf:NAME@REVISION:SPLIT with one of a/train, "
            "b/train",
        ),
    ],
)
def test_a_split_that_is_not_there(
    files: dict[str, bytes], chosen: str, fault: str, hub: Hub, tmp_path: Path
) -> None:
    hub.add(NAME, files, kind="datasets")

    done = run(hub, tmp_path, "fit", f"hf:{NAME}@main{chosen}", "--output", str(tmp_path / "out"))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"headlight-train: hf:{NAME}@main{chosen}: {fault}\n"


def test_a_file_of_unknown_size_is_not_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.add(NAME, {"train.parquet": rows(4)}, kind="datasets")
    hub.repositories[f"datasets/{NAME}"].sizes = False

    done = run(hub, tmp_path, "fit", f"hf:{NAME}", "--output", str(tmp_path / "out"))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"headlight-train: hf:{NAME}: the hub does not tell how large train.parquet is: try again\n"
    )
    assert hub.downloads() == []


def test_files_whose_paths_look_alike_are_kept_apart(hub: Hub, tmp_path: Path) -> None:
    """`a/train` is the training split of `a`; `a_train` is a split of its own."""
    files = {"a/train.parquet": rows(4), "a_train.parquet": rows(6)}
    hub.add(NAME, files, kind="datasets")
    program = (
        "from pathlib import Path\n"
        "from training.data.hub import local_files\n"
        f"for split in ('a/train', 'a_train'):\n"
        f"    (path,) = local_files([Path(f'hf:{NAME}@main:{{split}}')])\n"
        "    print(path.stat().st_size)"
    )

    done = run_python(hub, tmp_path, "-c", program)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(content)) for content in files.values()]

"""Data sets by name: which Parquet files of the hub are read, and what is said otherwise."""

import io
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.families import save_family
from tests.hub_stand_in import Hub, files_of
from tests.training.tiny_runs import Refusal
from training.__main__ import main
from training.data.hub import local_files, name_of

NAME = "people/reviews"


def rows(count: int) -> bytes:
    written = io.BytesIO()
    texts = [
        f"A {'good' if number % 2 else 'dull'} film, number {number}." for number in range(count)
    ]
    table = pyarrow.table({"sentence": texts, "label": [number % 2 for number in range(count)]})
    parquet.write_table(table, written)
    return written.getvalue()


def test_a_run_on_names_alone(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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

    command = [
        *("fit", f"hf:{NAME}", "--validation", f"hf:{NAME}@main:validation"),
        *("--init-from", "hf:people/film@main", "--epochs", "1", "--max-length", "16"),
        *("--output", str(output)),
    ]
    assert main(command) == 0

    manifest = json.loads((output / "headlight.json").read_text())
    assert [(each["file"], each["rows"]) for each in manifest["training_data"][:2]] == [
        (f"reviews@{data[:12]}_data_train-00000-of-00002.parquet", 20),
        (f"reviews@{data[:12]}_data_train-00001-of-00002.parquet", 12),
    ]
    assert manifest["recipe"]["init_from_hub"] == f"people/film@{network}"
    assert json.loads((output / "config.json").read_text())["model_type"] == "roberta"

    # What was fetched at a commit needs no hub.
    asked = len(hub.asked)
    capsys.readouterr()
    names = [f"hf:{NAME}@{data}:validation", "--checkpoint", str(output), "--json", "-"]
    assert main(["evaluate", *names]) == 0
    json.loads(capsys.readouterr().out)
    assert len(hub.asked) == asked


@pytest.mark.parametrize(
    ("files", "chosen", "fault"),
    [
        ({"train.csv": b""}, "", "has no Parquet files: the hub offers them for most data sets "),
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
    files: dict[str, bytes], chosen: str, fault: str, hub: Hub, tmp_path: Path, refusal: Refusal
) -> None:
    hub.add(NAME, files, kind="datasets")
    told = refusal(["fit", f"hf:{NAME}@main{chosen}", "--output", str(tmp_path / "out")])
    assert told.startswith(f"hf:{NAME}@main{chosen}: {fault}")


def test_files_whose_paths_look_alike_are_kept_apart(hub: Hub) -> None:
    """`a/train` is the training split of `a`; `a_train` is a split of its own."""
    files = {"a/train.parquet": rows(4), "a_train.parquet": rows(6)}
    hub.add(NAME, files, kind="datasets")
    names = []
    for split, content in (("a/train", files["a/train.parquet"]), ("a_train", rows(6))):
        (path,) = local_files([Path(f"hf:{NAME}@main:{split}")])
        assert path.read_bytes() == content
        names.append(name_of(path).partition("_")[2])
    assert names == ["a_train.parquet", "a%5Ftrain.parquet"]

"""The service starts on a name of the hub, and says in one line what is wrong with it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.families import save_family
from tests.hub_stand_in import Hub, files_of, run_hub

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from service.preflight import prepare
before = "huggingface_hub" in sys.modules
_, _, checkpoint, _ = prepare({"checkpoint": sys.argv[1], "dtype": "float32"})
print(before, checkpoint.name, checkpoint.config.architecture, "huggingface_hub" in sys.modules)
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with run_hub() as running:
        yield running


def start(hub: Hub, tmp_path: Path, checkpoint: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, checkpoint],
        cwd=ROOT,
        env={**clean, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_name_is_fetched_once_and_a_path_asks_nobody(hub: Hub, tmp_path: Path) -> None:
    folder = save_family(tmp_path / "film", "xlm-roberta")
    commit = hub.add("people/film", files_of(folder))

    done = start(hub, tmp_path, "hf:people/film@main")
    assert done.stdout == "False film XLMRobertaForSequenceClassification True\n", done.stderr

    asked = len(hub.asked)
    done = start(hub, tmp_path, f"hf:people/film@{commit}")
    assert done.stdout == "False film XLMRobertaForSequenceClassification True\n", done.stderr
    done = start(hub, tmp_path, str(folder))
    assert done.stdout == "False film XLMRobertaForSequenceClassification False\n", done.stderr
    assert len(hub.asked) == asked


def test_a_wrong_name_stops_the_start(hub: Hub, tmp_path: Path) -> None:
    done = start(hub, tmp_path, "hf:people/film@main")

    assert done.returncode == 1
    assert done.stderr.endswith(
        "1 setting is wrong:\n  --checkpoint: hf:people/film@main: the hub shows no model "
        "of this name: check the name, or set HF_TOKEN if it is private\n"
    )

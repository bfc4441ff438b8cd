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
from service.settings import SettingsError
for name in sys.argv[1:]:
    try:
        _, _, checkpoint, _ = prepare({"checkpoint": name, "dtype": "float32"})
        print(checkpoint.name, checkpoint.config.architecture, "huggingface_hub" in sys.modules)
    except SettingsError as error:
        print(error)
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with run_hub() as running:
        yield running


def test_a_name_is_fetched_once_and_a_path_asks_nobody(hub: Hub, tmp_path: Path) -> None:
    folder = save_family(tmp_path / "film", "xlm-roberta")
    commit = hub.add("people/film", files_of(folder))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    names = [str(folder), *(f"hf:people/{name}" for name in ("film@main", f"film@{commit}", "a@b"))]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        cwd=ROOT,
        env={**clean, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == (
        "film XLMRobertaForSequenceClassification False\n"
        "film XLMRobertaForSequenceClassification True\n"
        "film XLMRobertaForSequenceClassification True\n"
        "1 setting is wrong:\n  --checkpoint: hf:people/a@b: the hub shows no model of this name: "
        "check the name, or set HF_TOKEN if it is private\n"
    ), done.stderr
    assert len(set(hub.downloads())) == len(hub.downloads()) > 0

"""The service starts on a name of the hub, and says in one line what is wrong with it."""

from pathlib import Path

import huggingface_hub.constants
import pytest

from service.preflight import prepare
from service.settings import SettingsError
from tests.families import save_family
from tests.hub_stand_in import Hub, files_of


def test_a_name_is_fetched_once_and_then_needs_no_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.add("people/film", files_of(save_family(tmp_path / "film", "xlm-roberta")))

    def start(name: str) -> str:
        return prepare({"checkpoint": name, "dtype": "float32"})[2].name

    assert start("hf:people/film@main") == "film"
    downloads = hub.downloads()
    assert len(set(downloads)) == len(downloads) > 0
    assert start(f"hf:people/film@{commit}") == "film"
    assert hub.downloads() == downloads

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert start("hf:people/film@main") == "film"


def test_a_name_that_the_hub_does_not_know(hub: Hub) -> None:
    del hub
    with pytest.raises(SettingsError) as error:
        prepare({"checkpoint": "hf:people/a@b"})
    assert error.value.errors == [
        "--checkpoint: hf:people/a@b: the hub shows no model of this name: check the name, or set "
        "HF_TOKEN if it is private"
    ]

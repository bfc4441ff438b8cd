"""`headlight-train fetch` with the real client of the hub, against a hub on this machine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import huggingface_hub
import pytest
from safetensors.torch import load_file, save

from model.checkpoint.hub import ORIGIN
from model.files import WEIGHTS
from tests.families import save_family
from tests.hub_stand_in import Hub, files_of
from tests.model.folders import in_parts
from training.__main__ import main

NAME = "people/film"
Fetch = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_family(tmp_path_factory.mktemp("family") / "film", "distilbert")


@pytest.fixture
def fetch(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fetch:
    del hub

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["fetch", *arguments, "--output", str(tmp_path / "out")])
        output, errors = capsys.readouterr()
        return status, output, errors

    return run


@pytest.fixture
def refused(fetch: Fetch, tmp_path: Path) -> Callable[..., str]:
    """Runs the command, which must fail and leave nothing; returns its message."""

    def run(*arguments: str) -> str:
        status, output, errors = fetch(*arguments)
        assert (status, output) == (1, "")
        assert not (tmp_path / "out").exists()
        *_, last = errors.splitlines()
        assert last.startswith("headlight-train: ")
        return last.removeprefix("headlight-train: ")

    return run


def test_a_folder_comes_whole_from_one_commit(
    hub: Hub, folder: Path, tmp_path: Path, fetch: Fetch
) -> None:
    surplus = {"README.md": b"# Film", "pytorch_model.bin": b"pickled", "onnx/model.onnx": b"x"}
    commit = hub.add(NAME, {**files_of(folder), **surplus})

    told = f"hf:{NAME}@main is commit {commit}\ncheckpoint: {tmp_path / 'out'}\n"
    assert fetch(NAME) == (0, told, "")

    found = files_of(tmp_path / "out")
    assert json.loads(found.pop(ORIGIN)) == {"name": NAME, "revision": "main", "commit": commit}
    assert found == files_of(folder)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["out"]
    assert all(f"/resolve/{commit}/" in path for path in hub.asked if "/resolve/" in path)

    # It is there, so nothing but the commit is asked for.
    before = len(hub.downloads())
    assert fetch(NAME, "--revision", commit)[0] == 0
    assert len(hub.downloads()) == before

    # Another commit never replaces it.
    other = hub.add(NAME, {**files_of(folder), "vocab.txt": b"x"})
    fault = f"{tmp_path / 'out'}: is there already, and is not {NAME}@{other}: choose another"
    assert fetch(NAME) == (1, "", f"headlight-train: {fault}\n")
    assert files_of(tmp_path / "out").keys() == {*found, ORIGIN}


def test_weights_in_parts_come_with_their_index(
    hub: Hub, folder: Path, tmp_path: Path, fetch: Fetch
) -> None:
    film = Path(shutil.copytree(folder, tmp_path / "film"))
    in_parts(film / WEIGHTS, load_file(film / WEIGHTS))
    files = files_of(film)
    hub.add(NAME, {**files, "other.safetensors": b"x"})
    assert fetch(NAME)[0] == 0
    found = files_of(tmp_path / "out")
    assert found.keys() == {*files, ORIGIN}


def test_a_branch_and_a_token(
    hub: Hub,
    folder: Path,
    fetch: Fetch,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.add(NAME, {"README.md": b""})
    commit = hub.add(NAME, files_of(folder), branch="refs/pr/2")
    hub[NAME].token = "hf_right"
    assert "set HF_TOKEN if it is private" in refused(NAME, "--revision", "refs/pr/2")
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    status, output, _ = fetch(f"hf:{NAME}@refs/pr/2")
    assert status == 0
    assert output.startswith(f"hf:{NAME}@refs/pr/2 is commit {commit}\n")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"model.safetensors": b"x"}, "config.json is missing"),
        (
            {"config.json": b"{}", "pytorch_model.bin": b"pickled"},
            "has no model.safetensors, and nothing is unpickled here: choose a revision with ",
        ),
        (
            {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"},
            "holds only an adapter: load it on its base model with peft, join them ",
        ),
        (
            {"config.json": b'{"model_type": "t5"}', "model.safetensors": b"x"},
            "config.json model_type is 't5', only 'bert', ",
        ),
    ],
)
def test_what_is_not_served_is_refused(
    files: dict[str, bytes], fault: str, hub: Hub, tmp_path: Path, refused: Callable[..., str]
) -> None:
    commit = hub.add(NAME, files)
    assert refused(NAME).startswith(f"hf:{NAME}@main ({commit[:12]}): {fault}")
    assert "pytorch_model.bin" not in hub.downloads()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_weights_that_would_fill_the_disk_are_refused(
    hub: Hub, folder: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, files_of(folder))
    size = (folder / WEIGHTS).stat().st_size
    monkeypatch.setattr("model.checkpoint.hub._MOST_WEIGHTS", size - 1)
    assert refused(NAME).endswith(f" weights have {size} bytes, at most {size - 1} are fetched")
    assert hub.downloads() == []


def test_names_that_are_not_there(hub: Hub, folder: Path, refused: Callable[..., str]) -> None:
    hub.add(NAME, files_of(folder))
    assert refused("people/other").startswith("hf:people/other@main: the hub shows no model of ")
    expected = f"hf:{NAME}@v9: the repository has no revision v9: check the name"
    assert refused(NAME, "--revision", "v9") == expected
    hub[NAME].gated = True
    assert refused(NAME).startswith(f"hf:{NAME}@main: access needs consent: give it on the page ")
    assert refused("../up").startswith("../up: is no name of the hub: give hf:NAME@REVISION")
    assert refused(f"{NAME}@a", "--revision", "b").startswith(f"{NAME}@a@b: is no name of the hub")


def test_without_a_network_the_command_for_another_machine(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError("no answer from http://somebody:secret@mirror/api\nDetails")

    monkeypatch.setattr(huggingface_hub.HfApi, "resolve_revision", fail)
    assert refused(NAME, "--revision", "v2") == (
        f"hf:{NAME}@v2: cannot be downloaded (OSError: no answer from http://mirror/api): try "
        "again, or on a machine that reaches the hub, run: "
        f"headlight-train fetch {NAME} --revision v2 --output DIR; then copy the folder here and "
        "give its path"
    )


def test_an_encoder_alone_is_accepted_if_asked_for(
    hub: Hub, folder: Path, fetch: Fetch, refused: Callable[..., str]
) -> None:
    """Like a pretrained network, which has no classifier yet."""
    weights = {
        name: weight
        for name, weight in load_file(folder / WEIGHTS).items()
        if name.startswith("distilbert.")
    }
    hub.add(NAME, {**files_of(folder), WEIGHTS: save(weights)})
    assert "model.safetensors lacks classifier.bias" in refused(NAME)
    assert fetch(NAME, "--encoder")[0] == 0

"""With a key, the service serves what its owner has signed, and nothing else."""

import sys
from pathlib import Path

import pytest

from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.files import SIGNATURE, sign_command
from service import preflight as start
from service.preflight import prepare
from service.settings import SettingsError
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import local_service
from tests.end_to_end.test_start import refuse
from tests.model.keys import KeyPair, elliptic_pair, sign


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return elliptic_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def signed(tmp_path: Path, keys: KeyPair) -> Path:
    folder = tiny_checkpoint(tmp_path / "tiny")
    sign(folder, keys)
    return folder


def errors(folder: Path, key: Path) -> list[str]:
    """What keeps the service from starting."""
    with pytest.raises(SettingsError) as caught:
        prepare({"checkpoint": str(folder), "checkpoint_key": str(key)})
    return caught.value.errors


def test_a_signed_folder_is_served(signed: Path, keys: KeyPair, tmp_path: Path) -> None:
    options = ("--checkpoint-key", str(keys.public))
    with local_service(signed, tmp_path, *options) as running, running.client() as client:
        answer = client.post("/predict", json={"sentences": ["a warm film"]})
        assert answer.status_code == 200
        assert answer.json()["model"]["version"] == open_checkpoint(signed).version
        assert running.errors() == []


def test_an_unsigned_folder_stops_the_start(checkpoint_folder: Path, keys: KeyPair) -> None:
    stderr = refuse(checkpoint_folder, HEADLIGHT_CHECKPOINT_KEY=str(keys.public))
    assert stderr == (
        "headlight-serve: 1 setting is wrong:\n"
        f"  --checkpoint: {checkpoint_folder / SIGNATURE}: is missing, and a key is set: "
        f"sign the folder ({sign_command(checkpoint_folder)})\n"
    )


def test_a_key_without_the_extra(
    signed: Path, keys: KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "model.checkpoint.signing")
    monkeypatch.setitem(sys.modules, "model_signing", None)
    [fault] = errors(signed, keys.public)
    assert fault.partition(" is not installed")[2] == (
        ", which signatures need: pip install 'headlight[signing]', or build the image with "
        "--build-arg EXTRA=signing"
    )
    assert fault.startswith("--checkpoint-key: model_signing")


def test_a_folder_that_is_replaced_while_it_is_read(
    signed: Path, keys: KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap_and_open(path: Path, *, trial: bool) -> Checkpoint:
        tiny_checkpoint(path, seed=1)
        return open_checkpoint(path, trial=trial)

    monkeypatch.setattr(start, "open_checkpoint", swap_and_open)
    [fault] = errors(signed, keys.public)
    assert fault.startswith(f"--checkpoint: {signed / SIGNATURE}: is missing")

"""A start that fails reports every error at once; signed checkpoints, and those of the hub."""

import sys
from pathlib import Path

import huggingface_hub.constants
import pytest

from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.files import SIGNATURE, sign_command
from service import preflight as start
from service.__main__ import main
from service.preflight import prepare
from service.settings import Settings, SettingsError
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import local_service
from tests.end_to_end.test_start import refuse
from tests.families import save_family
from tests.hub_stand_in import Hub, files_of
from tests.model.keys import KeyPair, elliptic_pair, sign


def test_every_wrong_value_is_reported(checkpoint_folder: Path) -> None:
    said = refuse(
        checkpoint_folder,
        *("--max-connections", "900000000"),
        HEADLIGHT_CHECKPOINT_KEY="no/where",
        HEADLIGHT_METRICS="key",
    )
    first, connections, *others = said.splitlines()
    assert first == "headlight-serve: 3 settings are wrong:"
    assert connections.startswith("  --max-connections: 900000000 connections do not fit into ")
    assert others == [
        "  HEADLIGHT_CHECKPOINT_KEY: no/where: cannot be read: No such file or directory",
        "  HEADLIGHT_METRICS: is key, but no key is set: set HEADLIGHT_API_KEYS or "
        "HEADLIGHT_API_KEYS_FILE, or choose open or off",
    ]
    assert refuse(checkpoint_folder, HEADLIGHT_API_KEYS_FILE="no/where") == (
        "headlight-serve: 1 setting is wrong:\n"
        "  HEADLIGHT_API_KEYS_FILE: cannot read no/where: No such file or directory\n"
    )


def test_a_type_that_the_processor_lacks_is_reported_with_every_other_error(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.backends.kernels._load", lambda: ([], "they are not compiled"))
    assert refuse(checkpoint_folder, *("--dtype", "int8", "--max-queue-tokens", "8191")) == (
        "headlight-serve: 2 settings are wrong:\n"
        "  --dtype: dtype int8 needs the kernels on a processor, and they are not compiled: "
        "use auto\n"
        "  --max-queue-tokens: is 8191, but a request may have 256 sentences of 32 tokens: "
        "raise it to 8192, or lower HEADLIGHT_MAX_SENTENCES\n"
    )


def test_every_setting_but_the_keys_is_an_option_with_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        option = f"--{name.replace('_', '-')} "
        assert (option in text) == (name != "api_keys")
        assert field.description is not None
        assert (field.description in text) == (name != "api_keys")


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--prot", "1"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "headlight-serve: unrecognized arguments: --prot 1; did you mean --port?; see "
        "headlight-serve --help\n"
    )


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

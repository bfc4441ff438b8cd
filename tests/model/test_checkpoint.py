"""The folder: what is written, and that a damaged, incomplete or mismatched one is refused."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from model.checkpoint import CONFIG, MANIFEST, WEIGHTS, open_checkpoint
from model.errors import CheckpointError, UnsupportedCheckpointError
from model.manifest import seal
from tests.builders import (
    MAX_LENGTH,
    VOCABULARY,
    tiny_checkpoint,
    tiny_config,
    tiny_manifest,
    tiny_network,
    tiny_tokenizer,
)
from tests.matching import exactly

FILES = [CONFIG, MANIFEST, WEIGHTS, "tokenizer.json", "tokenizer_config.json"]


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit(path: Path, **changes: object) -> None:
    write(path, {**read(path), **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ours, free to be changed."""
    return tiny_checkpoint(tmp_path / "tiny")


@pytest.fixture
def foreign(folder: Path) -> Path:
    """As others write it: no manifest, and their mark in the configuration."""
    (folder / MANIFEST).unlink()
    edit(folder / CONFIG, transformers_version="5.0.0")
    return folder


def test_what_is_written(folder: Path) -> None:
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in FILES
        if name != MANIFEST
    }
    manifest = read(folder / MANIFEST)

    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)
    assert manifest == {
        **tiny_manifest().model_dump(mode="json"),
        "files": digests,
        "sha256": seal(manifest),
    }
    assert read(folder / CONFIG) == {
        **tiny_config().to_transformers(),
        "headlight_format_version": 1,
    }
    assert read(folder / "tokenizer_config.json") == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    with safe_open(folder / WEIGHTS, framework="pt") as weights:
        assert weights.metadata() == {"format": "pt"}


def test_what_is_read(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)

    assert checkpoint.path == folder
    assert checkpoint.name == "tiny"
    assert checkpoint.version == hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:12]
    assert checkpoint.config == tiny_config()
    assert checkpoint.manifest.temperature == 1.5
    assert checkpoint.manifest.metrics == tiny_manifest().metrics
    assert checkpoint.tokenizer.to_json() == tiny_tokenizer().to_json()
    assert checkpoint.tokenizer.max_length == MAX_LENGTH


def test_the_network_is_that_which_was_saved(folder: Path) -> None:
    network = open_checkpoint(folder).load_network()

    expected = tiny_network().state_dict()
    assert network.state_dict().keys() == expected.keys()
    for name, parameter in network.named_parameters():
        assert parameter.equal(expected[name])
        assert parameter.device.type == "cpu"
        assert not parameter.requires_grad
    assert not any(module.training for module in network.modules())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_stored_in_16_bits(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", dtype=dtype)
    network = open_checkpoint(folder).load_network()

    assert (folder / WEIGHTS).stat().st_size < 10_000  # 2,354 numbers and a header
    expected = tiny_network().to(dtype).float().state_dict()
    for name, parameter in network.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.equal(expected[name])


def test_the_same_content_has_the_same_version(folder: Path, tmp_path: Path) -> None:
    again = tiny_checkpoint(tmp_path / "again")
    other = tiny_checkpoint(tmp_path / "other", seed=1)

    assert open_checkpoint(again).version == open_checkpoint(folder).version
    assert open_checkpoint(other).version != open_checkpoint(folder).version


def test_the_name_is_that_of_the_folder_behind_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(folder)

    assert open_checkpoint(tmp_path / "current").name == "tiny"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Damaged and mended again by each case."""
    return tiny_checkpoint(tmp_path_factory.mktemp("damage") / "tiny")


def refused_or_the_same(target: Path, name: str, damaged: bytes) -> bool:
    """Whether a folder with one damaged file is refused, with a message that names the file."""
    path = target / name
    sound = path.read_bytes()
    path.write_bytes(damaged)
    try:
        if name == MANIFEST and damaged == sound.rstrip():
            # without the last line feed, every word of it is still there
            assert open_checkpoint(target).manifest.temperature == 1.5
            return False
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(target)
        assert caught.value.path == path
    finally:
        path.write_bytes(sound)
    return True


@pytest.mark.parametrize("name", FILES)
@given(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(target: Path, name: str, place: float, bit: int) -> None:
    damaged = bytearray((target / name).read_bytes())
    damaged[int(place * len(damaged))] ^= 1 << bit

    assert refused_or_the_same(target, name, bytes(damaged))


@pytest.mark.parametrize("name", FILES)
@given(place=st.floats(0.0, 1.0, exclude_max=True))
def test_any_file_cut_short_is_noticed(target: Path, name: str, place: float) -> None:
    sound = (target / name).read_bytes()
    size = int(place * len(sound))

    assert refused_or_the_same(target, name, sound[:size]) is (
        name != MANIFEST or size < len(sound) - 1
    )


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()

    with pytest.raises(CheckpointError, match="is missing") as caught:
        open_checkpoint(folder)
    assert caught.value.path == folder / name


def test_a_folder_of_ours_without_manifest_says_what_to_do(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    message = (
        f"{folder / MANIFEST}: is missing, though config.json was written with one: copy it too, "
        "or remove headlight_format_version from config.json to do without temperature and digests"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)
    content = read(folder / CONFIG)
    del content["headlight_format_version"]
    write(folder / CONFIG, content)
    assert open_checkpoint(folder).manifest.temperature == 1.0


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json"])
def test_a_file_of_another_checkpoint_is_noticed(name: str, folder: Path, tmp_path: Path) -> None:
    config = tiny_config(hidden_dropout_prob=0.2)
    other = tiny_checkpoint(tmp_path / "other", seed=1, config=config)
    (other / "tokenizer.json").write_text(tiny_tokenizer().to_json() + "\n", encoding="utf-8")
    edit(other / "tokenizer_config.json", model_max_length=16)
    (folder / name).write_bytes((other / name).read_bytes())
    message = (
        f"{folder / name}: does not match its SHA-256 in headlight.json: it is damaged, or was "
        "changed after it was written"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)


def test_a_manifest_changed_by_hand(folder: Path) -> None:
    edit(folder / MANIFEST, temperature=2.0)
    message = (
        f"{folder / MANIFEST}: does not match its own SHA-256: it is damaged, or was changed after "
        "it was written (whoever changes it by hand takes sha256 out)"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)
    edit(folder / MANIFEST, sha256=None)
    assert open_checkpoint(folder).manifest.temperature == 2.0


def test_a_manifest_written_by_hand(foreign: Path) -> None:
    write(foreign / MANIFEST, {"labels": ["negative", "positive"], "max_length": 16})

    checkpoint = open_checkpoint(foreign)
    assert checkpoint.tokenizer.max_length == 16
    assert checkpoint.manifest.temperature == 1.0
    assert len(checkpoint.version) == 12


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"labels": ["positive", "negative"]},
            "labels are positive, negative, config.json has negative, positive",
        ),
        ({"max_length": 33}, "max_length is 33, config.json has 32 positions"),
        (
            {"temperature": 0, "seed": "x"},
            "temperature: Input should be greater than or equal to 0.001 (got 0); seed: Input "
            "should be a valid integer, unable to parse string as an integer (got 'x')",
        ),
        ({"extra": 1}, "extra: Extra inputs are not permitted (got 1)"),
        (
            {"files": {CONFIG: "abc"}},
            "files.config.json: String should match pattern '^[0-9a-f]{64}$' (got 'abc')",
        ),
    ],
)
def test_a_manifest_that_does_not_fit(changes: dict[str, Any], fault: str, folder: Path) -> None:
    edit(folder / MANIFEST, sha256=None, **changes)

    with pytest.raises(CheckpointError, match=exactly(f"{folder / MANIFEST}: {fault}")):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"hidden_size": "8"},
            "hidden_size: Input should be a valid integer (got '8')",
        ),
        (
            {"num_attention_heads": 3},
            "hidden_size (8) is not divisible by num_attention_heads (3)",
        ),
    ],
)
def test_a_config_that_does_not_fit(changes: dict[str, Any], fault: str, foreign: Path) -> None:
    edit(foreign / CONFIG, **changes)

    with pytest.raises(CheckpointError, match=exactly(f"{foreign / CONFIG}: {fault}")) as caught:
        open_checkpoint(foreign)
    assert type(caught.value) is CheckpointError


def test_another_kind_of_network_is_told_apart(foreign: Path) -> None:
    edit(foreign / CONFIG, model_type="distilbert")
    message = f"{foreign / CONFIG}: model_type is 'distilbert', only 'bert' can be loaded"

    with pytest.raises(UnsupportedCheckpointError, match=exactly(message)):
        open_checkpoint(foreign)


def test_weights_that_do_not_fit_the_config(foreign: Path) -> None:
    edit(foreign / CONFIG, num_hidden_layers=1)

    with pytest.raises(CheckpointError, match=r"holds bert\.encoder\.layer\.1\.") as caught:
        open_checkpoint(foreign)
    assert caught.value.path == foreign / WEIGHTS


def test_a_tokenizer_with_more_ids_than_embeddings(foreign: Path) -> None:
    tokenizer = read(foreign / "tokenizer.json")
    tokenizer["model"]["vocab"]["more"] = len(VOCABULARY)
    write(foreign / "tokenizer.json", tokenizer)
    message = (
        f"{foreign / 'tokenizer.json'}: has ids up to 97, but config.json gives the network 97 "
        "embeddings"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(foreign)


@pytest.mark.parametrize(
    ("stated", "limit"),
    [
        (20, 20),
        (20.0, 20),
        (32, 32),
        (512, 32),
        (1e30, 32),  # what transformers writes for "no limit"
        (float("inf"), 32),
        (float("nan"), 32),
        (0, 32),
        (-1, 32),
        ("20", 32),
        (None, 32),
    ],
)
def test_the_limit_of_a_folder_of_others(stated: object, limit: int, foreign: Path) -> None:
    edit(foreign / "tokenizer_config.json", model_max_length=stated)

    checkpoint = open_checkpoint(foreign)
    assert checkpoint.manifest.max_length == limit
    assert checkpoint.tokenizer.max_length == limit


def test_a_folder_of_others_without_options_of_its_tokenizer(foreign: Path) -> None:
    (foreign / "tokenizer_config.json").unlink()

    assert open_checkpoint(foreign).manifest.max_length == MAX_LENGTH


def test_no_folder(tmp_path: Path) -> None:
    message = f"{tmp_path / 'absent'}: does not exist: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "absent")

    (tmp_path / "file").touch()
    message = f"{tmp_path / 'file'}: is not a folder: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "file")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / CONFIG}: is missing")):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_weights_that_go_between_check_and_load(
    damage: Callable[[Path], object], folder: Path
) -> None:
    checkpoint = open_checkpoint(folder)
    damage(folder / WEIGHTS)

    with pytest.raises(CheckpointError) as caught:
        checkpoint.load_network()
    assert caught.value.path == folder / WEIGHTS


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    network = tiny_network()
    torch.nn.init.constant_(network.classifier.bias, float("nan"))
    folder = tiny_checkpoint(tmp_path / "tiny", network=network)
    checkpoint = open_checkpoint(folder)
    message = (
        f"{folder / WEIGHTS}: classifier.bias holds values that are not finite float32 numbers"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        checkpoint.load_network()

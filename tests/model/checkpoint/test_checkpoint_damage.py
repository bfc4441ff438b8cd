"""Damaged and incomplete folders: each is refused, with a message that names the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST
from tests.builders import (
    tiny_checkpoint,
)
from tests.matching import exactly
from tests.model.folders import FILES, read, write


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

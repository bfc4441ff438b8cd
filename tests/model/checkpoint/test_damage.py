"""Folders that are damaged, do not fit together or would harm: each is refused by its file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, WEIGHTS
from model.network.labels import check_label
from tests.builders import MAX_LENGTH, WORDS, tiny_checkpoint, tiny_conv_checkpoint
from tests.matching import exactly
from tests.model.folders import FILES, edit, read, write


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
@settings(max_examples=25)
@given(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7))
def test_any_damage_of_a_file_is_noticed(target: Path, name: str, place: float, bit: int) -> None:
    sound = (target / name).read_bytes()
    at = int(place * len(sound))
    damaged = bytearray(sound)
    damaged[at] ^= 1 << bit
    assert refused_or_the_same(target, name, bytes(damaged))
    whole = name == MANIFEST and at == len(sound) - 1
    assert refused_or_the_same(target, name, sound[:at]) is not whole


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


def test_a_manifest_changed_by_hand(folder: Path) -> None:
    edit(folder / MANIFEST, temperature=2.0)
    message = (
        f"{folder / MANIFEST}: does not match its own SHA-256: it is damaged, or was changed after "
        "it was written (to change it by hand, take sha256 out)"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)
    edit(folder / MANIFEST, sha256=None)
    assert open_checkpoint(folder).manifest.temperature == 2.0


HUGE = ("embedding_size", "num_filters", "kernel_size", "num_heads", "head_dim")
SHAPE = "has shape {}, config.json asks for {}"


MISFITS: dict[tuple[Callable[[Path], Path], str], list[tuple[dict[str, Any], str]]] = {
    (tiny_checkpoint, MANIFEST): [
        (
            {"labels": ["positive", "negative"]},
            "labels are positive, negative, config.json has negative, positive",
        ),
        ({"max_length": 33}, "max_length is 33, config.json has 32 positions"),
        (
            {"temperature": 0, "seed": "x", "extra": 1},
            "temperature: must be at least 0.001 (got 0); seed: must be a whole number (got 'x'); "
            "extra: is not known: leave it out",
        ),
    ],
    (tiny_conv_checkpoint, CONFIG): [
        ({"num_heads": 3}, "attention.query.weight " + SHAPE.format((8, 8), (12, 8))),
        (
            {"num_filters": 0, "mask_padding": "no"},
            "num_filters: must be at least 1 (got 0); "
            "mask_padding: must be true or false (got 'no')",
        ),
        (
            {"id2label": {"0": "a", "1": "b", "2": "c"}},
            "classifier.weight " + SHAPE.format((1, 64), (3, 64)),
        ),
        (
            dict.fromkeys(HUGE, 10_000_000),
            "embedding.weight " + SHAPE.format((len(WORDS) + 2, 8), (len(WORDS) + 2, 10_000_000)),
        ),
    ],
}


@pytest.mark.parametrize(
    ("make", "file", "changes", "fault"),
    [(*place, *row) for place, rows in MISFITS.items() for row in rows],
)
def test_what_does_not_fit_is_refused(
    make: Callable[[Path], Path], file: str, changes: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    folder = make(tmp_path / "tiny")
    if file == MANIFEST:
        edit(folder / MANIFEST, sha256=None, **changes)
    else:
        (folder / MANIFEST).unlink()
        edit(folder / CONFIG, **changes, transformers_version="5.0.0")
    place = folder / (WEIGHTS if "has shape" in fault else file)
    with pytest.raises(CheckpointError, match=exactly(f"{place}: {fault}")):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("stated", "limit"),
    [(20, 20), (20.0, 20), (512, 32), (1e30, 32), (float("nan"), 32), ("20", 32)],
)
def test_the_limit_of_a_folder_of_others(stated: object, limit: int, foreign: Path) -> None:
    """Transformers writes 1e30 for "no limit"."""
    edit(foreign / "tokenizer_config.json", model_max_length=stated)
    checkpoint = open_checkpoint(foreign)
    assert (checkpoint.manifest.max_length, checkpoint.tokenizer.max_length) == (limit, limit)
    (foreign / "tokenizer_config.json").unlink()
    assert open_checkpoint(foreign).manifest.max_length == MAX_LENGTH


@pytest.mark.parametrize("name", ["../../../../dev/zero", "a\\b", ".."])
def test_only_files_of_the_folder_are_read_for_a_digest(name: str, folder: Path) -> None:
    edit(folder / MANIFEST, files={name: "0" * 64}, sha256=None)
    fault = f"files.{name}.[key]: must be the plain name of a file in the folder (got {name!r})"
    with pytest.raises(CheckpointError, match=exactly(f"{folder / MANIFEST}: {fault}")):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, "extra"])
def test_what_may_be_read_for_ever_is_not_begun(name: str, folder: Path) -> None:
    edit(folder / MANIFEST, files={name: "0" * 64}, sha256=None)
    (folder / name).unlink(missing_ok=True)
    if name == CONFIG:
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    message = f"{folder / name}: is a device or a pipe: put a regular file there"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)


BLANK = "must have a character that is not white space"
REFUSED = "markup (< and >), control characters, line breaks and half surrogate pairs are refused"


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("", f"label '' {BLANK}"),
        (" \t", rf"label ' \t' {BLANK}"),
        *(
            (label, f"label {label!r} must not have the character U+{ord(bad):04X}: {REFUSED}")
            for label, bad in [
                ("a\ud800", "\ud800"),
                ("<b>bad</b>", "<"),
                ("good\nbad", "\n"),
                ("bad\u2028", "\u2028"),
                ("\u202egood", "\u202e"),
            ]
        ),
        ("a" * 201, "a label has 201 characters, must have at most 200"),
    ],
)
def test_labels_that_change_what_stands_around_them_are_refused(label: str, fault: str) -> None:
    with pytest.raises(ValueError, match=exactly(fault)):
        check_label(label)


@pytest.mark.parametrize("make", [tiny_checkpoint, tiny_conv_checkpoint])
def test_a_folder_with_such_a_label_is_refused(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = make(tmp_path / "tiny")
    edit(folder / CONFIG, id2label={"0": "no", "1": "<"})
    message = f"{folder / CONFIG}: labels: label '<' must not have the character U+003C: {REFUSED}"
    with pytest.raises(CheckpointError, match=exactly(f"{message} (got ('no', '<'))")):
        open_checkpoint(folder)


LONG = "x" * 100_000
MANY = {f"{number}{'x' * 150}": "x" for number in range(1_000)}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (CONFIG, {"id2label": {str(number): "x" * 150 for number in range(1_000)}}),
        (CONFIG, {"hidden_size": [LONG], "vocab_size": LONG, "num_hidden_layers": LONG}),
        (MANIFEST, {"files": MANY}),
        ("tokenizer_config.json", {"tokenizer_class": LONG}),
        ("tokenizer.json", {"model": {"type": LONG}}),
    ],
)
def test_a_refusal_is_short(name: str, changes: dict[str, Any], foreign: Path) -> None:
    for other in {CONFIG, "tokenizer_config.json"} - {name}:
        edit(foreign / other, tokenizer_class=None)
    if name == MANIFEST:
        write(foreign / name, {"labels": ["a", "b"], "max_length": 8})
    edit(foreign / name, **changes)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(foreign)
    assert len(caught.value.fault) <= 1_000
    assert len(str(caught.value)) <= 1_500


@pytest.mark.parametrize("name", [CONFIG, "tokenizer.json"])
def test_files_too_large_to_read_are_refused(name: str, foreign: Path) -> None:
    with (foreign / name).open("ab") as file:
        file.truncate(64_000_001)
    message = f"{foreign / name}: has 64000001 bytes, at most 64000000 are read"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(foreign)

"""Folders that would fill the memory, read for ever or fail later: each is refused at once."""

import os
from pathlib import Path

import pytest

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, WEIGHTS
from tests.builders import VOCABULARY, tiny_conv_checkpoint
from tests.matching import exactly
from tests.model.folders import edit, read


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]"])
def test_ids_around_every_text_must_have_embeddings(token: str, foreign: Path) -> None:
    content = read(foreign / "tokenizer.json")
    content["post_processor"]["special_tokens"][token]["ids"] = [999_999]
    edit(foreign / "tokenizer.json", **content)
    message = (
        f"{foreign / 'tokenizer.json'}: has ids up to 999999, but config.json gives the network "
        f"{len(VOCABULARY)} embeddings"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(foreign)


@pytest.mark.parametrize(
    "name",
    ["../../../../dev/zero", "/dev/zero", "a/b", "a\\b", "", ".", "..", "a\0b", "\n"],
)
def test_only_files_of_the_folder_are_read_for_a_digest(name: str, folder: Path) -> None:
    edit(folder / MANIFEST, files={name: "0" * 64}, sha256=None)

    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.path == folder / MANIFEST
    assert caught.value.fault == (
        f"files.{name}.[key]: must be the plain name of a file in the folder (got {name!r})"
    )


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, "extra"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_may_be_read_for_ever_is_not_begun(kind: str, name: str, folder: Path) -> None:
    edit(folder / MANIFEST, files={WEIGHTS: "0" * 64, "extra": "0" * 64}, sha256=None)
    (folder / name).unlink(missing_ok=True)
    if name == "extra":
        edit(folder / MANIFEST, files={"extra": "0" * 64}, sha256=None)
    if kind == "device":
        (folder / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(folder / name)

    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.path == folder / name
    assert caught.value.fault == "is a device or a pipe: put a regular file there"


def test_sizes_beyond_any_memory_are_refused(tmp_path: Path) -> None:
    folder = tiny_conv_checkpoint(tmp_path / "conv")
    (folder / MANIFEST).unlink()
    names = ("embedding_size", "num_filters", "kernel_size", "num_heads", "head_dim")
    edit(folder / CONFIG, **dict.fromkeys(names, 10_000_000), transformers_version="5")
    message = f"{folder / CONFIG}: the sizes together make a network beyond any memory"

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
                ("bad>", ">"),
                ("good\nbad", "\n"),
                ("\x1b[31mbad", "\x1b"),
                ("bad\x7f", "\x7f"),
                ("bad\u2028", "\u2028"),
                ("\u202egood", "\u202e"),
            ]
        ),
        ("a" * 201, "a label has 201 characters, must have at most 200"),
    ],
)
@pytest.mark.parametrize("build", ["bert", "conv_attention"])
def test_labels_that_change_what_stands_around_them_are_refused(
    build: str, label: str, fault: str, foreign: Path, tmp_path: Path
) -> None:
    folder = foreign if build == "bert" else tiny_conv_checkpoint(tmp_path / "conv")
    edit(folder / CONFIG, id2label={"0": "no", "1": label})
    message = f"{folder / CONFIG}: labels: {fault} (got {('no', label)!r})"

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)


def test_a_value_of_any_size_is_not_repeated(foreign: Path) -> None:
    edit(foreign / CONFIG, hidden_act="x" * 1_000_000)

    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(foreign)
    assert caught.value.fault.startswith("hidden_act: must be 'gelu', ")
    assert caught.value.fault.endswith(f"(got '{'x' * 299}…)")


@pytest.mark.parametrize(
    "name", [CONFIG, "tokenizer.json", "tokenizer_config.json", "added_tokens.json"]
)
def test_files_too_large_to_read_are_refused(name: str, foreign: Path) -> None:
    (foreign / "tokenizer_config.json").unlink()
    with (foreign / name).open("ab") as file:
        file.truncate(64_000_001)
    message = f"{foreign / name}: has 64000001 bytes, at most 64000000 are read"

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(foreign)

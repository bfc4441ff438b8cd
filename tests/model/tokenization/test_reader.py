"""A tokenizer from the files of a folder: theirs, ours, damaged or missing."""

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from model.errors import CheckpointError
from model.tokenization.reader import load_tokenizer
from model.tokenization.tokenizer import Tokenizer
from tests.builders import MAX_LENGTH, SPECIALS, VOCABULARY, tiny_tokenizer
from tests.matching import exactly

TOKENIZER = tiny_tokenizer()
IDS = {token: index for index, token in enumerate(VOCABULARY)}
WORDS = "a an and bad boring but cast cold deep dull"


def write(folder: Path, name: str, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_backend_settings(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    backend.enable_truncation(4)
    backend.enable_padding(length=20)
    return backend


def test_truncation_and_padding_of_the_file_are_turned_off(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer.json", with_backend_settings(TOKENIZER).to_str())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    assert tokenizer.encode(WORDS).input_ids == TOKENIZER.encode(WORDS).input_ids
    assert tokenizer.encode(WORDS).truncated is False
    assert tokenizer.encode("a").input_ids == [IDS["[CLS]"], IDS["a"], IDS["[SEP]"]]


def test_padding_of_the_file_is_turned_off_before_anything_is_encoded(tmp_path: Path) -> None:
    """Half a gigabyte at the peak, for a text of one token."""
    backend = with_backend_settings(TOKENIZER)
    backend.enable_padding(length=3_000_000)
    write(tmp_path, "tokenizer.json", backend.to_str())
    script = (
        "import resource, sys, pathlib\n"
        "from model.tokenization.reader import load_tokenizer\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "load_tokenizer(pathlib.Path(sys.argv[1]), max_length=9)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    # In a process of its own: what has been used before would hide it.
    grown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True, text=True
    ).stdout

    assert int(grown) < 50_000  # kB


def test_written_and_read_is_the_same(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer.json", TOKENIZER.to_json())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    assert tokenizer.to_json() == TOKENIZER.to_json()
    text = "The [SEP] plot drags, but 中 the cafe\u0301 is superb 🎬."
    assert tokenizer.encode(text, with_tokens=True) == TOKENIZER.encode(text, with_tokens=True)


def test_a_vocabulary_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    write(tmp_path, "vocab.txt", "\n".join(VOCABULARY))
    monkeypatch.setattr(Path, "read_text", deny)  # whoever runs the tests may read everything
    message = f"{tmp_path / 'vocab.txt'}: cannot be read: Permission denied"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_vocabulary_file_alone(newline: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes((newline.join(VOCABULARY) + newline).encode())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    text = "The [SEP] plot drags, but 中 the café is superb 🎬."
    assert tokenizer.encode(text, with_tokens=True) == TOKENIZER.encode(text, with_tokens=True)
    assert tokenizer.vocab_size == len(VOCABULARY)


def test_line_separators_can_be_tokens_of_a_vocabulary_file(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "", "a"]
    write(tmp_path, "vocab.txt", "\n".join(tokens))

    assert load_tokenizer(tmp_path, max_length=9).encode("a").input_ids == [2, 7, 3]


@pytest.mark.parametrize(
    ("options", "text", "ids"),
    [
        ({}, "Ä", [2, 4, 3]),
        ({"do_lower_case": False}, "Ä", [2, 6, 3]),
        ({"do_lower_case": False, "strip_accents": True}, "Ä", [2, 5, 3]),
        ({"do_lower_case": True, "strip_accents": False}, "Ä", [2, 1, 3]),
        ({"strip_accents": None, "pad_token": "[PAD]"}, "Ä", [2, 4, 3]),
        ({"tokenize_chinese_chars": False}, "中a", [2, 1, 3]),
        ({"tokenize_chinese_chars": True}, "中a", [2, 1, 4, 3]),
    ],
)
def test_options_of_a_vocabulary_file(
    options: dict[str, Any], text: str, ids: list[int], tmp_path: Path
) -> None:
    write(tmp_path, "vocab.txt", "\n".join([*SPECIALS[:4], "a", "A", "Ä"]))
    write(tmp_path, "tokenizer_config.json", options)

    assert load_tokenizer(tmp_path, max_length=9).encode(text).input_ids == ids


@pytest.mark.parametrize(
    ("options", "pad_token_id"),
    [
        ({}, 3),
        ({"pad_token": "[CLS]"}, 1),
        ({"pad_token": {"__type": "AddedToken", "content": "[PAD]"}}, 3),
        ({"pad_token": "<none>"}, 4),  # that of config.json
        ({"pad_token": {"content": "<none>"}}, 4),
        ({"pad_token": None}, 4),
    ],
)
def test_the_padding_id(options: dict[str, Any], pad_token_id: int, tmp_path: Path) -> None:
    """It is what an attribution starts from, so that of another token would change the answer."""
    write(tmp_path, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\na\n")
    write(tmp_path, "tokenizer_config.json", options)
    write(tmp_path, "config.json", {"pad_token_id": 4})

    assert load_tokenizer(tmp_path, max_length=9).pad_token_id == pad_token_id


def test_no_tokenizer_at_all_is_refused(tmp_path: Path) -> None:
    message = f"{tmp_path / 'tokenizer.json'}: is missing, and there is no vocab.txt instead"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is not JSON: "),
        (b"[]", "must hold a JSON object, holds list"),
        (b"{}", "is not a tokenizer: Model missing."),
        (b"not JSON", "is not JSON: "),
        (b"\xff", "is not JSON: "),
        (TOKENIZER.to_json()[:-1].encode(), "is not JSON: "),
        (TOKENIZER.to_json().replace('"vocab":', '"words":').encode(), "is not a tokenizer: "),
        (
            TOKENIZER.to_json().replace('"unk_token":"[UNK]"', '"unk_token":"<none>"').encode(),
            "is not a tokenizer: ",
        ),
    ],
)
def test_a_damaged_tokenizer_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)

    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: {re.escape(fault)}"):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("vocab.txt", b"[UNK]\n\xff\n", "is not UTF-8: invalid start byte"),
        ("vocab.txt", b"[UNK]\na\n", "lacks the special tokens [CLS], [SEP]"),
        (
            "tokenizer_config.json",
            b"{",
            "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 "
            "(char 1)",
        ),
        ("tokenizer_config.json", b"[]", "must hold a JSON object, holds list"),
    ],
)
def test_damaged_companions_are_refused(
    name: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    write(tmp_path, "vocab.txt", "\n".join(VOCABULARY))
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_limit_without_room_names_the_file(name: str, tmp_path: Path) -> None:
    content = TOKENIZER.to_json() if name == "tokenizer.json" else "\n".join(VOCABULARY)
    path = write(tmp_path, name, content)
    message = (
        f"{path}: max_length is 2, but 2 special tokens leave no room for text: it must be at "
        "least 3"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=2)

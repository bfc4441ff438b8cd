"""Reading and writing the files of a folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import CheckpointError
from model.files import digest, read_object, to_bytes
from tests.matching import exactly


def test_written_for_people() -> None:
    assert to_bytes({"label": "größer"}) == '{\n  "label": "größer"\n}\n'.encode()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{} {}", "is not JSON: Extra data: line 1 column 4 (char 3)"),
        (b'"\xff"', "is not UTF-8 (invalid start byte): save it as UTF-8"),
        (b"[]", "must hold a JSON object, holds list"),
    ],
)
def test_what_is_no_object_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=exactly(f"{path}: {fault}")) as caught:
        read_object(path)
    assert (caught.value.path, caught.value.fault) == (path, fault)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' + "1" * 5_000 + "}"])
def test_json_made_to_harm_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json: is not JSON: "):
        read_object(path)


@pytest.mark.parametrize(
    ("name", "fault"), [("absent", "is missing"), ("", "cannot be read: Is a directory")]
)
@pytest.mark.parametrize("work", [read_object, digest])
def test_files_that_cannot_be_read_are_refused(
    work: Callable[[Path], object], name: str, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        work(tmp_path / name)

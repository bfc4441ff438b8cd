"""Texts without labels."""

from pathlib import Path

import pytest

from training.data.unlabelled import read_texts
from training.errors import DataError


def test_a_bare_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "bare.tsv"
    path.write_text("sentence\nOne text.\r\n\nAnother.\n", encoding="utf-8")
    assert read_texts(path) == ["One text.", "Another."]
    path.write_text("One text.\n", encoding="utf-8")
    assert read_texts(path) == ["One text."]
    path.write_text("text\n \u200b\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2: the text is blank"):
        read_texts(path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_texts(tmp_path / "none.tsv")

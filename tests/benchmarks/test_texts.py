"""What servers are asked."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.texts import SENTENCES, own_texts, read_texts, write_literals


def test_our_own_are_many_and_the_same_every_time() -> None:
    texts = own_texts()

    assert len(set(texts.sentences)) == len(SENTENCES) == 200
    assert all(100 < len(review.split()) < 400 for review in texts.reviews)
    assert own_texts() == texts


def test_files_are_read_without_quoting(tmp_path: Path) -> None:
    sentences, reviews = tmp_path / "dev.tsv.gz", tmp_path / "test.tsv"
    sentences.write_bytes(gzip.compress(b'sentence\tlabel\na "good film\t1\ndull\t0\n'))
    reviews.write_text("sentence\nlong\n", encoding="utf-8")

    texts = read_texts(sentences, reviews)

    assert (texts.sentences, texts.reviews) == (('a "good film', "dull"), ("long",))
    assert texts.origin == f"{tmp_path.name}/dev.tsv.gz and {tmp_path.name}/test.tsv"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: "),
        (b"sentence\n", "holds no texts behind its header"),
        (b"sentence\n\xff\n", "cannot be read: "),
    ],
)
def test_a_file_that_is_no_use_is_named(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "texts.tsv"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BenchmarkError) as caught:
        read_texts(path, path)

    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_literal_becomes_json_by_a_number_and_a_quote(tmp_path: Path) -> None:
    texts = ['a "good" film', "back\\slash", "snow\u2603\tman"]
    path = tmp_path / "texts"

    write_literals(texts, path)

    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(f'{line} 7"') for line in lines] == [f"{text} 7" for text in texts]

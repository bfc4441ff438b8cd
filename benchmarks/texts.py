"""Provides the texts that servers are asked, each made unique by a number at its end."""

import csv
import gzip
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import BenchmarkError

_OPENINGS = (
    "The plot drags",
    "I liked the first hour",
    "Nobody in the cast can act",
    "The battery lasts for two days",
    "Our waiter was friendly and quick",
    "The book tells the same joke over and over again",
    "It broke within a week",
    "The camera finds beauty in the plainest rooms",
    "They never answered my letter",
    "We had been looking forward to this for months",
)
_JOINTS = ("but", "and", "although", "while")
_ENDINGS = (
    "the rest is superb.",
    "I would not go there again.",
    "my children want nothing else now.",
    "the price is far too high for what you get, even in a sale.",
    "it is worth every minute.",
)
SENTENCES = tuple(
    f"{opening}, {joint} {ending}"
    for opening, joint, ending in itertools.product(_OPENINGS, _JOINTS, _ENDINGS)
)
_REVIEWS = 200
_SENTENCES_OF_A_REVIEW = 14
_FIRST_NUMBER = 200_000


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that servers are asked.

    Args:
        sentences: short texts.
        reviews: long texts.
        origin: their source, for the report.
    """

    sentences: tuple[str, ...]
    reviews: tuple[str, ...]
    origin: str


def own_texts() -> Texts:
    """Makes 200 sentences from templates, and reviews of 14 of them."""
    chance = random.Random(0)  # noqa: S311 - not for secrets
    reviews = (
        " ".join(chance.choices(SENTENCES, k=_SENTENCES_OF_A_REVIEW)) for _ in range(_REVIEWS)
    )
    return Texts(SENTENCES, tuple(reviews), "sentences from templates of our own")


def read_texts(sentences: Path, reviews: Path) -> Texts:
    """Reads the texts of two labelled files.

    Args:
        sentences: TSV with a header and the text in the first column, optionally gzipped.
        reviews: the same for long texts.

    Raises:
        BenchmarkError: one cannot be read, or has no text.
    """
    origin = f"{'/'.join(sentences.parts[-2:])} and {'/'.join(reviews.parts[-2:])}"
    return Texts(_first_column(sentences), _first_column(reviews)[:1000], origin)


def write_literals(texts: Sequence[str], path: Path) -> None:
    """Writes texts for the client, each line a JSON string without its closing quote.

    The client adds only a number and the quote, so it takes little time from the server beside it.

    Args:
        texts: to ask.
        path: of the file.
    """
    lines = [json.dumps(text, ensure_ascii=False)[:-1] for text in texts]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_literals(path: Path) -> list[str]:
    """Reads a file of `write_literals` as the client sends it, a number behind each text.

    Args:
        path: of the file.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        numbered(json.loads(line + '"'), number)
        for number, line in enumerate(lines, start=_FIRST_NUMBER)
    ]


def numbered(text: str, number: int) -> str:
    """Makes a text that no server has been asked yet, so that no cache holds its answer."""
    return f"{text} {number}"


def _first_column(path: Path) -> tuple[str, ...]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise BenchmarkError(f"{path}: cannot be read: {error}") from error
    rows = csv.reader(text.split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
    found = tuple(row[0] for row in itertools.islice(rows, 1, None) if row and row[0].strip())
    if not found:
        raise BenchmarkError(f"{path}: holds no texts behind its header")
    return found

"""Reads the sources of a recipe, holds validation rows out, and drops what overlaps with them."""

import csv
import gzip
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.checkpoint.records import DataSource
from model.files import digest
from training.data.dataset import Dataset, read_dataset
from training.data.validation_split import text_key
from training.errors import RecipeError

LABELS = ("negative", "neutral", "positive")

_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
# The Penn Treebank style: `do n't`, `can not`, `-lrb-`.
_NOT = re.compile(r"n['\u2019]t\b")
_BRACKET = re.compile(r"-[lr][rcs]b-")
_LONG = 8  # the fewest words of a validation text
Words = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of texts.

    Args:
        classes: 3 for all of `LABELS`, 2 for only `negative` and `positive`, 0 for no labels.
        validation: rows that are not trained on but choose the temperatures.
        passes: passes of the teacher, the student and its steady stage over the rows; 0.3 chooses
            a part of them.
        draw: seeds the validation rows: those that the weights that ship have not read either.
    """

    file: str
    classes: int
    validation: int = 0
    passes: tuple[float, ...] = ()
    origin: str = ""
    licence: str = ""
    draw: str = ""


def read_sources() -> tuple[Source, ...]:
    """Reads the table of sources."""
    with (Path(__file__).parent / "sources.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Source(
                file=line["file"],
                classes=int(line["classes"]),
                validation=int(line["validation"]),
                passes=tuple(float(line[stage]) for stage in ("teacher", "student", "steady")),
                origin=line["origin"],
                licence=line["licence"],
                draw=line["draw"],
            )
            for line in csv.DictReader(file)
        )


@dataclass(frozen=True, slots=True)
class Data:
    """What is read of all sources.

    Args:
        rows: the rows to learn from, by file; their classes are numbered as in `LABELS`.
        reviews: texts without labels, by file.
        validation: the rows held out, with every file as a source.
        measured: keys of the texts that the result is measured on.
        evaluated: those of three classes, by set.
    """

    rows: dict[str, Dataset]
    reviews: dict[str, list[str]]
    validation: Dataset
    measured: frozenset[str]
    evaluated: dict[str, Dataset]


def read_data(
    folder: Path,
    sources: Sequence[Source],
    *,
    keep_out: Sequence[str],
    most_validation: int,
    seed: int = 0,
) -> Data:
    """Reads every source.

    Args:
        keep_out: labelled files that the result is measured on; no text of them stays.
        most_validation: the most validation rows of a source.
    """
    kept_out = {name.partition(".")[0]: _read(folder / name) for name in keep_out}
    measured = frozenset(text_key(text) for rows in kept_out.values() for text in rows.texts)

    def is_free(text: str) -> bool:
        return text_key(text) not in measured

    labelled, reviews, files = {}, {}, []
    for source in sources:
        path = folder / source.file
        if source.classes:
            rows = _read(path)
            count, sha256 = len(rows), rows.sources[0].sha256
            labelled[source.file] = _keep(rows, is_free)
        else:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                texts = [line.strip() for line in file if line.strip()][1:]  # below the header
            count, sha256 = len(texts), digest(path)
            reviews[source.file] = [text for text in texts if is_free(text)]
        files.append(DataSource(file=source.file, rows=count, sha256=sha256))
    validation_texts: list[str] = []
    validation_ids: list[int] = []
    for source in sources:
        count = min(source.validation, most_validation)
        if count:
            rows = labelled[source.file]
            chosen = rows.take(_choose_validation(source, rows.texts, count, seed=seed))
            validation_texts += chosen.texts
            validation_ids += chosen.label_ids
    overlaps = overlap_with(validation_texts)
    return Data(
        {name: _keep(rows, lambda text: not overlaps(text)) for name, rows in labelled.items()},
        {name: [text for text in texts if not overlaps(text)] for name, texts in reviews.items()},
        Dataset(tuple(validation_texts), tuple(validation_ids), LABELS, tuple(files)),
        measured,
        {name: rows for name, rows in kept_out.items() if len({*rows.label_ids}) == len(LABELS)},
    )


def _read(path: Path) -> Dataset:
    """Reads a labelled file of all classes or a pair, and numbers them as `LABELS` does."""
    dataset = read_dataset([path], labels=LABELS, some=True)
    numbers = [LABELS.index(label) for label in dataset.labels]
    label_ids = tuple(numbers[number] for number in dataset.label_ids)
    return replace(dataset, label_ids=label_ids, labels=LABELS)


def _keep(rows: Dataset, is_kept: Callable[[str], bool]) -> Dataset:
    return rows.take(index for index, text in enumerate(rows.texts) if is_kept(text))


def _choose_validation(source: Source, texts: Sequence[str], count: int, *, seed: int) -> list[int]:
    """Chooses rows among those of at least eight words; returns their indices, ascending."""
    long = [index for index, text in enumerate(texts) if len(_word_key(text).split()) >= _LONG]
    if count > len(long):
        raise RecipeError(
            f"{source.file}: {count} validation rows are wanted, but {len(long)} of its rows have "
            f"{_LONG} words and more: hold fewer out"
        )
    rng = random.Random(f"{seed}/{source.draw or source.file}")  # noqa: S311 - not for secrets
    return sorted(rng.sample(long, count))


def overlap_with(validation: Sequence[str]) -> Callable[[str], bool]:
    """Makes a function that returns whether a text overlaps with a validation text.

    It does if both are equal by letters and digits, if it has at least three words and is a part of
    one, or if it contains one, by words without case, punctuation and Penn style.
    """
    # Indexed by three words in a row, so that few whole texts must be compared.
    anywhere: dict[Words, list[str]] = defaultdict(list)
    at_start: dict[Words, list[str]] = defaultdict(list)
    short = []
    for key in dict.fromkeys(_word_key(text) for text in validation):
        triples = list(_triples(key))
        for triple in set(triples):
            anywhere[triple].append(key)
        if triples:
            at_start[triples[0]].append(key)
        else:
            short.append(key)
    letters = {text_key(text) for text in validation}

    def overlaps(text: str) -> bool:
        key = _word_key(text)
        if text_key(text) in letters or any(part in key for part in short):
            return True
        triples = list(_triples(key))
        if not triples:
            return False
        if any(key in whole for whole in anywhere.get(triples[0], ())):
            return True
        return any(part in key for each in at_start.keys() & triples for part in at_start[each])

    return overlaps


def _word_key(text: str) -> str:
    """Returns the words of a text between spaces, without case, punctuation and Penn style."""
    folded = text.casefold().replace("cannot", "can not")
    if "n'" in folded or "n\u2019" in folded or "b-" in folded:  # few texts; the search is slow
        folded = _NOT.sub(" not", _BRACKET.sub(" ", folded))
    return f" {_NOT_LETTER_OR_DIGIT.sub(' ', folded).strip()} "


def _triples(key: str) -> Iterator[Words]:
    """Yields every three words in a row."""
    words = key.split()
    return zip(words, words[1:], words[2:], strict=False)

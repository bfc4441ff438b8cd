"""Divides rows into training and validation rows or folds, without texts in common."""

import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.model_selection import StratifiedKFold

from model.tables.columns import Columns
from training.data.dataset import Dataset, read_dataset
from training.errors import DataError, RecipeError

_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
# The Penn Treebank style: `do n't`, `can not`, `-lrb-`.
_NOT = re.compile(r"n['\u2019]t\b")
_BRACKET = re.compile(r"-[lr][rcs]b-")
_LONG = 8  # the fewest words of a text that a plan holds out
# A network needs one text of each class to learn from and one to validate by, beside the fold.
_FEWEST_OUTSIDE = 2
Words = tuple[str, str, str]


def text_key(text: str) -> str:
    """Returns the letters and digits of a text. Two texts with the same key count as equal."""
    folded = text.casefold()
    return _NOT_LETTER_OR_DIGIT.sub("", folded) or folded.strip()


def read_and_split(
    training_files: Sequence[Path],
    validation_files: Sequence[Path],
    *,
    columns: Columns,
    labels: Sequence[str] | None,
    hold_out: Literal["random", "last"],
    share: float,
    seed: int,
) -> tuple[Dataset, Dataset, Dataset]:
    """Reads the files to learn from and to validate by; without the latter, splits rows off.

    Returns:
        All rows of the files to learn from, the training rows, and the validation rows.
    """
    rows = read_dataset(training_files, columns=columns, labels=labels)
    _check_classes(rows)
    if not validation_files:
        return rows, *split_validation(rows, which=hold_out, share=share, seed=seed)
    return rows, rows, read_dataset(validation_files, columns=columns, labels=rows.labels)


def read_evaluated(
    paths: Sequence[Path], *, columns: Columns, labels: Sequence[str]
) -> dict[str, Dataset]:
    """Reads the files that are measured at the end, by their names in the record.

    That of `data/sst/dev.tsv.gz` is `sst/dev`.
    """
    datasets: dict[str, Dataset] = {}
    for path in paths:
        name = f"{path.resolve().parent.name}/{path.name.partition('.')[0]}"
        if name in datasets:
            raise RecipeError(f"--evaluate: two files would be recorded as {name}: rename one")
        datasets[name] = read_dataset([path], columns=columns, labels=labels)
    return datasets


def split_validation(
    dataset: Dataset, *, which: Literal["random", "last"], share: float, seed: int
) -> tuple[Dataset, Dataset]:
    """Splits validation rows off, random ones of each class or the last ones, in their order."""
    if which == "random":
        return split_stratified(dataset, share=share, seed=seed)
    if len(dataset) < 2:
        raise DataError(
            Path(dataset.sources[0].file),
            "has 1 row, at least 2 are needed to hold one out: add rows, or give a file to "
            "validate on",
        )
    kept = min(max(1, round((1.0 - share) * len(dataset))), len(dataset) - 1)
    training = dataset.take(range(kept))
    _check_classes(training)
    return training, dataset.take(range(kept, len(dataset)))


def _check_classes(training: Dataset) -> None:
    present = set(training.label_ids)
    missing = [label for number, label in enumerate(training.labels) if number not in present]
    if missing:
        raise RecipeError(
            f"no training row has the label {', '.join(missing)}: add rows, or leave it out of "
            "--labels"
        )


def split_stratified(dataset: Dataset, *, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Holds rows out at random, the same share of each class; equal texts stay together.

    So no text is on both sides, and the share is met only to within the rows of one text.
    """
    if not 0.0 < share < 1.0:
        raise RecipeError(f"the share held out must be between 0 and 1, got {share}")
    groups: dict[int, list[list[int]]] = defaultdict(list)
    for indices in _equal_texts(dataset):
        groups[dataset.label_ids[indices[0]]].append(indices)
    generator = np.random.default_rng(seed)
    held_out: set[int] = set()
    for label_id, label in enumerate(dataset.labels):
        if len(groups[label_id]) < 2:
            raise DataError(
                Path(dataset.sources[0].file),
                f"class {label} has {len(groups[label_id])} different texts, at least 2 are "
                "needed to hold one out: add rows, or give a file to validate on",
            )
        wanted = max(1, round(share * sum(map(len, groups[label_id]))))
        taken = 0
        for group in generator.permutation(len(groups[label_id]))[1:]:
            if taken >= wanted:
                break
            held_out.update(groups[label_id][group])
            taken += len(groups[label_id][group])
    return _divide(dataset, held_out)


def split_folds(dataset: Dataset, *, count: int, seed: int) -> list[tuple[Dataset, Dataset]]:
    """Divides rows into folds with the same share of every class; equal texts stay together.

    Returns for each fold the rows outside and the rows inside, in the order of the dataset.
    """
    groups = list(_equal_texts(dataset))
    classes = [dataset.label_ids[indices[0]] for indices in groups]
    _check_folds(dataset, classes, count)
    splitter = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    return [
        _divide(dataset, {index for group in inside for index in groups[group]})
        for _, inside in splitter.split(np.zeros(len(groups)), classes)
    ]


def _equal_texts(dataset: Dataset) -> Collection[list[int]]:
    """Groups the indices of the rows whose texts have the same letters and digits."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(dataset.texts):
        groups[text_key(text)].append(index)
    return groups.values()


def _divide(dataset: Dataset, inside: Collection[int]) -> tuple[Dataset, Dataset]:
    indices = range(len(dataset))
    return (
        dataset.take(index for index in indices if index not in inside),
        dataset.take(index for index in indices if index in inside),
    )


def _check_folds(dataset: Dataset, classes: list[int], count: int) -> None:
    number = min(range(len(dataset.labels)), key=classes.count)
    texts = classes.count(number)
    outside = texts - -(-texts // count)
    if texts >= count and outside >= _FEWEST_OUTSIDE:
        return
    advice = f"choose --folds {texts}, or add rows" if texts > _FEWEST_OUTSIDE else "add rows"
    raise DataError(
        Path(dataset.sources[0].file),
        f"class {dataset.labels[number]} has {texts} different "
        f"text{'' if texts == 1 else 's'}, too few for {count} folds: each needs one, and two "
        f"beside it to learn and to validate by; {advice}",
    )


def word_key(text: str) -> str:
    """Returns the words of a text between spaces, without case, punctuation and Penn style."""
    folded = text.casefold().replace("cannot", "can not")
    if "n'" in folded or "n\u2019" in folded or "b-" in folded:  # few texts; the search is slow
        folded = _NOT.sub(" not", _BRACKET.sub(" ", folded))
    return f" {_NOT_LETTER_OR_DIGIT.sub(' ', folded).strip()} "


def choose_held_out(
    texts: Mapping[str, Sequence[str]], counts: Mapping[str, int], *, seed: int
) -> dict[str, list[int]]:
    """Chooses rows of each source of a plan to hold out, among those of at least eight words.

    Returns their indices in each source, ascending.
    """
    chosen = {}
    for name, count in counts.items():
        rng = random.Random(f"{seed}/{name}")  # noqa: S311 - not for secrets
        long = [
            index for index, text in enumerate(texts[name]) if len(word_key(text).split()) >= _LONG
        ]
        if count > len(long):
            raise RecipeError(
                f"source {name}: hold_out is {count}, but {len(long)} of its rows have {_LONG} "
                "words and more: hold fewer out"
            )
        chosen[name] = sorted(rng.sample(long, count))
    return chosen


def rows_without_overlap(texts: Sequence[str], held_out: Sequence[str]) -> list[int]:
    """Returns the indices of the rows that share no text with the held-out rows.

    A row is left out if it equals a held-out text by letters and digits. It is also left out if it
    has at least three words and is part of a held-out text, or if it contains one, by words.
    """
    # Indexed by three words in a row, so that few whole texts must be compared.
    anywhere: dict[Words, list[str]] = defaultdict(list)
    at_start: dict[Words, list[str]] = defaultdict(list)
    short = []
    for key in dict.fromkeys(word_key(text) for text in held_out):
        triples = list(_triples(key))
        for triple in set(triples):
            anywhere[triple].append(key)
        if triples:
            at_start[triples[0]].append(key)
        else:
            short.append(key)
    letters = {text_key(text) for text in held_out}

    def overlaps(text: str) -> bool:
        key = word_key(text)
        if text_key(text) in letters or any(part in key for part in short):
            return True
        triples = list(_triples(key))
        if not triples:
            return False
        if any(key in whole for whole in anywhere.get(triples[0], ())):
            return True
        return any(part in key for each in at_start.keys() & triples for part in at_start[each])

    return [index for index, text in enumerate(texts) if not overlaps(text)]


def _triples(key: str) -> Iterator[Words]:
    """Yields every three words in a row."""
    words = key.split()
    return zip(words, words[1:], words[2:], strict=False)

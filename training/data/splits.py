"""Reads labelled files and splits their rows into training and validation rows."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from training.data.dataset import Dataset, read_dataset
from training.data.readers import Columns
from training.errors import DataError, RecipeError

_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")


def read_and_split(
    training_files: Sequence[Path],
    validation_files: Sequence[Path],
    *,
    columns: Columns,
    labels: Sequence[str] | None,
    hold_out: Literal["random", "last"],
    share: float,
    seed: int,
) -> tuple[Dataset, Dataset]:
    """Reads every file. Without validation files, holds some training rows out.

    Args:
        training_files: labelled files.
        validation_files: labelled files, or none.
        columns: which columns hold what.
        labels: names of the classes, in their order; None: from the files.
        hold_out: which rows are held out: random ones of each class, or the last.
        share: of the rows to hold out.
        seed: of the random choice.

    Returns:
        The training rows and the validation rows.

    Raises:
        DataError: a file or a row cannot be used.
        RecipeError: a class has no training row.
    """
    training = read_training(training_files, columns=columns, labels=labels)
    if not validation_files:
        return hold_out_rows(training, which=hold_out, share=share, seed=seed)
    return training, read_dataset(validation_files, columns=columns, labels=training.labels)


def read_training(
    paths: Sequence[Path], *, columns: Columns, labels: Sequence[str] | None
) -> Dataset:
    """Reads the files to learn from.

    Args:
        paths: labelled files.
        columns: which columns hold what.
        labels: names of the classes, in their order; None: from the files.

    Raises:
        DataError: a file or a row cannot be used.
        RecipeError: a class has no row.
    """
    training = read_dataset(paths, columns=columns, labels=labels)
    _check_classes(training)
    return training


def hold_out_rows(
    dataset: Dataset, *, which: Literal["random", "last"], share: float, seed: int
) -> tuple[Dataset, Dataset]:
    """Holds some rows out for validation.

    Args:
        dataset: rows of every class.
        which: random ones of each class, or the last.
        share: of the rows to hold out.
        seed: of the random choice.

    Returns:
        The training rows and the validation rows.

    Raises:
        DataError: the rows are too few.
        RecipeError: a class has no training row left.
    """
    if which == "random":
        return split_stratified(dataset, share=share, seed=seed)
    training, validation = split_last(dataset, share=share)
    _check_classes(training)
    return training, validation


def read_evaluated(
    paths: Sequence[Path], *, columns: Columns, labels: Sequence[str]
) -> dict[str, Dataset]:
    """Reads the files that are measured at the end.

    Args:
        paths: labelled files.
        columns: which columns hold what.
        labels: names of the classes, in their order.

    Returns:
        Datasets by their names in the record: `sst/dev` for `data/sst/dev.tsv.gz`.

    Raises:
        DataError: a file or a row cannot be used.
        RecipeError: two would get the same name.
    """
    found: dict[str, Dataset] = {}
    for path in paths:
        name = f"{path.resolve().parent.name}/{path.name.partition('.')[0]}"
        if name in found:
            raise RecipeError(f"--evaluate: two files would be told as {name}: rename one")
        found[name] = read_dataset([path], columns=columns, labels=labels)
    return found


def _check_classes(training: Dataset) -> None:
    found = set(training.label_ids)
    missing = [label for number, label in enumerate(training.labels) if number not in found]
    if missing:
        raise RecipeError(
            f"no training row has the label {', '.join(missing)}: add rows, or leave it out of "
            "--labels"
        )


def split_stratified(dataset: Dataset, *, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Holds rows out at random, the same share of each class.

    Rows whose texts have the same letters and digits stay together, so that no text is on both
    sides.

    Args:
        dataset: of two or more different texts in each class.
        share: of the rows of each class to hold out, between 0 and 1. Equal texts stay together,
            so the share is met only to within the rows of one text.
        seed: decides which rows.

    Returns:
        The training rows and the rows held out, each in the order of the dataset.

    Raises:
        RecipeError: `share` is not between 0 and 1.
        DataError: a class has fewer than two different texts.
    """
    if not 0.0 < share < 1.0:
        raise RecipeError(f"the share held out must be between 0 and 1, got {share}")
    copies: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(dataset.texts):
        copies[text_key(text)].append(index)
    groups: dict[int, list[list[int]]] = defaultdict(list)
    for indices in copies.values():
        groups[dataset.label_ids[indices[0]]].append(indices)
    random = np.random.default_rng(seed)
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
        for place in random.permutation(len(groups[label_id]))[1:]:
            if taken >= wanted:
                break
            held_out.update(groups[label_id][place])
            taken += len(groups[label_id][place])
    everything = range(len(dataset))
    return (
        dataset.take(index for index in everything if index not in held_out),
        dataset.take(index for index in everything if index in held_out),
    )


def split_last(dataset: Dataset, *, share: float) -> tuple[Dataset, Dataset]:
    """Holds the last rows out, regardless of class and text.

    Args:
        dataset: of two or more rows.
        share: of the rows to hold out, between 0 and 1. Each side gets at least one row.

    Returns:
        The training rows and the rows held out.

    Raises:
        DataError: there is only one row.
    """
    if len(dataset) < 2:
        raise DataError(
            Path(dataset.sources[0].file),
            "has 1 row, at least 2 are needed to hold one out: add rows, or give a file to "
            "validate on",
        )
    kept = min(max(1, round((1.0 - share) * len(dataset))), len(dataset) - 1)
    return dataset.take(range(kept)), dataset.take(range(kept, len(dataset)))


def text_key(text: str) -> str:
    """Returns the letters and digits of a text. Two texts with the same key count as equal."""
    folded = text.casefold()
    return _NOT_LETTER_OR_DIGIT.sub("", folded) or folded.strip()

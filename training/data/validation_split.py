"""Divides rows into training and validation rows, without texts in common."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from model.tables.columns import Columns
from training.data.dataset import Dataset, read_dataset
from training.errors import DataError, RecipeError

_SHARE, _ENOUGH, _MOST_SHARE = 0.1, 20, 0.2
_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")


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
    which: Literal["random", "last"],
    share: float | None,
    seed: int,
) -> tuple[Dataset, Dataset]:
    """Reads training rows and validation rows; without files of the latter, splits them off."""
    rows = read_dataset(training_files, columns=columns, labels=labels)
    _check_classes(rows)
    if not validation_files:
        return split_validation(rows, which=which, share=share, seed=seed)
    return rows, read_dataset(validation_files, columns=columns, labels=rows.labels)


def read_evaluated(
    paths: Sequence[Path], *, columns: Columns, labels: Sequence[str]
) -> dict[str, Dataset]:
    """Reads files to measure; that of `data/sst/dev.tsv.gz` is recorded as `sst/dev`."""
    datasets: dict[str, Dataset] = {}
    for path in paths:
        name = f"{path.resolve().parent.name}/{path.name.partition('.')[0]}"
        if name in datasets:
            raise RecipeError(f"--evaluate: two files would be recorded as {name}: rename one")
        datasets[name] = read_dataset([path], columns=columns, labels=labels)
    return datasets


def split_validation(
    dataset: Dataset, *, which: Literal["random", "last"], share: float | None, seed: int
) -> tuple[Dataset, Dataset]:
    """Splits validation rows off, random ones of each class or the last ones, in their order.

    Without a share it is a tenth; below 200 rows it is 20 rows, or a fifth if that is less.
    """
    if share is None:
        share = min(max(_SHARE, _ENOUGH / max(len(dataset), 1)), _MOST_SHARE)
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
    equal: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(dataset.texts):
        equal[text_key(text)].append(index)
    for indices in equal.values():
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
    kept = (index for index in range(len(dataset)) if index not in held_out)
    return dataset.take(kept), dataset.take(sorted(held_out))

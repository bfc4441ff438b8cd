"""Divides rows into folds for cross-validation, without texts in common."""

from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from training.data.dataset import Dataset
from training.data.splits import text_key
from training.errors import DataError

# A network needs one text of each class to learn from and one to validate by, beside the fold.
_LEFT = 2


def split_folds(dataset: Dataset, *, count: int, seed: int) -> list[tuple[Dataset, Dataset]]:
    """Divides rows into folds, each with the same share of every class.

    Rows whose texts have the same letters and digits stay together, so that no text is on both
    sides.

    Args:
        dataset: rows of every class.
        count: of the folds, 2 or more.
        seed: decides which rows go where.

    Returns:
        For each fold the rows outside and the rows inside, each in the order of the dataset.

    Raises:
        DataError: a class has fewer different texts than there are folds.
    """
    copies: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(dataset.texts):
        copies[text_key(text)].append(index)
    groups = list(copies.values())
    classes = [dataset.label_ids[indices[0]] for indices in groups]
    _check(dataset, classes, count)
    splitter = StratifiedKFold(n_splits=count, shuffle=True, random_state=seed)
    folds = []
    for _, places in splitter.split(np.zeros(len(groups)), classes):
        inside = {index for place in places for index in groups[place]}
        everything = range(len(dataset))
        folds.append(
            (
                dataset.take(index for index in everything if index not in inside),
                dataset.take(index for index in everything if index in inside),
            )
        )
    return folds


def _check(dataset: Dataset, classes: list[int], count: int) -> None:
    number = min(range(len(dataset.labels)), key=classes.count)
    texts = classes.count(number)
    left = texts - -(-texts // count)
    if texts >= count and left >= _LEFT:
        return
    fewer = f"choose --folds {texts}, or add rows" if texts > _LEFT else "add rows"
    raise DataError(
        Path(dataset.sources[0].file),
        f"class {dataset.labels[number]} has {texts} different "
        f"text{'' if texts == 1 else 's'}, too few for {count} folds: each needs one, and two "
        f"beside it to learn and to validate by; {fewer}",
    )

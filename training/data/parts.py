"""From the files of a command line to the rows to learn from and the rows to validate by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from training.data.data import Columns, Dataset, read_dataset, split, split_last
from training.errors import RecipeError


def read_parts(
    training_files: Sequence[Path],
    validation_files: Sequence[Path],
    *,
    columns: Columns,
    labels: Sequence[str] | None,
    hold_out: Literal["random", "last"],
    share: float,
    seed: int,
) -> tuple[Dataset, Dataset]:
    """Reads every file, and holds training rows out if no file is for validation.

    Args:
        training_files: labelled files.
        validation_files: labelled files, or none.
        columns: which columns hold what.
        labels: names of the classes, in their order; None: from the files.
        hold_out: which rows are held out: some of each class by chance, or the last.
        share: of the rows to hold out.
        seed: chooses the rows that are held out by rng.

    Returns:
        The rows to learn from and the rows to validate by.

    Raises:
        DataError: a file or a row cannot be used.
        RecipeError: a class has no row to learn from.
    """
    training = read_dataset(training_files, columns=columns, labels=labels)
    _check_classes(training)
    if validation_files:
        validation = read_dataset(validation_files, columns=columns, labels=training.labels)
    elif hold_out == "last":
        training, validation = split_last(training, share=share)
        _check_classes(training)
    else:
        training, validation = split(training, share=share, seed=seed)
    return training, validation


def read_evaluated(
    paths: Sequence[Path], *, columns: Columns, labels: Sequence[str]
) -> dict[str, Dataset]:
    """Reads files that are measured in the end.

    Args:
        paths: labelled files.
        columns: which columns hold what.
        labels: names of the classes, in their order.

    Returns:
        By the names that they get in the record: `sst/dev` of `data/sst/dev.tsv.gz`.

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

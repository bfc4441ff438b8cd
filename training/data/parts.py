"""From the files of a command line to the rows to learn from and the rows to validate by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training.data.data import Columns, Dataset, read_dataset, split, split_last
from training.errors import RecipeError
from training.fit.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Files:
    """What a command line says of its data.

    Args:
        training: labelled files.
        validation: labelled files to validate by; none: some training rows are held out.
        columns: which columns hold what.
        labels: names of the classes, in their order; None: from the files.
    """

    training: Sequence[Path]
    validation: Sequence[Path]
    columns: Columns
    labels: Sequence[str] | None


def read_parts(files: Files, recipe: Recipe) -> tuple[Dataset, Dataset]:
    """Reads every file and holds rows out if no file is for validation.

    Args:
        files: what the command line says.
        recipe: which rows are held out, how many, and the seed that chooses them.

    Returns:
        The rows to learn from and the rows to validate by.

    Raises:
        DataError: a file or a row cannot be used.
        RecipeError: a class has no row to learn from.
    """
    training = read_dataset(files.training, columns=files.columns, labels=files.labels)
    _check_classes(training)
    if files.validation:
        validation = read_dataset(files.validation, columns=files.columns, labels=training.labels)
    elif recipe.hold_out == "last":
        training, validation = split_last(training, share=recipe.validation_share)
        _check_classes(training)
    else:
        training, validation = split(training, share=recipe.validation_share, seed=recipe.seed)
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

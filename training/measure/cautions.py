"""Warns of rows and results that say less than they seem to."""

from collections import Counter
from collections.abc import Mapping, Sequence

from training.data.dataset import Dataset
from training.data.splits import text_key
from training.measure.calibrate import HIGHEST, LOWEST
from training.measure.metrics import Figures, wilson_interval
from training.measure.tfidf import TITLE

FEW_VALIDATION_ROWS = 200
FEW_ROWS_OF_A_CLASS = 10
DOMINATING_SHARE = 0.8
_NEAR_BOUND = 1.01  # the search for a temperature ends this near to a bound


def row_cautions(
    training: Dataset, validation: Dataset, evaluated: Mapping[str, Dataset]
) -> list[str]:
    """Looks at the rows before anything is trained on them.

    Args:
        training: the training rows.
        validation: rows that choose the best epoch and the temperature.
        evaluated: other rows, by the names of their sets.

    Returns:
        Sentences for people.
    """
    cautions = []
    if len(validation) < FEW_VALIDATION_ROWS:
        low, high = wilson_interval(len(validation) // 2, len(validation))
        cautions.append(
            f"{len(validation)} validation rows are few: an accuracy near 50% on them has a 95 % "
            f"interval of {low:.0%} to {high:.0%}, and they choose the epoch and the temperature; "
            f"give {FEW_VALIDATION_ROWS} or more with --validation or --validation-share"
        )
    cautions += _few_of_a_class(training, "training rows", "the model hardly learns it")
    cautions += _few_of_a_class(validation, "validation rows", "its recall says little")
    number, count = Counter(training.label_ids).most_common(1)[0]
    if count / len(training) > DOMINATING_SHARE:
        cautions.append(
            f"{count / len(training):.1%} of the training rows are {training.labels[number]}: "
            "always answering it would be as accurate, so look at macro F1 and recall"
        )
    classes: dict[str, set[int]] = {}
    for text, label_id in zip(training.texts, training.label_ids, strict=True):
        classes.setdefault(text_key(text), set()).add(label_id)
    torn = sum(len(found) > 1 for found in classes.values())
    if torn:
        cautions.append(f"{_texts(torn)} in the training rows with more than one label")
    for name, dataset in {"validation": validation, **evaluated}.items():
        known = sum(text_key(text) in classes for text in dataset.texts)
        if known:
            cautions.append(
                f"{known:,} of the {len(dataset):,} texts of {name} are training texts too: its "
                "figures flatter the model"
            )
    return cautions


def _few_of_a_class(dataset: Dataset, rows: str, effect: str) -> list[str]:
    counts = Counter(dataset.label_ids)
    missing = [label for number, label in enumerate(dataset.labels) if not counts[number]]
    few = [
        f"{label} {counts[number]}"
        for number, label in enumerate(dataset.labels)
        if 0 < counts[number] < FEW_ROWS_OF_A_CLASS
    ]
    cautions = []
    if missing:
        cautions.append(f"no {rows} are {' or '.join(missing)}: nothing tells how well it is known")
    if few:
        cautions.append(
            f"{rows} below {FEW_ROWS_OF_A_CLASS} for a class ({', '.join(few)}): {effect}"
        )
    return cautions


def _texts(count: int) -> str:
    return "1 text is" if count == 1 else f"{count:,} texts are"


def result_cautions(
    figures: Figures,
    temperature: float,
    labels: Sequence[str],
    *,
    share: float,
    baseline: float | None,
) -> list[str]:
    """Looks at the figures of the validation rows.

    Args:
        figures: of the validation rows.
        temperature: fitted on them.
        labels: names of the classes, in their order.
        share: accuracy of always answering the most frequent class.
        baseline: accuracy of TF-IDF with logistic regression; None if it was not fitted.

    Returns:
        Sentences for people.
    """
    cautions = []
    unknown = [
        label
        for number, (label, row) in enumerate(zip(labels, figures.confusion, strict=True))
        if sum(row) >= FEW_ROWS_OF_A_CLASS and not row[number]
    ]
    if figures.interval[1] < 1 / len(labels):
        cautions.append(
            f"an accuracy of {figures.accuracy:.2%} is worse than guessing: training and "
            "validation files may number their classes in another order; see --labels"
        )
    elif figures.accuracy <= share:
        cautions.append(
            f"the model is no better than always answering the most frequent class ({share:.2%}): "
            "it has learnt nothing of use; try more --epochs, more rows or --init-from"
        )
    elif unknown:
        cautions.append(
            f"not one validation row of {' or '.join(unknown)} is recognised: try --class-weights "
            "balanced, more --epochs or more rows of the class"
        )
    if baseline is not None and baseline > figures.accuracy:
        cautions.append(
            f"{TITLE} is better on the validation rows: {baseline:.2%} against "
            f"{figures.accuracy:.2%}; try --init-from, more --epochs or more rows"
        )
    if temperature == 1.0:
        cautions.append(
            "no temperature could be fitted, because every validation row is right (or all answers "
            "are alike): the probabilities are not calibrated; give harder validation rows"
        )
    elif not LOWEST * _NEAR_BOUND < temperature < HIGHEST / _NEAR_BOUND:
        cautions.append(
            f"the temperature {temperature:.3f} is at its bound ({LOWEST} to {HIGHEST}): the "
            "probabilities are not calibrated; look at the validation rows and their labels"
        )
    return cautions

"""Writes the lines of a run: its rows, its epochs, its figures, and warnings about them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from training.data.dataset import Dataset
from training.data.validation_split import text_key
from training.measure.history import Measurement
from training.measure.metrics import HIGHEST, LOWEST, Figures, wilson_interval
from training.measure.tfidf import MOST_ROWS, TITLE


def rows_line(dataset: Dataset, purpose: str) -> str:
    """Returns the rows of each class in one line."""
    counts = Counter(dataset.label_ids)
    classes = ", ".join(
        f"{label} {counts[number]:,} ({counts[number] / len(dataset):.1%})"
        for number, label in enumerate(dataset.labels)
    )
    return f"{len(dataset):,} rows to {purpose}: {classes}"


def epoch_line(history: Sequence[Measurement], *, epochs: int) -> str:
    """Returns the last epoch of a history in one line."""
    last = history[-1]
    return (
        f"epoch {last.epoch}/{epochs}: training loss {last.training_loss:.4f}, accuracy "
        f"{last.training_accuracy:.2%}; validation loss {last.validation_loss:.4f}, accuracy "
        f"{last.validation_accuracy:.2%}{'; best' if last.is_best else ''}"
    )


def end_line(history: Sequence[Measurement], *, epochs: int, kept: int) -> str:
    """Returns how long a run took, if it stopped early, and which epoch it keeps (0: the start)."""
    stopped = ""
    if len(history) < epochs:
        without = len(history) - kept
        stopped = f"; stopped early: {without} epochs without a lower validation loss"
    return (
        f"trained {len(history)} of {epochs} epochs in {history[-1].seconds:.0f} s; keeps "
        f"{f'the weights of epoch {kept}' if kept else 'what it began with'}{stopped}"
    )


def figure_lines(name: str, figures: Figures, labels: Sequence[str]) -> list[str]:
    """Returns the figures of a set, and how many rows of each class were recognised."""
    low, high = figures.interval
    recalls = ", ".join(
        f"{label} {_recall(row, number)}"
        for number, (label, row) in enumerate(zip(labels, figures.confusion, strict=True))
    )
    return [
        f"{name}: accuracy {figures.accuracy:.2%} (95 % interval {low:.2%} to {high:.2%}, "
        f"{figures.rows:,} rows), macro F1 {figures.macro_f1:.4f}, log-loss "
        f"{figures.log_loss:.4f}, ECE {figures.ece:.4f}",
        f"  recall: {recalls}",
    ]


def _recall(row: Sequence[int], number: int) -> str:
    return f"{row[number] / sum(row):.2%} of {sum(row):,}" if sum(row) else "unknown (no rows)"


def majority(training: Dataset, validation: Dataset) -> tuple[str, float]:
    """Returns the most frequent class in training, and its share of the validation rows."""
    number, _ = Counter(training.label_ids).most_common(1)[0]
    share = validation.label_ids.count(number) / len(validation)
    return training.labels[number], share


def baseline_line(
    label: str,
    share: float,
    baseline: float | None,
    *,
    was_fitted: bool,
    start: tuple[str, float] | None = None,
) -> str:
    """Returns what the accuracy on the validation rows has to beat, such as that of the start."""
    line = f"  to beat: always {label} {share:.2%}"
    if start is not None:
        line += f", {start[0]} before training {start[1]:.2%}"
    if baseline is not None:
        return f"{line}, {TITLE} {baseline:.2%}"
    reason = "the texts have no words" if was_fitted else f"tried up to {MOST_ROWS:,} short rows"
    return f"{line}; {TITLE} left out ({reason})"


FEW_VALIDATION_ROWS = 200
FEW_ROWS_OF_A_CLASS = 10
DOMINATING_SHARE = 0.8
POOR_RECALL = 0.5
_NEAR_BOUND = 1.01  # the search for a temperature ends this near to a bound


def row_warnings(
    training: Dataset, validation: Dataset, evaluated: Mapping[str, Dataset]
) -> list[str]:
    """Returns warnings about the rows, before anything is trained on them."""
    warnings = []
    if len(validation) < FEW_VALIDATION_ROWS:
        low, high = wilson_interval(len(validation) // 2, len(validation))
        warnings.append(
            f"{len(validation)} validation rows are few: an accuracy near 50% on them has a 95 % "
            f"interval of {low:.0%} to {high:.0%}, and they choose the epoch and the temperature; "
            f"hold {FEW_VALIDATION_ROWS} or more back"
        )
    warnings += _few_of_a_class(training, "training rows", "the model hardly learns it")
    warnings += _few_of_a_class(validation, "validation rows", "its recall says little")
    number, count = Counter(training.label_ids).most_common(1)[0]
    if count / len(training) > DOMINATING_SHARE:
        warnings.append(
            f"{count / len(training):.1%} of the training rows are {training.labels[number]}: "
            "always answering it would be as accurate, so look at macro F1 and recall"
        )
    classes: dict[str, set[int]] = {}
    for text, label_id in zip(training.texts, training.label_ids, strict=True):
        classes.setdefault(text_key(text), set()).add(label_id)
    torn = sum(len(found) > 1 for found in classes.values())
    if torn:
        texts = "1 text is" if torn == 1 else f"{torn:,} texts are"
        warnings.append(f"{texts} in the training rows with more than one label")
    for name, dataset in {"validation": validation, **evaluated}.items():
        known = sum(text_key(text) in classes for text in dataset.texts)
        if known:
            warnings.append(
                f"{known:,} of the {len(dataset):,} texts of {name} are training texts too: its "
                "figures flatter the model"
            )
    return warnings


def _few_of_a_class(dataset: Dataset, rows: str, effect: str) -> list[str]:
    counts = Counter(dataset.label_ids)
    missing = [label for number, label in enumerate(dataset.labels) if not counts[number]]
    few = [
        f"{label} {counts[number]}"
        for number, label in enumerate(dataset.labels)
        if 0 < counts[number] < FEW_ROWS_OF_A_CLASS
    ]
    warnings = []
    if missing:
        warnings.append(f"no {rows} are {' or '.join(missing)}: nothing shows how well it is known")
    if few:
        warnings.append(
            f"{rows} below {FEW_ROWS_OF_A_CLASS} for a class ({', '.join(few)}): {effect}"
        )
    return warnings


def result_warnings(
    figures: Figures,
    temperature: float,
    labels: Sequence[str],
    *,
    share: float,
    baseline: float | None,
    start: tuple[str, float] | None = None,
    is_balanced: bool = False,
    is_pretrained: bool = False,
) -> list[str]:
    """Returns warnings about the figures of the validation rows."""
    warnings = [] if is_balanced else _poor_recalls(figures, labels)
    more = "more rows" if is_pretrained else "pretrained weights or more rows"
    unknown = [
        label
        for number, (label, row) in enumerate(zip(labels, figures.confusion, strict=True))
        if sum(row) >= FEW_ROWS_OF_A_CLASS and not row[number]
    ]
    if figures.interval[1] < 1 / len(labels):
        warnings.append(
            f"an accuracy of {figures.accuracy:.2%} is worse than guessing: training and "
            "validation files may number their classes in another order"
        )
    elif figures.accuracy <= share:
        warnings.append(
            f"the model is no better than always answering the most frequent class ({share:.2%}): "
            f"it has learnt nothing of use; look at the labels, and try {more}"
        )
    elif figures.interval[0] <= share:
        warnings.append(
            f"the validation rows do not show that the model is better than always answering the "
            f"most frequent class ({share:.2%}): its interval begins at {figures.interval[0]:.2%}"
        )
    elif unknown:
        warnings.append(
            f"not one validation row of {' or '.join(unknown)} is recognised: try "
            f"{'' if is_balanced else 'balanced class weights or '}more rows of the class"
        )
    if baseline is not None and baseline > figures.accuracy:
        warnings.append(
            f"{TITLE} is better on the validation rows: {baseline:.2%} against "
            f"{figures.accuracy:.2%}; try {more}"
        )
    if start is not None and start[1] > figures.accuracy:
        warnings.append(
            f"{start[0]} is better on the validation rows as it is: {start[1]:.2%} against "
            f"{figures.accuracy:.2%}; try a lower learning rate or more rows"
        )
    if temperature == 1.0:
        warnings.append(
            "no temperature could be fitted, because every validation row is right (or all answers "
            "are alike): the probabilities are not calibrated; give harder validation rows"
        )
    elif not LOWEST * _NEAR_BOUND < temperature < HIGHEST / _NEAR_BOUND:
        warnings.append(
            f"the temperature {temperature:.3f} is at its bound ({LOWEST} to {HIGHEST}): the "
            "probabilities are not calibrated; look at the validation rows and their labels"
        )
    return warnings


def _poor_recalls(figures: Figures, labels: Sequence[str]) -> list[str]:
    """Advises weights for classes that are rare and mostly, but not always, taken for others."""
    poor = [
        f"{label} ({_recall(row, number)})"
        for number, (label, row) in enumerate(zip(labels, figures.confusion, strict=True))
        if FEW_ROWS_OF_A_CLASS <= sum(row) < figures.rows / len(labels)
        and 0 < row[number] < POOR_RECALL * sum(row)
    ]
    if not poor:
        return []
    return [
        f"few validation rows are recognised of {' and '.join(poor)}, rarer than the other "
        "classes: try balanced class weights"
    ]

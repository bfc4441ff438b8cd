"""Writes what a run tells people: its rows, one line an epoch, and the figures at the end."""

from collections import Counter
from collections.abc import Sequence

from training.data.dataset import Dataset
from training.measure.history import Measurement
from training.measure.metrics import Figures
from training.measure.tfidf import MOST_ROWS, TITLE


def rows_line(dataset: Dataset, purpose: str) -> str:
    """Counts the rows of each class.

    Args:
        dataset: one row or more.
        purpose: what the rows are for, after "rows to".
    """
    counts = Counter(dataset.label_ids)
    classes = ", ".join(
        f"{label} {counts[number]:,} ({counts[number] / len(dataset):.1%})"
        for number, label in enumerate(dataset.labels)
    )
    return f"{len(dataset):,} rows to {purpose}: {classes}"


def epoch_line(history: Sequence[Measurement], *, epochs: int) -> str:
    """Tells the last epoch of a history.

    Args:
        history: one measurement or more.
        epochs: of the whole run, unless it stops early.
    """
    *before, last = history
    is_best = all(last.validation_loss < past.validation_loss for past in before)
    return (
        f"epoch {last.epoch}/{epochs}: training loss {last.training_loss:.4f}, accuracy "
        f"{last.training_accuracy:.2%}; validation loss {last.validation_loss:.4f}, accuracy "
        f"{last.validation_accuracy:.2%}{'; best' if is_best else ''}"
    )


def end_line(history: Sequence[Measurement], *, epochs: int, keeps_best: bool) -> str:
    """Tells how long a run took, whether it stopped early, and which weights it keeps.

    Args:
        history: of the whole run.
        epochs: that it could have had.
        keeps_best: whether it keeps the weights of the best epoch, else those of the last.
    """
    best = min(history, key=lambda measurement: measurement.validation_loss).epoch
    kept = best if keeps_best else history[-1].epoch
    stopped = ""
    if len(history) < epochs:
        without = len(history) - best
        stopped = f"; stopped early: {without} epochs without a lower validation loss"
    return (
        f"trained {len(history)} of {epochs} epochs in {history[-1].seconds:.0f} s; keeps the "
        f"weights of epoch {kept}{stopped}"
    )


def figure_lines(name: str, figures: Figures, labels: Sequence[str]) -> list[str]:
    """Tells the figures of a set, and how many rows of each class were recognised.

    Args:
        name: of the set.
        figures: its metrics.
        labels: names of the classes, in their order.
    """
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
    """Returns the most frequent class of the training rows, and its share of the validation rows.

    It is what an answer that is always the same is worth.
    """
    number, _ = Counter(training.label_ids).most_common(1)[0]
    share = validation.label_ids.count(number) / len(validation)
    return training.labels[number], share


def baseline_line(label: str, share: float, baseline: float | None, *, was_fitted: bool) -> str:
    """Tells what the accuracy on the validation rows has to beat.

    Args:
        label: the most frequent class.
        share: accuracy of always answering it.
        baseline: accuracy of TF-IDF; None if it has none.
        was_fitted: whether the baseline was tried; it is not where there are many rows.
    """
    told = f"  to beat: always {label} {share:.2%}"
    if baseline is not None:
        return f"{told}, {TITLE} {baseline:.2%}"
    reason = "the texts have no words" if was_fitted else f"tried up to {MOST_ROWS:,} short rows"
    return f"{told}; {TITLE} left out ({reason})"

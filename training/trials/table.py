"""Writes what people read of a search: a line for each trial, the table, and what to doubt."""

from collections.abc import Mapping, Sequence

from training.trials.search import Trial, ranked
from training.trials.space import Values, told_name

_DIVERGED = "diverged"


def trial_line(trial: Trial, count: int) -> str:
    """Tells how a trial went."""
    return f"trial {trial.trial} of {count}: {told_values(trial.values)}: {_result(trial)}"


def best_line(trial: Trial) -> str:
    """Tells which trial is the best."""
    return f"best: trial {trial.trial}, {told_values(trial.values)}: {_result(trial)}"


def told_values(values: Values) -> str:
    """Tells the values of a trial."""
    return ", ".join(f"{told_name(name)} {value:g}" for name, value in values.items())


def _result(trial: Trial) -> str:
    if trial.loss is None:
        return "the run diverged"
    return (
        f"{_loss_name(trial)} {_loss(trial)}, accuracy {trial.accuracy:.2%}, macro F1 "
        f"{trial.macro_f1:.4f}"
    )


def _loss_name(trial: Trial) -> str:
    return "validation loss" if trial.deviation is None else "log-loss of the folds"


def _loss(trial: Trial) -> str:
    if trial.loss is None:
        return _DIVERGED
    spread = "" if trial.deviation is None else f" ± {trial.deviation:.4f}"
    return f"{trial.loss:.4f}{spread}"


def table_lines(trials: Sequence[Trial]) -> list[str]:
    """Lists the trials, the best first.

    Args:
        trials: one or more, with values of the same fields.

    Returns:
        A line of headings, and one for each trial.
    """
    first = ranked(trials)[0]
    head = ["trial", *map(told_name, first.values), _loss_name(first), "accuracy", "macro F1"]
    table = [[*head, "epoch", "seconds"]]
    for trial in ranked(trials):
        values = [f"{trial.values[name]:g}" for name in first.values]
        figures = (
            ["-", "-"]
            if trial.accuracy is None
            else [f"{trial.accuracy:.2%}", f"{trial.macro_f1:.4f}"]
        )
        epoch = "-" if trial.epoch is None else str(trial.epoch)
        table.append(
            [str(trial.trial), *values, _loss(trial), *figures, epoch, f"{trial.seconds:.0f}"]
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in table
    ]


def cautions(
    trials: Sequence[Trial], best: Trial, tried: Mapping[str, Sequence[float]]
) -> list[str]:
    """Says what the figures of the best trial hide.

    Args:
        trials: all of them.
        best: of them.
        tried: the values of each field.

    Returns:
        Sentences for people.
    """
    found = [
        f"the best of {len(trials)} trials is chosen by the rows that measure it, so its figures "
        "are optimistic: measure it on rows that chose nothing, with --evaluate FILE"
    ]
    for name, values in tried.items():
        for place, side, way in (
            (min(values), "lowest", "lower"),
            (max(values), "highest", "higher"),
        ):
            if best.values[name] == place:
                found.append(
                    f"{told_name(name)}: the best value, {place:g}, is the {side} that was tried: "
                    f"try {way} ones too"
                )
    return found

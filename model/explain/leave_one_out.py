"""Computes what each unit of a text adds to a prediction: the change when it is left out.

The network reads the text without the unit's tokens (Li, Monroe and Jurafsky 2016), so forward
passes are enough. The predictions of windows are joined as those of the whole text. Where nothing
of the text is left, the prediction is that of an empty text.
"""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from model.explain.pictures import Shares
from model.explain.units import TextUnits, Unit
from model.types import Choice, Prediction


@dataclass(frozen=True, slots=True)
class UnitChange:
    """A label's probability and log-odds without a unit, and how much more the whole text has.

    Args:
        start: offset of the unit's first character, in Unicode code points; `end` is behind it.
    """

    start: int
    end: int
    text: str
    probability: float
    log_odds: float
    probability_change: float
    log_odds_change: float


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LeaveOutAttribution(Shares):
    """What each unit of a text adds to the probability and the log-odds of a label.

    Its `tokens` are an entry for each of `units`, between the special tokens, and `attributions`
    the changes of the log-odds. Units act together, or are missing: hence the `gap`.

    Args:
        units: in the order of the text. A sentence stands for its units if none of them, but the
            sentence was computed.
        partial: whether a unit is missing.
    """

    units: tuple[UnitChange, ...]
    partial: bool
    method: Literal["leave_out"] = "leave_out"
    steps: None = None

    def __repr__(self) -> str:
        return f"LeaveOutAttribution(of {self.label!r}, {len(self.units)} units)"


class LeaveOut:
    """The attribution of one prediction, in portions: `take` and `add`, again and again.

    Args:
        whole: predictions of its windows, then of an empty text.
        label: the class to explain; None means the predicted one.
        choice: the labels to choose among; None means all.

    Raises:
        ValueError: the model has no such label.
    """

    def __init__(
        self,
        text: TextUnits,
        whole: Sequence[Prediction],
        *,
        temperature: float,
        label: str | None = None,
        choice: Choice | None = None,
    ) -> None:
        self._choice = choice
        *self._windows, self._nothing = map(self._narrow, whole)
        self.text = text
        self._temperature = temperature if choice is None else choice.temperature
        self._prediction = self._join(self._windows)
        self._label = self._prediction.best if label is None else label
        if self._label not in (labels := self._prediction.probabilities):
            raise ValueError(f"label {label!r} does not exist: the model has {', '.join(labels)}")
        self._value = self._log_odds(self._prediction)
        # By the tokens of a unit, the windows without it that are left of those that hold some.
        self._found: dict[range, dict[int, Prediction]] = {}
        self._is_divided = False

    @property
    def has_found(self) -> bool:
        """Whether a unit was computed."""
        return bool(self._found)

    def take(self, most_tokens: float = math.inf) -> list[Unit]:
        """Returns what to compute next, of at most so many tokens but one unit at least.

        That is all units, if they fit at once. Else it is sentences first, then the units of those
        whose absence changes most. In the end nothing is left.
        """
        units = self._missing(self.text.units)
        if not self._is_divided and sum(map(self.text.count_tokens, units)) <= most_tokens:
            return units
        self._is_divided = True
        return self.text.fit(self._missing(self.text.sentences) or self._by_change(), most_tokens)

    def add(self, units: Iterable[Unit], predictions: Iterable[Prediction | None]) -> None:
        """Takes the predictions of a text without some units, as `TextUnits.without` orders it.

        A unit that lacks one counts as not computed.
        """
        remaining = iter(predictions)
        for unit in units:
            read = [number for number, cut in self.text.cuts(unit) if not cut.is_all]
            pairs = [(number, next(remaining)) for number in read]
            found = {number: self._narrow(each) for number, each in pairs if each is not None}
            if len(found) == len(read):
                self._found[unit.tokens] = found

    def finish_in_steps(self) -> Generator[None, None, LeaveOutAttribution]:
        """Joins all that was computed; yields after each unit, so that others can go between."""
        changes: dict[Unit, UnitChange] = {}
        for sentence in self.text.sentences:
            inside = self._computed(self.text.inside(sentence))
            for unit in inside or self._computed([sentence]):
                yield
                changes[unit] = self._change(unit)
        before, behind = self.text.before, self.text.behind
        shown = [change.log_odds_change for change in changes.values()]
        return LeaveOutAttribution(
            prediction=self._prediction,
            label=self._label,
            tokens=(*before, *(unit.entry for unit in changes), *behind),
            attributions=np.array([0.0] * len(before) + shown + [0.0] * len(behind)),
            units=tuple(changes.values()),
            value=self._value,
            baseline_value=self._log_odds(self._nothing),
            partial=bool(self._missing(self.text.units)),
        )

    def _change(self, unit: Unit) -> UnitChange:
        start, end = unit.entry.start, unit.entry.end
        windows = dict(enumerate(self._windows)) | self._found[unit.tokens]
        for number, cut in self.text.cuts(unit):
            if cut.is_all:
                del windows[number]
        without = self._join(list(windows.values()) or [self._nothing])
        probability, value = without.probabilities[self._label], self._log_odds(without)
        return UnitChange(
            start,
            end,
            self.text.text[start:end],
            probability,
            value,
            self._prediction.probabilities[self._label] - probability,
            self._value - value,
        )

    def _by_change(self) -> list[Unit]:
        """The missing units, those of the sentence first whose absence changes most."""
        changes = {each: abs(self._change(each).log_odds_change) for each in self.text.sentences}
        order = sorted(changes, key=changes.__getitem__, reverse=True)
        return self._missing(unit for each in order for unit in self.text.inside(each))

    def _join(self, windows: Sequence[Prediction]) -> Prediction:
        return Prediction.of_windows(windows, temperature=self._temperature)

    def _narrow(self, prediction: Prediction) -> Prediction:
        return prediction if self._choice is None else self._choice.narrow(prediction)

    def _log_odds(self, prediction: Prediction) -> float:
        return prediction.log_odds(self._label, temperature=self._temperature)

    def _missing(self, units: Iterable[Unit]) -> list[Unit]:
        return [unit for unit in units if unit.tokens not in self._found]

    def _computed(self, units: Iterable[Unit]) -> list[Unit]:
        return [unit for unit in units if unit.tokens in self._found]

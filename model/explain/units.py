"""Divides a text into units, its words, sentences or tokens, and leaves each of them out of it.

A unit's tokens leave each window that holds some of them; the windows stay where they are. A window
of which nothing is left is not read.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from model.tokenization.tokenizer import window_step
from model.tokenization.words import group_words, join_tokens
from model.types import Encoding, Span, Token

UnitLevel = Literal["token", "word", "sentence"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text: its entry, and its tokens by their indices without special ones."""

    entry: Token
    tokens: range


class Cut(NamedTuple):
    """The tokens of a window that are left out, by their positions among its own; maybe all."""

    start: int
    stop: int
    is_all: bool


class TextUnits:
    """The units of one text, and the sentences that they are in; those that the model reads.

    Args:
        windows: the text, encoded with its tokens; one unless it is read in windows.
        sentences: where the text's sentences stand, at least one.

    Raises:
        ValueError: the text was encoded without its tokens.
    """

    def __init__(
        self,
        windows: Sequence[Encoding],
        nothing: Encoding,
        sentences: Sequence[Span],
        *,
        level: UnitLevel = "word",
    ) -> None:
        text = windows[0].text
        if text is None:
            raise ValueError("which tokens there are is not known: encode with with_tokens=True")
        self.text = text
        self.windows = windows
        self.nothing = nothing
        own = [[not token.special for token in window.tokens or ()] for window in windows]
        self._leading = [each.index(True) if any(each) else 0 for each in own]
        self._counts = [sum(each) for each in own]
        self._step = window_step(self._counts[0]) if len(windows) > 1 else max(self._counts[0], 1)
        self._tokens: list[Token] = []
        for number in range(len(windows)):
            read = self._parts_of(number)[1]
            self._tokens += read[len(self._tokens) - number * self._step :]
        self.before, self.behind = self._parts_of(0)[0], self._parts_of(len(windows) - 1)[2]
        self.sentences = self._find_sentences(sentences)
        self.units = self._find_units(level)
        starts = [sentence.tokens.start for sentence in self.sentences]
        by_sentence = groupby(self.units, lambda unit: bisect_right(starts, unit.tokens.start) - 1)
        self._inside = {self.sentences[at].tokens: tuple(units) for at, units in by_sentence}

    @property
    def whole(self) -> list[Encoding]:
        """What shows the changes: the text, and an empty one."""
        return [*self.windows, self.nothing]

    def inside(self, sentence: Unit) -> tuple[Unit, ...]:
        """Returns the units that begin in a sentence."""
        return self._inside.get(sentence.tokens, ())

    def count_tokens(self, unit: Unit) -> int:
        """Counts the tokens that go through the network to leave a unit out."""
        return sum(
            len(self.windows[number].input_ids) - (cut.stop - cut.start)
            for number, cut in self.cuts(unit)
            if not cut.is_all
        )

    def fit(self, units: Iterable[Unit], most_tokens: float) -> list[Unit]:
        """Returns the first units that take at most so many tokens, but at least one."""
        fitting: list[Unit] = []
        for unit in units:
            most_tokens -= self.count_tokens(unit)
            if fitting and most_tokens < 0:
                break
            fitting.append(unit)
        return fitting

    def without(self, units: Iterable[Unit]) -> list[Encoding]:
        """Returns for each unit the windows that hold some of it, without it, unless it is all."""
        return [
            self._cut_out(number, cut)
            for unit in units
            for number, cut in self.cuts(unit)
            if not cut.is_all
        ]

    def cuts(self, unit: Unit) -> Iterator[tuple[int, Cut]]:
        """Yields the number of each window that holds tokens of a unit, and these tokens."""
        tokens, step = unit.tokens, self._step
        first = max(0, (tokens.start - self._counts[0]) // step + 1)
        for number in range(first, min(len(self.windows), (tokens.stop - 1) // step + 1)):
            low = max(tokens.start - number * step, 0)
            high = min(tokens.stop - number * step, self._counts[number])
            if low < high:
                yield number, Cut(low, high, is_all=high - low == self._counts[number])

    def _cut_out(self, number: int, cut: Cut) -> Encoding:
        window, leading = self.windows[number], self._leading[number]
        ids = window.input_ids
        kept = ids[: leading + cut.start] + ids[leading + cut.stop :]
        return Encoding(kept, truncated=window.truncated)

    def _parts_of(self, number: int) -> tuple[tuple[Token, ...], ...]:
        """The tokens of a window: special ones, its own, special ones again."""
        tokens = self.windows[number].tokens or ()
        start = self._leading[number]
        stop = start + self._counts[number]
        return tokens[:start], tokens[start:stop], tokens[stop:]

    def _find_units(self, level: UnitLevel) -> tuple[Unit, ...]:
        if level == "sentence":
            return self.sentences
        if level == "token":
            return tuple(Unit(each, range(at, at + 1)) for at, each in enumerate(self._tokens))
        words = group_words(self.text, self._tokens)
        return tuple(
            Unit(entry, range(group[0], group[-1] + 1))
            for entry, group in zip(words.tokens, words.groups, strict=True)
        )

    def _find_sentences(self, spans: Sequence[Span]) -> tuple[Unit, ...]:
        """The sentences, each as far as the model reads it."""
        ends = [span.end for span in spans]
        sentences = [min(bisect_right(ends, each.start), len(spans) - 1) for each in self._tokens]
        units: list[Unit] = []
        for number, group in groupby(range(len(sentences)), sentences.__getitem__):
            indices = list(group)
            tokens = self._tokens[indices[0] : indices[-1] + 1]
            start, end = spans[number].start, spans[number].end
            if self.windows[0].truncated:
                read = join_tokens(self.text, tokens)
                start, end = max(start, read.start), min(end, read.end)
            entry = Token(self.text[start:end], start, end, special=False, word=tokens[0].word)
            units.append(Unit(entry, range(indices[0], indices[-1] + 1)))
        return tuple(units)

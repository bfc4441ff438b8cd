"""What changes without each word, sentence or token, computed at once and in portions."""

import json
from collections.abc import Iterable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import Encoding, LeaveOut, Prediction, Predictor, leave_each_out, leave_out
from model.explain.units import TextUnits, UnitLevel
from model.reading import finish
from model.tokenization.reader import load_tokenizer
from model.tokenization.sentences import find_sentences
from model.types import Span
from tests.builders import MAX_LENGTH, WORDS, tiny_manifest
from tests.families import FAMILIES, TEXTS, tokenizer_of
from tests.matching import exactly

TEMPERATURE = tiny_manifest().temperature
ROOM = MAX_LENGTH - 2
CLOSE = 1e-6
LEVELS: list[UnitLevel] = ["token", "word", "sentence"]
PIECES = st.sampled_from([*WORDS, "films", "naïve", "\U0001f600", "!", ".", "?", "日本", "\u200b"])
RANDOM = (
    st.lists(PIECES, min_size=1, max_size=12)
    .map(" ".join)
    .filter(lambda text: text.strip("\u200b "))
)


def close(value: Any) -> Any:  # noqa: ANN401 - whatever pytest makes
    return pytest.approx(value, abs=CLOSE)


@settings(max_examples=60)
@given(text=RANDOM, level=st.sampled_from(LEVELS), data=st.data())
def test_a_unit_has_what_the_text_has_without_its_tokens(
    predictor: Predictor, text: str, level: UnitLevel, data: st.DataObject
) -> None:
    encoding = predictor.encode(text, with_tokens=True)
    tokens = encoding.tokens or ()
    found = leave_each_out(predictor, text, level=level, label="positive")
    (whole,) = predictor.predict([encoding])
    assert found.prediction.probabilities == close(whole.probabilities)
    assert not found.partial
    assert all(first.end <= second.start for first, second in pairwise(found.units))

    unit = data.draw(st.sampled_from(found.units)) if found.units else None
    own = [at for at, token in enumerate(tokens) if not token.special]
    if unit is None:
        assert own == []
        assert found.gap == close(0)
        return
    inside = [at for at in own if unit.start <= tokens[at].start < unit.end]
    assert unit.text == text[unit.start : unit.end]
    left = (
        leave_out(encoding, inside) if len(inside) < len(own) else Encoding([2, 3], truncated=False)
    )
    (without,) = predictor.predict([left])
    if len(inside) == len(own):
        assert unit.log_odds == found.baseline_value
    assert unit.probability == close(without.probabilities["positive"])
    assert unit.log_odds == close(np.log(unit.probability / (1 - unit.probability)))
    assert unit.probability_change == close(whole.probabilities["positive"] - unit.probability)
    assert unit.log_odds_change == close(found.value - unit.log_odds)


def test_an_entry_stands_for_each_unit_between_the_special_tokens(predictor: Predictor) -> None:
    text = "a good films\U0001f600, not. A  dull one"
    for level, texts in {
        "token": ["a", "good", "film", "s\U0001f600", ",", "not", ".", "A", "dull", "one"],
        "word": ["a", "good", "films\U0001f600,", "not.", "A", "dull", "one"],
        "sentence": ["a good films\U0001f600, not.", "A  dull one"],
    }.items():
        found = leave_each_out(predictor, text, level=level)  # type: ignore[arg-type]
        if level != "token":  # the vocabulary spells some of them otherwise
            assert [unit.text for unit in found.units] == texts
            assert [each.text for each in found.tokens] == ["[CLS]", *texts, "[SEP]"]
        changes = [unit.log_odds_change for unit in found.units]
        assert found.attributions.tolist() == [0, *changes, 0]
        assert found.gap == close(found.value - found.baseline_value - sum(changes))
        assert found.label == found.prediction.label


@pytest.mark.parametrize("level", LEVELS)
def test_a_unit_leaves_each_window_that_holds_it(predictor: Predictor, level: UnitLevel) -> None:
    sentences = ["good film and plot.", "it was boring " * 16 + ".", "great cast!", "not weak"] * 2
    text = " ".join(sentences)
    windows = predictor.encode_windows(text, with_tokens=True)
    assert len(windows) > 4
    assert windows == [predictor.encode_window(text, at) for at in range(len(windows))]
    found = leave_each_out(predictor, text, level=level, truncation="window", max_batch_tokens=99)

    whole = Prediction.of_windows(predictor.predict(windows), temperature=TEMPERATURE)
    assert found.prediction.probabilities == close(whole.probabilities)
    assert found.tokens[0].special
    assert "".join("".join(unit.text for unit in found.units).split()) == "".join(text.split())
    for unit in found.units:
        kept = [
            Encoding(ids, truncated=False)
            for window in windows
            if len(ids := outside(window, unit.start, unit.end)) > 2
        ]
        without = Prediction.of_windows(predictor.predict(kept), temperature=TEMPERATURE)
        assert unit.probability == close(without.probabilities[found.label])


def outside(window: Encoding, start: int, end: int) -> list[int]:
    """The ids of a window but those between two offsets."""
    pairs = zip(window.input_ids, window.tokens or (), strict=True)
    return [number for number, token in pairs if token.special or not start <= token.start < end]


def test_of_a_cut_text_only_what_was_read_is_left_out(predictor: Predictor) -> None:
    text = "Not a good film. " + "very " * 26 + "long. It was dull."
    for truncation, at, word in (("right", 0, "Not"), ("left", -1, "dull.")):
        words = leave_each_out(predictor, text, truncation=truncation)  # type: ignore[arg-type]
        sentences = leave_each_out(predictor, text, level="sentence", truncation=truncation)  # type: ignore[arg-type]
        assert words.prediction.truncated
        assert words.units[at].text == sentences.units[at].text.split()[at] == word
        assert len(words.units) < len(text.split())
        assert words.units[0].start == sentences.units[0].start
        assert words.units[-1].end == sentences.units[-1].end


@pytest.mark.parametrize("kind", FAMILIES)
def test_of_any_tokenizer_each_token_is_in_one_unit(kind: str, tmp_path: Path) -> None:
    tokenizer_of(kind).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    tokenizer = load_tokenizer(tmp_path, max_length=ROOM)
    large = load_tokenizer(tmp_path, max_length=1000)
    for text, level in product(TEXTS, LEVELS):
        windows = tokenizer.encode_windows(text, max_windows=64, with_tokens=True)
        found = TextUnits(
            windows, tokenizer.encode(""), [*filter(None, find_sentences(text))], level=level
        )
        in_units = [at for unit in found.units for at in unit.tokens]
        assert in_units == list(range(len(large.encode(text).input_ids) - 2))
        assert [unit for each in found.sentences for unit in found.inside(each)] == [*found.units]
        assert sum(map(found.count_tokens, found.units)) == sum(
            len(each.input_ids) for each in found.without(found.units)
        )


# In portions. What the texts say does not matter here.
TEXT = "a b c. d e f. g h."
SPANS = [Span(0, 6), Span(7, 13), Span(14, 18)]


def said(logit: float) -> Prediction:
    probability = 1 / (1 + np.exp(-logit / TEMPERATURE))
    probabilities = {"negative": 1 - probability, "positive": probability}
    return Prediction("positive", probability, probabilities, 3, False, [0.0, logit])


def begin(predictor: Predictor) -> LeaveOut:
    encoding = predictor.encode(TEXT, with_tokens=True)
    text = TextUnits([encoding], predictor.encode_nothing(), SPANS)
    return LeaveOut(text, [said(1.0), said(0.0)], temperature=TEMPERATURE, label="positive")


def texts_of(units: Iterable[Any]) -> list[str]:
    return [getattr(unit, "entry", unit).text for unit in units]


def test_all_units_go_at_once_if_they_fit(predictor: Predictor) -> None:
    work = begin(predictor)
    assert not work.has_found
    units = work.take(8 * 12)
    assert texts_of(units) == TEXT.split()
    work.add(units, [said(0.5)] * 8)
    assert work.take(1) == []
    assert work.has_found
    found = finish(work.finish_in_steps())
    assert (texts_of(found.units), found.partial) == (TEXT.split(), False)
    assert {unit.log_odds_change for unit in found.units} == {0.5 / TEMPERATURE}


def test_else_sentences_first_then_the_words_of_those_that_moved_most(predictor: Predictor) -> None:
    work = begin(predictor)
    sentences = work.take(30)
    assert texts_of(sentences) == ["a b c.", "d e f.", "g h."]
    assert work.take(8) == work.take(1) == sentences[:1]  # one at least, until it is there
    work.add(sentences, [said(1.5), said(-3.0), said(1.0)])
    first = work.take(25)
    assert texts_of(first) == ["d", "e"]
    # The second is not there in time.
    work.add(first, [said(0.0), None])
    assert texts_of(work.take(1000)) == ["e", "f.", "a", "b", "c.", "g", "h."]
    part = finish(work.finish_in_steps())
    assert (texts_of(part.units), part.partial) == (["a b c.", "d", "g h."], True)
    assert texts_of(part.tokens) == ["[CLS]", "a b c.", "d", "g h.", "[SEP]"]

    rest = work.take(1000)
    work.add(rest, [said(0.0)] * len(rest))
    whole = finish(work.finish_in_steps())
    assert (texts_of(whole.units), whole.partial) == (TEXT.split(), False)


def test_a_label_must_be_one_of_the_model(predictor: Predictor) -> None:
    message = "label 'fair' does not exist: the model has negative, positive"
    with pytest.raises(ValueError, match=exactly(message)):
        leave_each_out(predictor, "good", label="fair")
    with pytest.raises(ValueError, match="encode with with_tokens=True"):
        TextUnits([predictor.encode("good")], predictor.encode_nothing(), SPANS)

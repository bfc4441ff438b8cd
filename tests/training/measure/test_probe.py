"""How a model behaves: asked of models whose behaviour is known."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import pytest
from numpy.typing import NDArray

from training.measure import probe as module
from training.measure.probe import Poles, Probe, find_poles, probe
from training.synth.templates import make_examples, read_templates

TEXTS = [f"I do not think it's a good film, number {number}." for number in range(40)]


def load(name: str) -> dict[str, list[str]]:
    text = (files("training") / "synth" / "rules" / f"{name}.toml").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = tomllib.loads(text)["lists"]
    return lists


def sentences(name: str) -> set[str]:
    """All templates and sentences of a file, in small letters."""
    text = (files("training") / "synth" / "rules" / f"{name}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    return {
        sentence.lower()
        for kind in [*content["kinds"], *content.get("said", ())]
        for label in ("positive", "negative", "neutral")
        for sentence in kind.get(label, ())
    }


def letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


GOOD = load("probes")["good"]
THUMBS = "Two thumbs up from the whole back row."


def of_two(positive: Sequence[float]) -> NDArray[np.float64]:
    """Probabilities of the negative and the positive class, [N, 2]."""
    found = np.array(positive, dtype=np.float64)
    return np.stack([1 - found, found], axis=1)


def says_positive(texts: Sequence[str]) -> NDArray[np.float64]:
    return of_two([0.9] * len(texts))


def counts_words(texts: Sequence[str]) -> NDArray[np.float64]:
    """Knows the good words and nothing else, whatever their case."""
    return of_two([0.8 if any(word in text.lower() for word in GOOD) else 0.2 for text in texts])


def by_name(found: Sequence[Probe], test: str) -> dict[str, Probe]:
    return {item.name: item for item in found if item.test == test}


def test_a_model_that_always_says_the_same_is_half_right_and_never_moved() -> None:
    found = probe(says_positive, TEXTS)

    for item in by_name(found, "label").values():
        assert 0.4 < item.passed / item.rows < 0.6
        assert item.shift is None
    for item in by_name(found, "change").values():
        assert (item.passed, item.shift, item.lean) == (item.rows, 0.0, None)
    for item in by_name(found, "group").values():
        assert item.passed == item.rows
        assert item.lean == pytest.approx(0.0)


def test_a_model_that_counts_words_fails_at_negation() -> None:
    labels = by_name(probe(counts_words, TEXTS), "label")

    assert labels["plain"].passed == labels["plain"].rows
    assert labels["negation near"].passed == 0
    assert labels["negation far"].passed == 0
    assert 0.4 < labels["change of mind"].passed / labels["change of mind"].rows < 0.6


def test_each_test_draws_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = probe(counts_words, TEXTS)
    text = read_templates("probes")
    start = text.index('[[kinds]]\nname = "negation near"')
    end = text.index('[[kinds]]\nname = "negation far"')
    shorter = text[:start] + text[end:]
    monkeypatch.setattr(module, "read_templates", lambda _: shorter)

    assert probe(counts_words, TEXTS) == [item for item in whole if item.name != "negation near"]


def test_a_model_that_minds_names_is_found_out() -> None:
    def minds(texts: Sequence[str]) -> NDArray[np.float64]:
        return of_two([0.4 if "Jamal" in text else 0.6 for text in texts])

    changes = by_name(probe(minds, TEXTS), "change")

    names = changes["given names"]
    assert names.passed == names.rows * 18 // 19  # one of the nineteen others
    assert names.shift == pytest.approx(0.2 / 19)
    assert changes["groups of people"].shift == 0.0
    groups = by_name(probe(minds, TEXTS), "group")
    # One of four members, against a mean that is a twentieth of it lower.
    assert groups["given names: african american"].lean == pytest.approx(-0.2 / 4 + 0.2 / 20)
    assert groups["given names: african american"].passed * 4 == 3 * 160
    assert groups["given names: asian"].lean == pytest.approx(0.2 / 20)
    assert groups["groups of people: religion"].lean == pytest.approx(0.0)
    assert changes["capitals"].shift == 0.0


def test_every_change_is_asked_of_the_texts_that_it_changes() -> None:
    changes = by_name(probe(says_positive, TEXTS), "change")

    assert changes["apostrophes"].rows == 40
    assert changes["short and long forms"].rows == 40
    assert by_name(probe(says_positive, ["so so"]), "change")["apostrophes"].rows == 0


@pytest.mark.parametrize("trained", ["behaviours", "everyday"])
def test_what_is_asked_is_not_what_is_trained_on(trained: str) -> None:
    asked, known = load("probes"), load(trained)

    for name in ("good", "bad", "thing", "part"):
        assert not set(asked[name]) & set(known[name])
    assert not sentences("probes") & sentences(trained)


def test_a_sentence_that_somebody_wrote_is_asked_once_with_its_label() -> None:
    asked: list[str] = []

    def notes(texts: Sequence[str]) -> NDArray[np.float64]:
        asked.extend(texts)
        return of_two([0.9 if text == THUMBS else 0.1 for text in texts])

    labels = by_name(probe(notes, TEXTS), "label")

    assert asked.count(THUMBS) == asked.count("Thumbs down from all four kids.") == 1
    assert (labels["marks"].rows, labels["marks"].passed) == (16, 9)  # 8 of them negative


@pytest.mark.parametrize("trained", ["behaviours", "everyday", "neutral", "service"])
def test_no_filled_template_is_a_sentence_that_is_asked(trained: str) -> None:
    made = {letters(example.text) for example in make_examples(20_000, seed=0, name=trained)}

    assert not made & {letters(sentence) for sentence in sentences("probes")}


@pytest.mark.parametrize(
    ("labels", "poles"),
    [
        (("negative", "positive"), Poles(0, 1)),
        (("Positive", "neutral", "Negative"), Poles(2, 0, 1)),
        (("no", "yes"), Poles(0, 1)),
        (("1", "2", "3"), None),
        (("negative", "neutral", "good"), None),
    ],
)
def test_the_poles_are_found_by_their_names(labels: tuple[str, ...], poles: Poles | None) -> None:
    assert find_poles(labels) == poles


def test_neutral_sentences_are_asked_where_there_is_such_a_class() -> None:
    def says_neutral(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.tile([0.1, 0.8, 0.1], (len(texts), 1))

    three = by_name(probe(says_neutral, TEXTS, poles=Poles(0, 2, 1)), "label")
    two = by_name(probe(says_positive, TEXTS), "label")

    assert (three["polite"].rows, three["polite"].passed) == (12, 12)
    assert (three["journeys"].rows, three["journeys"].passed) == (20, 6)
    assert "polite" not in two
    assert two["journeys"].rows == 14


def test_a_third_class_is_a_wrong_answer_to_a_sentence_of_known_label() -> None:
    def of_three(texts: Sequence[str]) -> NDArray[np.float64]:
        two = counts_words(texts)
        return np.stack([np.full(len(texts), 0.5), two[:, 0] / 2, two[:, 1] / 2], axis=1)

    for item in by_name(probe(of_three, TEXTS, poles=Poles(1, 2)), "label").values():
        assert item.passed == 0


def test_classes_of_any_names_are_tried_with_changes_alone() -> None:
    def minds(texts: Sequence[str]) -> NDArray[np.float64]:
        moved = np.array([0.3 if "Jamal" in text else 0.0 for text in texts])
        return np.stack([0.6 - moved, 0.2 + moved / 3, 0.2 + moved * 2 / 3], axis=1)

    found = probe(minds, TEXTS, poles=None)

    assert {item.test for item in found} == {"change", "group"}
    assert all(item.lean is None for item in found)
    assert by_name(found, "change")["given names"].shift == pytest.approx(0.3 / 19)

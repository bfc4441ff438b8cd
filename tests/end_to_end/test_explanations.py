"""Attributions, importance of heads, and the steps of attention."""

from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest

from model import Predictor, attribute, leave_each_out
from model.backends.kernels import choose_set
from model.explain.units import UnitLevel
from service.routes import attributions
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem, post, predict
from tests.matching import near

SENTENCE = "The plot drags, but the cast is superb!"
WHERE = {"layer": 1, "head": 0, "query": 2}
NUMBERS = ["scale", "query_vector", "keys", "scores", "weights", "values", "result"]
CLOSE = 1e-5
# The kernels compute the same bits whatever is beside a text.
SAME = 0.0 if choose_set("float32") is not None else CLOSE
MEMBERS = [
    *("model", "prediction", "view", "label", "tokens", "attributions", "steps", "value"),
    *("baseline_value", "gap"),
]
Answer = dict[str, Any]


def ask(client: httpx.Client, **body: object) -> Answer:
    answer: Answer = post(client, "/attributions", **body)
    return answer


def same(value: Any) -> Any:  # noqa: ANN401 - whatever pytest makes
    return pytest.approx(value, rel=0, abs=SAME)


def test_an_answer_has_exactly_the_documented_form(client: httpx.Client) -> None:
    sentence = "A good film\U0001f600s, ok"
    answer = ask(client, sentence=sentence)
    attention = post(client, "/attention", sentence=sentence)
    assert list(answer) == MEMBERS
    assert (answer["model"], answer["tokens"]) == (attention["model"], attention["tokens"])
    assert near(answer["prediction"], attention["prediction"])
    assert (answer["view"], answer["steps"]) == ("integrated_gradients", 32)
    assert answer["label"] == answer["prediction"]["label"]
    assert len(answer["attributions"]) == len(attention["tokens"]) == 8


def test_it_answers_what_the_package_computes(client: httpx.Client, predictor: Predictor) -> None:
    encoding = predictor.encode(SENTENCE, with_tokens=True)
    for method, steps in (("integrated_gradients", 9), ("gradient_x_input", None)):
        chosen = {"steps": steps} if steps else {}
        found = ask(client, sentence=SENTENCE, label="negative", method=method, **chosen)
        expected = attribute(
            predictor.gradients,
            encoding,
            label="negative",
            method=method,  # type: ignore[arg-type]
            steps=steps or 1,
        )
        assert (found["view"], found["steps"], found["label"]) == (method, steps, "negative")
        assert found["attributions"] == pytest.approx(expected.attributions.tolist(), abs=1e-6)
        assert found["value"] == pytest.approx(expected.value, abs=1e-6)
        assert found["baseline_value"] == pytest.approx(expected.baseline_value, abs=1e-6)
        assert found["gap"] == pytest.approx(expected.gap, abs=1e-6)


@pytest.mark.parametrize("sentence", [SENTENCE, "A good film\U0001f600s, ok"])
@pytest.mark.parametrize("level", ["word", "token", "sentence"])
def test_what_is_left_out_is_what_the_package_leaves_out(
    client: httpx.Client, predictor: Predictor, sentence: str, level: UnitLevel
) -> None:
    wanted = {"sentence": sentence, "method": "leave_out", "level": level, "label": "negative"}
    answer = ask(client, **wanted)
    expected = leave_each_out(predictor, sentence, level=level, label="negative")
    assert list(answer) == [*MEMBERS, "units", "partial"]
    assert (answer["label"], answer["steps"], answer["partial"]) == ("negative", None, False)
    assert answer["view"] == ("leave_out" if level == "token" else f"leave_out+{level}")
    assert near(answer["units"], [asdict(unit) for unit in expected.units])
    assert near(answer["attributions"], expected.attributions.tolist())
    assert near(
        [answer[name] for name in ("value", "baseline_value", "gap")],
        [expected.value, expected.baseline_value, expected.gap],
    )


LONG = "It was a good film. " * 9 + "The cast is dull. " + "And not long! " * 4
NARROW = ("--max-sentences", "4", "--max-batch-tokens", "64")


@pytest.mark.parametrize("level", ["word", "sentence"])
def test_a_text_that_the_queue_cannot_hold_is_divided(
    start: Start, predictor: Predictor, level: UnitLevel
) -> None:
    with start(*NARROW, "--max-queue-tokens", "256") as running, running.client() as client:
        wanted = {"sentence": LONG, "method": "leave_out", "level": level}
        found = ask(client, truncation="window", **wanted)
        assert running.metric("headlight_queue_tokens") == 0
    expected = leave_each_out(predictor, LONG, level=level, truncation="window")
    assert found["partial"] is False
    assert len(found["units"]) == (len(LONG.split()) if level == "word" else 14)
    assert near(found["units"], [asdict(unit) for unit in expected.units])


def test_what_the_quota_does_not_pay_for_is_missing(start: Start) -> None:
    """It pays for the sentences and for one more portion, of four words with 31 tokens each."""
    text = "It was a good film. The cast is dull. And not long! " * 2
    limits = (*NARROW, "--max-queue-tokens", "128", "--token-quota", "400/day")
    with start(*limits) as running, running.client() as client:
        wanted = {"sentence": text, "method": "leave_out", "level": "word"}
        found = ask(client, **wanted)
        sentences = [unit["text"] for unit in found["units"] if " " in unit["text"]]
        assert found["partial"] is True
        assert len(found["units"]) - len(sentences) == 4
        assert len(sentences) in (4, 5)
        # With nothing computed there is no answer.
        assert_problem(client.post("/attributions", json=wanted), 429, "rate-limited")


def test_what_the_time_is_too_short_for_is_missing(start: Start, tmp_path: Path) -> None:
    """A pass of the units does not end before the time; the whole text was read before."""
    soon = mock.patch.object(attributions, "_SHARE_OF_TIME", 0.001)
    with start("--request-timeout", "600") as running, soon, running.client() as client:
        (tmp_path / "pass").write_text("hold 3", encoding="ascii")
        found = ask(client, sentence=SENTENCE, method="leave_out", level="word")
        assert running.metric("headlight_queue_tokens") == 0
        assert (found["units"], found["partial"]) == ([], True)
        assert [token["text"] for token in found["tokens"]] == ["[CLS]", "[SEP]"]
        (tmp_path / "pass").unlink()
        (whole,) = predict(client, SENTENCE)
        assert found["prediction"]["probabilities"] == same(whole["probabilities"])


def test_importance_has_exactly_the_documented_form(
    client: httpx.Client, predictor: Predictor
) -> None:
    answer = post(client, "/importance", sentence=SENTENCE, label="negative")
    (expected,) = predict(client, SENTENCE)
    assert list(answer) == [
        *("model", "prediction", "view", "label", "layers", "heads", "importance")
    ]
    assert list(answer["prediction"]) == list(expected)
    assert answer["prediction"]["probabilities"] == pytest.approx(
        expected["probabilities"], abs=1e-5
    )
    assert (answer["view"], answer["label"]) == ("head_importance", "negative")
    assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
    computed = predictor.gradients.head_importance(predictor.encode(SENTENCE), label="negative")
    found = np.array(answer["importance"])
    assert found.max() > 0.01
    np.testing.assert_allclose(found, computed.importance, rtol=1e-4, atol=1e-6)


def steps_of(client: httpx.Client, **body: object) -> Answer:
    answer: Answer = post(client, "/attention/steps", **{"sentence": SENTENCE, **WHERE, **body})
    return answer


def assert_those_of_the_package(answer: Answer, predictor: Predictor) -> None:
    encoding = predictor.encode(SENTENCE, with_tokens=True)
    expected = predictor.inspector.steps(encoding, **{name: answer[name] for name in WHERE})
    for name in NUMBERS:
        found = np.array(answer[name], np.float32)
        np.testing.assert_allclose(found, getattr(expected, name), rtol=0, atol=CLOSE)
    assert answer["tokens"] == [asdict(token) for token in encoding.tokens or ()]


def test_steps_are_those_of_the_package(client: httpx.Client, predictor: Predictor) -> None:
    answer = steps_of(client)
    assert list(answer) == ["model", "tokens", *WHERE, *NUMBERS]
    for layer in (0, 1):
        for query in range(len(answer["tokens"])):
            found = steps_of(client, layer=layer, head=1 - layer, query=query)
            assert_those_of_the_package(found, predictor)


def test_steps_are_computed_in_float32_whatever_is_served(
    start: Start, predictor: Predictor
) -> None:
    with start("--dtype", "bfloat16") as running, running.client() as client:
        assert client.get("/model").json()["dtype"] == "bfloat16"
        assert_those_of_the_package(steps_of(client), predictor)


def test_a_window_of_a_long_text(client: httpx.Client) -> None:
    long = "good film , " * 20
    answer = steps_of(client, sentence=long, truncation="window", window=1)
    assert list(answer)[:3] == ["model", "window", "windows"]
    assert (answer["window"], answer["windows"] > 1) == (1, True)
    first = steps_of(client, sentence=long, truncation="window")
    assert first["tokens"] != answer["tokens"]


def test_too_many_numbers_are_refused_before_they_are_computed(start: Start) -> None:
    limit = ("--max-attention-weights", "98")  # 9 tokens of 2 * 4 + 2 numbers, and 2 * 4 more
    with start(*limit) as running, running.client() as client:
        assert len(steps_of(client, sentence="good " * 7)["tokens"]) == 9
        computed = running.metric("headlight_texts_total")
        refused = client.post("/attention/steps", json={"sentence": "good " * 8, **WHERE})
        assert_problem(refused, 413, "too-many-weights")
        assert running.metric("headlight_texts_total") == computed

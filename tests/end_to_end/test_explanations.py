"""Attributions, importance of heads, and the steps of attention."""

import math
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest

from model import Predictor, attribute, leave_each_out
from model.backends.kernels import choose_set
from service.routes import attributions
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem, post, predict

SENTENCE = "The plot drags, but the cast is superb!"
WHERE = {"layer": 1, "head": 0, "query": 2}
CLOSE = 1e-5
# The kernels compute the same bits whatever is beside a text.
SAME = 0.0 if choose_set("float32") is not None else CLOSE
MEMBERS = [
    *("model", "prediction", "view", "label", "tokens", "attributions", "steps", "value"),
    *("baseline_value", "gap"),
]
UNIT = [
    *("start", "end", "text", "probability", "log_odds", "probability_change", "log_odds_change")
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
    served, expected = answer["prediction"], attention["prediction"]

    assert list(answer) == MEMBERS
    assert (answer["model"], answer["tokens"]) == (attention["model"], attention["tokens"])
    assert list(served) == list(expected)
    assert served["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)
    assert (answer["view"], answer["steps"]) == ("integrated_gradients", 32)
    assert answer["label"] == served["label"]
    assert len(answer["attributions"]) == len(attention["tokens"]) == 8
    assert (answer["attributions"][0], answer["attributions"][-1]) == (0, 0)
    assert answer["value"] == pytest.approx(
        math.log(served["score"] / (1 - served["score"])), abs=1e-9
    )
    change = answer["value"] - answer["baseline_value"]
    assert answer["gap"] == pytest.approx(change - sum(answer["attributions"]), abs=1e-12)
    assert abs(answer["gap"]) < 1e-3 < abs(change)


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


@pytest.mark.parametrize("sentence", [SENTENCE, "A good film\U0001f600s, ok"])
@pytest.mark.parametrize("level", ["word", "token", "sentence"])
def test_what_is_left_out_is_what_predict_omits(
    client: httpx.Client, sentence: str, level: str
) -> None:
    wanted = {"sentence": sentence, "method": "leave_out", "level": level, "label": "negative"}
    answer = ask(client, **wanted)
    assert list(answer) == [*MEMBERS, "units", "partial"]
    assert (answer["label"], answer["steps"], answer["partial"]) == ("negative", None, False)
    assert answer["view"] == ("leave_out" if level == "token" else f"leave_out+{level}")
    (whole,) = predict(client, sentence)
    before = whole["probabilities"]
    assert answer["prediction"]["probabilities"] == same(before)
    tokens = post(client, "/attention", sentence=sentence, layer=[0], head=[0])["tokens"]
    for unit in answer["units"]:
        assert list(unit) == UNIT
        assert unit["text"] == sentence[unit["start"] : unit["end"]]
        inside = range(unit["start"], unit["end"])
        omit = [at for at, token in enumerate(tokens) if token["end"] and token["start"] in inside]
        if len(omit) == len(tokens) - 2:  # all of it, which `omit` refuses
            assert unit["log_odds"] == answer["baseline_value"]
            continue
        (without,) = predict(client, sentence, omit=omit)
        left = without["probabilities"]
        assert unit["probability"] == same(left["negative"])
        assert unit["probability_change"] == same(before["negative"] - left["negative"])
        odds = math.log(unit["probability"] / (1 - unit["probability"]))
        assert unit["log_odds"] == pytest.approx(odds, abs=1e-9)
        assert unit["log_odds_change"] == pytest.approx(answer["value"] - odds, abs=1e-9)
    changes = [unit["log_odds_change"] for unit in answer["units"]]
    assert answer["attributions"] == [0, *changes, 0]


LONG = "It was a good film. " * 9 + "The cast is dull. " + "And not long! " * 4
NARROW = ("--max-sentences", "4", "--max-batch-tokens", "64")


@pytest.mark.parametrize("level", ["word", "sentence"])
def test_a_text_that_the_queue_cannot_hold_is_divided(
    start: Start, predictor: Predictor, level: str
) -> None:
    with start(*NARROW, "--max-queue-tokens", "256") as running, running.client() as client:
        wanted = {"sentence": LONG, "method": "leave_out", "level": level}
        found = ask(client, truncation="window", **wanted)
        assert running.metric("headlight_queue_tokens") == 0
    expected = leave_each_out(predictor, LONG, level=level, truncation="window")  # type: ignore[arg-type]
    assert found["partial"] is False
    assert len(found["units"]) == (len(LONG.split()) if level == "word" else 14)
    for unit, other in zip(found["units"], expected.units, strict=True):
        assert (unit["start"], unit["end"]) == (other.start, other.end)
        assert unit["probability"] == pytest.approx(other.probability, abs=CLOSE)


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


def row_of(client: httpx.Client, answer: Answer, **body: object) -> list[float]:
    """What `/attention` says of the same row."""
    layer, head, query = (answer[name] for name in WHERE)
    asked = {"sentence": SENTENCE, "layer": [layer], "head": [head], **body}
    shown = post(client, "/attention", **asked)
    assert shown["tokens"] == answer["tokens"]
    row: list[float] = shown["attention"][0][0][query]
    return row


def assert_multiplied_out(answer: Answer, row: list[float]) -> None:
    """Every number follows from those before it, and the weights are those of `/attention`."""
    query, keys, values = (
        np.array(answer[name], np.float64) for name in ("query_vector", "keys", "values")
    )
    assert keys.shape == values.shape == (len(answer["tokens"]), len(query))
    assert answer["scale"] == pytest.approx(1 / np.sqrt(len(query)), abs=1e-12)
    scores = keys @ query * answer["scale"]
    np.testing.assert_allclose(answer["scores"], scores, rtol=0, atol=CLOSE)
    exponentials = np.exp(scores - max(scores))
    weights = exponentials / exponentials.sum()
    np.testing.assert_allclose(answer["weights"], weights, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(answer["weights"], row, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(answer["result"], weights @ values, rtol=0, atol=CLOSE)


def test_the_numbers_multiply_out_to_every_weight(client: httpx.Client) -> None:
    answer = steps_of(client)
    assert list(answer) == [
        *("model", "tokens", "layer", "head", "query", "scale", "query_vector", "keys", "scores"),
        *("weights", "values", "result"),
    ]
    assert {name: answer[name] for name in WHERE} == WHERE
    for layer in (0, 1):
        for query in range(len(answer["tokens"])):
            found = steps_of(client, layer=layer, head=1 - layer, query=query)
            assert_multiplied_out(found, row_of(client, found))


def test_steps_are_computed_in_float32_whatever_is_served(start: Start) -> None:
    with start("--dtype", "bfloat16") as running, running.client() as client:
        found = steps_of(client)
        assert_multiplied_out(found, found["weights"])
        np.testing.assert_allclose(found["weights"], row_of(client, found), rtol=0, atol=0.03)


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

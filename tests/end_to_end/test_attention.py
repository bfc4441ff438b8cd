"""Attention, its views, forms and thumbnails, and several sentences at once."""

import io
import json
import xml.etree.ElementTree as ET
from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest

from model import Predictor, leave_out, switch_off
from model.explain.views import Level, reduce_weights, shrink
from model.types import Reduce, Words
from tests.end_to_end.routes import assert_problem, post, predict
from tests.end_to_end.servers import RunningService, client_of, shared
from tests.end_to_end.test_predict import HEADS, OFF, TOLERANCE

TEXT = "not bad, ok"
# [CLS] not bad , o ##k [SEP]
GROUPS = Words((), ((0,), (1,), (2, 3), (4, 5), (6,)))
REDUCES: tuple[Reduce, ...] = ("none", "mean", "max", "rollout")
LEVELS: tuple[Level, ...] = ("token", "word")
SVG = "{http://www.w3.org/2000/svg}"
FORMS = {"json": "application/json", "npz": "application/x-npz", "svg": "image/svg+xml"}


def show(client: httpx.Client, **fields: object) -> Any:  # noqa: ANN401 - an object or a list
    """The answer to a body that works."""
    return post(client, "/attention", **fields)


def test_an_answer_has_exactly_the_documented_form(client: httpx.Client) -> None:
    text = "A good film\U0001f600s, ok"
    answer = client.get("/attention", params={"sentence": text}).json()
    (expected,) = predict(client, text)
    assert answer == show(client, sentence=text)
    assert list(answer) == ["model", "prediction", "tokens", "layers", "heads", "attention"]
    assert answer["model"] == post(client, "/predict", sentences=["a"])["model"]
    assert list(answer["prediction"]) == list(expected)
    assert answer["prediction"]["probabilities"] == pytest.approx(
        expected["probabilities"], abs=1e-4
    )
    assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
    assert answer["tokens"] == [
        {"text": text, "start": start, "end": end, "special": word is None, "word": word}
        for text, start, end, word in (
            ("[CLS]", 0, 0, None),
            ("a", 0, 1, 0),
            ("good", 2, 6, 1),
            ("[UNK]", 7, 13, 2),  # the face belongs to the word that it stands in
            (",", 13, 14, 2),
            ("o", 15, 16, 3),
            ("##k", 16, 17, 3),
            ("[SEP]", 0, 0, None),
        )
    ]
    weights = np.array(answer["attention"], np.float64)
    assert weights.shape == (2, 2, 8, 8)
    assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-5
    assert weights.min() >= 0


@pytest.mark.parametrize(("reduce", "level"), list(product(REDUCES, LEVELS)))
def test_a_view_is_made_of_the_raw_weights(
    client: httpx.Client, reduce: Reduce, level: Level
) -> None:
    raw = show(client, sentence=TEXT)
    answer = show(client, sentence=TEXT, reduce=reduce, level=level)
    expected = reduce_weights(
        np.array(raw["attention"], np.float32),
        reduce=reduce,
        words=GROUPS if level == "word" else None,
    )
    assert np.array(answer["attention"]).shape == expected.shape
    np.testing.assert_allclose(answer["attention"], expected, atol=3e-7)
    assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
    assert answer["prediction"] == raw["prediction"]
    names = [name for name in (reduce, level) if name not in ("none", "token")]
    assert answer.get("view") == ("+".join(names) or None)


def test_layers_and_heads_are_answered_in_order_and_once(client: httpx.Client) -> None:
    whole = np.array(show(client, sentence=TEXT)["attention"], np.float32)
    some = show(client, sentence=TEXT, layer=[1, 0, 1], head=[1, 1])
    assert (some["layers"], some["heads"]) == ([0, 1], [1])
    assert np.array(some["attention"]) == pytest.approx(whole[:, 1:], abs=1e-7)
    # A view is of the chosen ones.
    answer = show(client, sentence=TEXT, layer=[1], head=[1], reduce="rollout")
    expected = reduce_weights(whole[1:, 1:], reduce="rollout", words=None)
    np.testing.assert_allclose(answer["attention"], expected, atol=3e-7)
    queried = client.get(f"/attention?sentence={TEXT}&layer=1&head=1&reduce=rollout&level=token")
    assert queried.json() == answer


def test_the_limit_is_of_what_is_answered(client: httpx.Client) -> None:
    twelve = "a " * 12  # 14 tokens: 2 x 196 weights of two layers
    assert np.shape(show(client, sentence=twelve, reduce="mean")["attention"]) == (2, 1, 14, 14)
    refused = client.post("/attention", json={"sentence": "a " * 19, "reduce": "rollout"})
    assert_problem(refused, 413, "too-many-weights")
    word = "ok" * 12  # a word of many tokens
    assert len(show(client, sentence=word, level="word")["tokens"]) == 3


def test_several_sentences_are_answered_as_each_alone(
    running: RunningService, client: httpx.Client
) -> None:
    texts = ["good", "not bad", "ok"]
    before = running.metric("headlight_texts_total")
    answers = show(client, sentences=texts, layer=[1], level="word")
    assert running.metric("headlight_texts_total") == before + 3
    for answer, text in zip(answers, texts, strict=True):
        alone = show(client, sentence=text, layer=[1], level="word")
        assert (answer["tokens"], answer["view"]) == (alone["tokens"], "word")
        np.testing.assert_allclose(answer["attention"], alone["attention"], atol=1e-6)
        assert answer["prediction"]["probabilities"] == pytest.approx(
            alone["prediction"]["probabilities"], abs=1e-5
        )


def test_weights_are_of_the_network_without_heads_or_tokens(
    client: httpx.Client, predictor: Predictor
) -> None:
    text = "the film is superb but slow"
    encoding = predictor.encode(text, with_tokens=True)
    expected = predictor.explain(switch_off(encoding, HEADS, num_layers=2, num_heads=2))
    by_body = show(client, sentence=text, head_mask=OFF)
    np.testing.assert_allclose(by_body["attention"], expected.attention, atol=1e-5)
    assert by_body["prediction"]["probabilities"] == pytest.approx(
        expected.prediction.probabilities, abs=TOLERANCE
    )
    query = {"sentence": text, "head_mask": json.dumps(OFF)}
    assert client.get("/attention", params=query).json() == by_body
    (one,) = show(client, sentences=[text], layer=[1], head_mask=OFF)
    assert one["attention"] == by_body["attention"][1:]

    expected = predictor.explain(leave_out(encoding, [2]))
    shown = show(client, sentence=text, omit=[2])
    assert [token["text"] for token in shown["tokens"]] == [
        *("[CLS]", "the", "is", "superb", "but", "slow", "[SEP]")
    ]
    assert [token["start"] for token in shown["tokens"]][1:3] == [0, text.index("is")]
    np.testing.assert_allclose(shown["attention"], expected.attention, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_chosen_by_accept_or_by_name(client: httpx.Client, form: str) -> None:
    query = "/attention?sentence=ok&layer=0&head=0"
    accepted = client.get(query, headers={"accept": f"{FORMS[form]}, */*;q=0.1"})
    named = client.get(f"{query}&format={form}", headers={"accept": "application/json"})
    for response in (accepted, named):
        assert response.status_code == 200
        assert response.headers["content-type"] == FORMS[form]
        assert response.headers["cache-control"] == "no-store"
    assert accepted.content == named.content


def test_arrays_of_16_bits(client: httpx.Client) -> None:
    exact, short = (
        np.load(io.BytesIO(client.post("/attention", json=body).content))["attention"]
        for body in (
            {"sentence": TEXT, "format": "npz"},
            {"sentence": TEXT, "format": "npz", "dtype": "float16"},
        )
    )
    assert short.dtype == np.float16
    np.testing.assert_array_equal(short, exact.astype(np.float16))


def picture(client: httpx.Client, **fields: object) -> ET.Element:
    answer = client.post("/attention", json={"format": "svg", **fields})
    return ET.fromstring(answer.content)  # noqa: S314 - ours


def test_a_picture_holds_the_numbers(client: httpx.Client) -> None:
    answer = show(client, sentence="not bad", layer=[1])
    root = picture(client, sentence="not bad", layer=[1])
    maps = [element for element in root.iter(f"{SVG}g") if "data-head" in element.attrib]
    assert [(each.get("data-layer"), each.get("data-head")) for each in maps] == [
        ("1", "0"),
        ("1", "1"),
    ]
    tokens = [token["text"] for token in answer["tokens"]]
    for each, expected in zip(maps, answer["attention"][0], strict=True):
        weights = [[float(cell.get("data-weight", "")) for cell in row] for row in each]
        assert weights == expected
        titles = [[cell[0].text for cell in row] for row in each]
        assert titles == [
            [
                f"\u2068{asking}\u2069 \u2192 \u2068{asked}\u2069: {weight:.8f}"
                for asked, weight in zip(tokens, row, strict=True)
            ]
            for asking, row in zip(tokens, expected, strict=True)
        ]
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "layer 1, head 0" in texts
    assert texts.count("[CLS]") == 4  # beside and above each map
    # Nothing but itself is needed to see it.
    assert not {"href", "style"} & {name for each in root.iter() for name in each.attrib}
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "rect", "g", "text"}


@pytest.mark.parametrize("fields", [{"layer": [0], "head": [1]}, {"reduce": "rollout"}, {}])
def test_no_text_of_a_picture_is_cut(client: httpx.Client, fields: dict[str, object]) -> None:
    root = picture(client, sentence="ok", **fields)
    width = float(root.get("width") or 0)
    (sentence,) = (group for group in root.iter(f"{SVG}g") if group.get("data-sentence"))
    for text in sentence.findall(f"{SVG}text"):
        start = float(text.get("x") or 0) + 16
        assert start + 6.6 * len(text.text or "") <= width
    for group in sentence.findall(f"{SVG}g"):
        start = float((group.get("transform") or "")[len("translate(") :].split()[0]) + 16
        title = group.find(f"{SVG}text")
        assert title is not None
        assert start + 7.3 * len(title.text or "") <= width


MANY = "a good film with a plot that drags but a cast so warm that it is good"
_roomy = shared("--max-attention-weights", "5000")


wide = client_of("_roomy")  # which answers with all weights of the text


def test_a_thumbnail_has_the_largest_weight_of_each_cell(wide: httpx.Client) -> None:
    whole = show(wide, sentence=MANY)
    answer = show(wide, sentence=MANY, thumbnail=9, level="token")

    assert "strongest" not in whole
    assert answer["view"] == "thumbnail"
    for name in ("model", "prediction", "tokens", "layers", "heads"):
        assert answer[name] == whole[name]
    weights = np.array(whole["attention"])
    np.testing.assert_array_equal(answer["attention"], shrink(weights, 9))
    assert (np.array(answer["strongest"]) == weights.argmax(axis=-1)).all()
    assert np.array(answer["strongest_weights"]) == pytest.approx(weights.max(axis=-1), abs=1e-8)
    queried = wide.get("/attention", params={"sentence": MANY, "thumbnail": "9"})
    assert queried.json() == answer
    first, second = show(wide, sentences=[MANY, "good"], thumbnail=9)
    assert np.array(first["attention"]).shape[-1] == 9
    assert np.array(second["attention"]).shape[-1] == len(second["tokens"]) < 9
    refused = wide.post("/attention", json={"sentences": [MANY] * 20, "thumbnail": 9})
    assert_problem(refused, 413, "too-many-weights")

"""`GET /attention/steps` and `POST /attention/steps`."""

import html
import inspect
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from model import reference
from service.formats.size_estimates import estimate_steps
from tests.builders import tiny_conv_checkpoint
from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import ROOT, RunningService, service

SENTENCE = "The plot drags, but the cast is superb!"
PLACE = {"layer": 1, "head": 0, "query": 2}
CLOSE = 1e-5
KNOWN = "known are sentence, layer, head, query, truncation, window, head_mask, omit"

Answer = dict[str, Any]
Query = dict[str, str | int]


def ask(client: httpx.Client, **body: object) -> Answer:
    response = client.post("/attention/steps", json={"sentence": SENTENCE, **PLACE, **body})
    assert response.status_code == 200, response.text
    answer: Answer = response.json()
    return answer


def row_of(client: httpx.Client, answer: Answer, **body: object) -> list[float]:
    """What `/attention` says of the same row."""
    layer, head, query = (answer[name] for name in PLACE)
    asked = {"sentence": SENTENCE, "layer": [layer], "head": [head], **body}
    told = client.post("/attention", json=asked).json()
    assert told["tokens"] == answer["tokens"]
    row: list[float] = told["attention"][0][0][query]
    return row


def assert_multiplied_out(answer: Answer, row: list[float]) -> None:
    """Every number follows from those before it, and the weights are those of `/attention`."""
    query, keys, values = (
        np.array(answer[name], np.float64) for name in ("query_vector", "keys", "values")
    )
    assert keys.shape == values.shape == (len(answer["tokens"]), len(query))
    assert answer["scale"] == pytest.approx(1 / np.sqrt(len(query)), abs=1e-12)
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) * answer["scale"] for key in keys]
    np.testing.assert_allclose(answer["scores"], scores, rtol=0, atol=CLOSE)
    exponentials = np.exp(np.array(scores) - max(scores))
    weights = exponentials / exponentials.sum()
    np.testing.assert_allclose(answer["weights"], weights, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(answer["weights"], row, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(answer["result"], weights @ values, rtol=0, atol=CLOSE)


def test_the_numbers_multiply_out_to_every_weight(client: httpx.Client) -> None:
    answer = ask(client)
    assert list(answer) == [
        "model", "tokens", "layer", "head", "query", "scale", "query_vector", "keys", "scores",
        "weights", "values", "result",
    ]  # fmt: skip
    predicted = client.post("/predict", json={"sentences": [SENTENCE]}).json()
    assert answer["model"] == predicted["model"]
    assert {name: answer[name] for name in PLACE} == PLACE
    for layer in (0, 1):
        for head in (0, 1):
            for query in range(len(answer["tokens"])):
                found = ask(client, layer=layer, head=head, query=query)
                assert_multiplied_out(found, row_of(client, found))


def test_the_default_model_multiplies_out_too(tmp_path: Path) -> None:
    folder = ROOT / "checkpoints" / "default"
    with (
        service(folder, tmp_path, "--dtype", "float32") as running,
        running.client() as client,
    ):
        for layer, head, query in ((0, 0, 1), (3, 8, 10), (5, 11, 0)):
            found = ask(client, layer=layer, head=head, query=query)
            assert len(found["query_vector"]) == 32
            assert_multiplied_out(found, row_of(client, found))


def test_steps_are_in_float32_whatever_the_service_computes_in(tmp_path: Path) -> None:
    folder = ROOT / "checkpoints" / "default"
    with (
        service(folder, tmp_path, "--dtype", "bfloat16") as running,
        running.client() as client,
    ):
        found = ask(client, layer=2, head=4, query=3)
        served = row_of(client, found)
        assert_multiplied_out(found, found["weights"])
        np.testing.assert_allclose(found["weights"], served, rtol=0, atol=0.03)


def test_get_and_post_agree(client: httpx.Client) -> None:
    query: Query = {"sentence": SENTENCE, **PLACE, "head_mask": '[{"layer":0,"head":1}]'}
    asked = client.get("/attention/steps", params=query)
    assert asked.status_code == 200, asked.text
    assert asked.json() == ask(client, head_mask=[{"layer": 0, "head": 1}])


def test_what_is_changed_about_the_text_changes_the_steps(client: httpx.Client) -> None:
    plain = ask(client)
    for change in ({"head_mask": [{"layer": 0}]}, {"omit": [4]}):
        answer = ask(client, **change)
        assert_multiplied_out(answer, row_of(client, answer, **change))
        assert answer["query_vector"] != plain["query_vector"]
    assert len(ask(client, omit=[4])["tokens"]) == len(plain["tokens"]) - 1


def test_a_window_of_a_long_text(client: httpx.Client) -> None:
    long = "good film , " * 20
    wanted = {"sentence": long, "truncation": "window", "window": 1}
    answer = ask(client, **wanted)
    assert list(answer)[:3] == ["model", "window", "windows"]
    assert (answer["window"], answer["windows"] > 1) == (1, True)
    first = ask(client, sentence=long, truncation="window")
    assert first["tokens"] != answer["tokens"]
    cut = client.post("/attention/steps", json={**PLACE, "sentence": long, "truncation": "error"})
    assert (cut.status_code, cut.json()["type"]) == (422, "/problems/text-too-long")


def test_it_is_one_pass_of_the_text(running: RunningService, client: httpx.Client) -> None:
    name = 'headlight_forward_seconds_count{path="gradient"}'
    route = 'headlight_requests_total{method="POST",route="/attention/steps",status="200"}'
    names = (name, "headlight_tokens_total", route)
    before = [running.metric(each) for each in names]
    ask(client, sentence="a good film")
    after = [running.metric(each) for each in names]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 5, 1]


@pytest.mark.parametrize(
    ("change", "loc", "message"),
    [
        ({"layer": 2}, ["layer"], "the model has layers 0 to 1"),
        ({"layer": -1}, ["layer"], "the model has layers 0 to 1"),
        ({"head": 2}, ["head"], "the model has heads 0 to 1"),
        ({"query": 5}, ["query"], "the text has tokens 0 to 4"),
        ({"query": -1}, ["query"], "must be at least 0, got -1"),
        ({"query": "1"}, ["query"], "must be a whole number, got a string"),
        ({"layer": [0]}, ["layer"], "must be a whole number, got a list"),
        ({"window": 1}, ["window"],
         '`window` needs `truncation: "window"`'),
        ({"key": 1}, [], f"an unknown field is given; {KNOWN}"),
        ({"heads": 1}, [], f"an unknown field is given; did you mean head? {KNOWN}"),
    ],
)  # fmt: skip
def test_wrong_bodies(
    client: httpx.Client, change: dict[str, object], loc: list[str | int], message: str
) -> None:
    loc = ["body", *loc]
    assert_problem(
        client.post("/attention/steps", json={"sentence": "a good film", **PLACE, **change}),
        422,
        "invalid-request",
        "The request is not valid",
        # A message that begins with the name of its field has no place before it.
        f"{message}."
        if message[0] == "`"
        else f"{'.'.join(map(str, loc if change != {'query': 5} else ['query']))}: {message}.",
        errors=[error(*loc, msg=message)],
    )


def test_a_foreign_page_cannot_make_a_browser_ask(client: httpx.Client) -> None:
    asked: Query = {"sentence": "a good film", **PLACE}
    refused = client.get("/attention/steps", params=asked, headers={"Sec-Fetch-Site": "cross-site"})
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/cross-site")


@pytest.mark.parametrize("name", ["layer", "head", "query"])
def test_what_is_needed(client: httpx.Client, name: str) -> None:
    place = {key: value for key, value in PLACE.items() if key != name}
    assert_problem(
        client.get("/attention/steps", params={"sentence": "a good film", **place}),
        422,
        "invalid-request",
        "The request is not valid",
        f"query.{name}: is missing.",
        errors=[error("query", name, msg="is missing")],
    )


def test_too_many_numbers_are_refused_before_they_are_computed(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    limit = ("--max-attention-weights", "98")  # 9 tokens of 2 * 4 + 2 numbers, and 2 * 4 more
    with service(checkpoint_folder, tmp_path, *limit) as running, running.client() as client:
        assert len(ask(client, sentence="good " * 7)["tokens"]) == 9
        computed = running.metric("headlight_texts_total")
        assert_problem(
            client.post("/attention/steps", json={"sentence": "good " * 8, **PLACE}),
            413,
            "too-many-weights",
            "The attention weights are too many",
            "The steps of a head over 10 tokens are 108 numbers; the limit is 98: shorten the "
            "text.",
        )
        assert running.metric("headlight_texts_total") == computed


def test_the_classifier_of_the_course_has_steps(tmp_path: Path) -> None:
    folder = tiny_conv_checkpoint(tmp_path / "conv")
    with service(folder, tmp_path) as running, running.client() as client:
        answer = ask(client, layer=0)
        assert_multiplied_out(answer, row_of(client, answer))


def test_the_largest_answer_of_the_default_model_fits(tmp_path: Path) -> None:
    folder = ROOT / "checkpoints" / "default"
    with (
        service(folder, tmp_path, "--dtype", "float32") as running,
        running.client() as client,
    ):
        length = client.get("/model").json()["max_length"]
        long = "superb " * 2 * length
        response = client.post(
            "/attention/steps", json={"sentence": long, "layer": 5, "head": 0, "query": 0}
        )
    answer = response.json()
    assert np.shape(answer["keys"]) == (length, 32)
    texts = [token["text"] for token in answer["tokens"]]
    assert len(response.content) <= estimate_steps(length * 2 * 33 + 64, texts).answer


def test_the_terms_are_on_a_page_with_their_functions(client: httpx.Client) -> None:
    page = client.get("/terms")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["cache-control"] == "no-cache"
    anchors = ["heads", "scaled-dot-product", "softmax", "weighted-sum", "concatenation"]
    assert re.findall(r'<section id="([a-z-]+)">', page.text) == anchors
    assert re.findall(r"<h2>([^<]+)</h2>", page.text) == [
        "Heads", "Scaled dot product", "Softmax", "Weighted sum", "Concatenation",
    ]  # fmt: skip
    for function in (
        reference.split_heads, reference.scaled_dot_product_score, reference.softmax,
        reference.multi_head_attention, reference.concatenate_heads,
    ):  # fmt: skip
        assert inspect.getsource(function).rstrip() in html.unescape(page.text)
    known = {"if-none-match": page.headers["etag"]}
    assert client.get("/terms", headers=known).status_code == 304
    assert client.head("/terms").status_code == 200


@pytest.mark.parametrize(("how", "statuses"), [("off", (404, 404)), ("key", (401, 200))])
def test_the_terms_follow_the_setting_of_the_page(
    checkpoint_folder: Path, tmp_path: Path, how: str, statuses: tuple[int, int]
) -> None:
    settings = {"HEADLIGHT_API_KEYS": "the-key"}
    with (
        service(checkpoint_folder, tmp_path, "--page", how, settings=settings) as running,
        running.client() as client,
    ):
        key = {"authorization": "Bearer the-key"}
        found = client.get("/terms").status_code, client.get("/terms", headers=key).status_code
    assert found == statuses

"""`GET /attributions` and `POST /attributions`."""

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch

from model import attribute, load_predictor, open_checkpoint
from tests.builders import tiny_checkpoint, tiny_config, tiny_conv_checkpoint, tiny_manifest
from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService, service

JSON = {"content-type": "application/json"}
MEMBERS = [
    "model", "prediction", "view", "label", "tokens", "attributions", "steps", "value",
    "baseline_value", "gap",
]  # fmt: skip


def get(client: httpx.Client, **query: object) -> dict[str, object]:
    """The answer to a query that works."""
    response = client.get("/attributions", params=query)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    answer: dict[str, object] = response.json()
    return answer


def numbers(answer: dict[str, object]) -> list[float]:
    """The attributions of an answer."""
    found = answer["attributions"]
    assert isinstance(found, list)
    return found


def number(answer: dict[str, object], name: str) -> float:
    """A member that is a number."""
    found = answer[name]
    assert isinstance(found, float)
    return found


def test_an_answer_has_exactly_the_documented_form(client: httpx.Client) -> None:
    sentence = "A good film\U0001f600s, ok"
    answer = get(client, sentence=sentence)
    attention = client.get("/attention", params={"sentence": sentence}).json()
    served, expected = answer["prediction"], attention["prediction"]
    assert isinstance(served, dict)

    assert list(answer) == MEMBERS
    assert answer["model"] == attention["model"]
    assert list(served) == list(expected)
    assert served["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)
    assert answer["tokens"] == attention["tokens"]
    assert (answer["view"], answer["steps"]) == ("integrated_gradients", 32)
    assert answer["label"] == served["label"]
    assert len(numbers(answer)) == len(attention["tokens"]) == 8
    assert (numbers(answer)[0], numbers(answer)[-1]) == (0, 0)
    assert number(answer, "value") == pytest.approx(
        math.log(served["score"] / (1 - served["score"])), abs=1e-9
    )
    change = number(answer, "value") - number(answer, "baseline_value")
    assert number(answer, "gap") == pytest.approx(change - sum(numbers(answer)), abs=1e-12)
    assert abs(number(answer, "gap")) < 1e-3 < abs(change)


def test_it_answers_what_the_package_computes(
    client: httpx.Client, checkpoint_folder: Path
) -> None:
    sentence = "The plot drags, but the cast is superb!"
    predictor = load_predictor(
        open_checkpoint(checkpoint_folder), device=torch.device("cpu"), dtype=torch.float32
    )
    encoding = predictor.encode(sentence, with_tokens=True)
    for method, steps in (("integrated_gradients", 9), ("gradient_x_input", None)):
        found = get(
            client,
            sentence=sentence,
            label="negative",
            method=method,
            **({"steps": steps} if steps else {}),
        )
        expected = attribute(
            predictor.gradients,
            encoding,
            label="negative",
            method=method,  # type: ignore[arg-type]
            steps=steps or 1,
        )
        assert (found["view"], found["steps"], found["label"]) == (method, steps, "negative")
        assert numbers(found) == pytest.approx(expected.attributions.tolist(), abs=1e-6)
        assert found["value"] == pytest.approx(expected.value, abs=1e-6)
        assert found["baseline_value"] == pytest.approx(expected.baseline_value, abs=1e-6)


def test_get_and_post_agree(client: httpx.Client) -> None:
    wanted = {
        "sentence": "not bad", "truncation": "left", "label": "negative", "steps": 7,
        "method": "integrated_gradients", "level": "word",
    }  # fmt: skip
    posted = client.post("/attributions", json=wanted)
    assert posted.status_code == 200
    assert posted.json() == get(client, **wanted)


def test_by_word_the_tokens_of_a_word_are_summed(client: httpx.Client) -> None:
    sentence = "The PLOTS, very filming"
    by_token = numbers(get(client, sentence=sentence))
    answer = get(client, sentence=sentence, level="word")

    assert answer["view"] == "integrated_gradients+word"
    assert answer["tokens"] == [
        {"text": text, "start": start, "end": end, "special": word is None, "word": word}
        for text, start, end, word in (
            ("[CLS]", 0, 0, None),
            ("The", 0, 3, 0),
            ("PLOTS,", 4, 10, 1),
            ("very", 11, 15, 2),
            ("filming", 16, 23, 3),
            ("[SEP]", 0, 0, None),
        )
    ]
    expected = [0, by_token[1], sum(by_token[2:5]), by_token[5], sum(by_token[6:8]), 0]
    assert numbers(answer) == pytest.approx(expected, abs=1e-6)
    simple = get(client, sentence=sentence, level="word", method="gradient_x_input")
    assert (simple["view"], simple["steps"]) == ("gradient_x_input+word", None)


def test_two_labels_are_two_sides_of_the_same(client: httpx.Client) -> None:
    one, other = (get(client, sentence="a film", label=each) for each in ("negative", "positive"))
    assert (one["label"], other["label"]) == ("negative", "positive")
    assert one["prediction"] == other["prediction"]
    assert numbers(one) == pytest.approx([-each for each in numbers(other)], abs=1e-6)
    assert number(one, "value") == pytest.approx(-number(other, "value"), abs=1e-9)


def test_what_goes_through_the_network_is_counted(running: RunningService) -> None:
    names = (
        "headlight_texts_total",
        "headlight_tokens_total",
        'headlight_forward_seconds_count{path="gradient"}',
        "headlight_batch_tokens_sum",
    )
    before = [running.metric(name) for name in names]
    with running.client() as client:
        get(client, sentence="a good film", steps=30)  # 5 tokens; a pass has room for 12 rows
    after = [running.metric(name) for name in names]
    # The text, its baseline and thirty places between them, ten at a time.
    assert [now - then for now, then in zip(after, before, strict=True)] == [32, 160, 3, 160]


def test_requests_at_once_get_their_own_answers(client: httpx.Client) -> None:
    sentences = [f"{word} film" for word in ("good", "bad", "dull", "superb", "long", "warm")] * 2
    alone = {sentence: numbers(get(client, sentence=sentence, steps=16)) for sentence in sentences}
    with ThreadPoolExecutor(len(sentences)) as pool:
        together = list(pool.map(lambda each: get(client, sentence=each, steps=16), sentences))
    for sentence, answer in zip(sentences, together, strict=True):
        assert numbers(answer) == pytest.approx(alone[sentence], abs=1e-6)
    assert len({tuple(each) for each in alone.values()}) == 6


def test_truncation(client: httpx.Client) -> None:
    long = "good " * 50 + "bad"
    right = get(client, sentence=long, steps=2)
    left = get(client, sentence=long, steps=2, truncation="left")
    assert [len(numbers(answer)) for answer in (right, left)] == [32, 32]
    tokens = left["tokens"]
    assert isinstance(tokens, list)
    assert tokens[-2]["text"] == "bad"
    message = (
        "the text has 53 tokens and the model reads at most 32: shorten it, or set truncation "
        "to right or left"
    )
    assert_problem(
        client.post("/attributions", json={"sentence": long, "truncation": "error"}),
        422,
        "text-too-long",
        "The text is too long",
        f"sentence: {message}.",
        errors=[error("body", "sentence", msg=message)],
    )


BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)
KNOWN = "an unknown parameter is given; known are sentence, truncation, label, method, steps, level"
LABELS = "the model has the labels negative, positive"
NUMBER = "must be a whole number"
NO_STEPS = '`steps` needs `method: "integrated_gradients"`'


@pytest.mark.parametrize(
    ("query", "loc", "message"),
    [
        ("sentence=+", ["query", "sentence"], BLANK),
        ("sentence=a&foo=1", ["query"], KNOWN),
        ("sentence=a&layer=1", ["query"], KNOWN),
        ("sentence=a&label=Canary", ["query", "label"], LABELS),
        ("sentence=a&label=", ["query", "label"], LABELS),
        ("sentence=a&label=Positive", ["query", "label"], LABELS),
        ("sentence=a&steps=0", ["query", "steps"], "must be at least 1, got 0"),
        ("sentence=a&steps=257", ["query", "steps"], "must be at most 256, got 257"),
        ("sentence=a&steps=1.5", ["query", "steps"], NUMBER),
        ("sentence=a&steps=", ["query", "steps"], NUMBER),
        ("sentence=a&steps=-3", ["query", "steps"], NUMBER),
        ("sentence=a&steps=32&method=gradient_x_input", ["query", "steps"], NO_STEPS),
        (
            "sentence=a&steps=1&steps=2",
            ["query"],
            "a parameter is given more than once; give each once",
        ),
        (
            "sentence=a&method=saliency",
            ["query", "method"],
            "must be 'integrated_gradients' or 'gradient_x_input'",
        ),
        ("sentence=a&level=words", ["query", "level"], "must be 'token' or 'word'"),
    ],
)
def test_wrong_queries(
    client: httpx.Client, query: str, loc: list[str | int], message: str
) -> None:
    where = ".".join(map(str, loc))
    response = client.get(f"/attributions?{query}")
    assert_problem(
        response,
        422,
        "invalid-request",
        "The request is not valid",
        f"{message}." if message[0] == "`" else f"{where}: {message}.",
        errors=[error(*loc, msg=message)],
    )
    assert "Canary" not in response.text


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        ({"sentence": "a", "label": "fair"}, ["body", "label"], LABELS),
        ({"sentence": "a", "label": 0}, ["body", "label"], "must be a string, got a number"),
        ({"sentence": "a", "steps": "32"}, ["body", "steps"], f"{NUMBER}, got a string"),
        ({"sentence": "a", "steps": True}, ["body", "steps"], f"{NUMBER}, got true"),
        ({"sentence": "a", "steps": 32.0}, ["body", "steps"], f"{NUMBER}, got a decimal number"),
        (
            {"sentence": "a", "method": "gradient_x_input", "steps": 5},
            ["body", "steps"],
            NO_STEPS,
        ),
    ],
)
def test_wrong_bodies(
    client: httpx.Client, body: dict[str, object], loc: list[str | int], message: str
) -> None:
    where = ".".join(map(str, loc))
    assert_problem(
        client.post("/attributions", content=json.dumps(body), headers=JSON),
        422,
        "invalid-request",
        "The request is not valid",
        f"{where}: {message}.",
        errors=[error(*loc, msg=message)],
    )


def test_all_faults_are_listed_at_once(client: httpx.Client) -> None:
    body = {"sentence": " ", "label": "x", "method": "gradient_x_input", "steps": 4, "level": 1}
    response = client.post("/attributions", json=body)
    assert response.status_code == 422
    assert [fault["loc"] for fault in response.json()["errors"]] == [
        ["body", name] for name in ("sentence", "label", "steps", "level")
    ]


@pytest.fixture(scope="module", params=["masked", "unmasked"])
def course(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A service with a tiny classifier of the course."""
    folder = tmp_path_factory.mktemp("conv")
    checkpoint = tiny_conv_checkpoint(folder / "conv", mask_padding=request.param == "masked")
    with service(checkpoint, folder) as running, running.client() as client:
        yield client


@pytest.mark.parametrize("sentence", ["a good film", "!!!", "not " * 20])
def test_the_classifier_of_the_course(course: httpx.Client, sentence: str) -> None:
    answer = get(course, sentence=sentence)
    tokens = answer["tokens"]
    assert isinstance(tokens, list)
    assert len(tokens) == len(numbers(answer))
    for token, share in zip(tokens, numbers(answer), strict=True):
        assert (share == 0) is token["special"]


def test_five_labels_and_a_queue_of_a_single_text(tmp_path: Path) -> None:
    labels = ("awful", "bad", "fair", "good", "great")
    folder = tiny_checkpoint(
        tmp_path / "tiny", config=tiny_config(labels=labels), manifest=tiny_manifest(labels=labels)
    )
    options = ("--max-sentences", "1", "--max-queue-tokens", "102")
    with service(folder, tmp_path, *options) as running, running.client() as client:
        answer = get(client, sentence="a film", label="fair", steps=2)
        served = answer["prediction"]
        assert isinstance(served, dict)
        p = served["probabilities"]["fair"]
        assert number(answer, "value") == pytest.approx(math.log(p / (1 - p)), abs=1e-9)
        assert get(client, sentence="good " * 15, steps=4)["steps"] == 4  # 6 rows of 17 tokens
        message = (
            "its attributions take 119 tokens through the network, and the queue holds 102: ask "
            "for fewer steps, or shorten it"
        )
        assert_problem(
            client.post("/attributions", json={"sentence": "good " * 15, "steps": 5}),
            422,
            "invalid-request",
            "The request is not valid",
            f"sentence: {message}.",
            errors=[error("body", "sentence", msg=message)],
        )
        document = client.get("/openapi.json").json()
        (label,) = (
            parameter
            for parameter in document["paths"]["/attributions"]["get"]["parameters"]
            if parameter["name"] == "label"
        )
        assert label["schema"] == {"type": "string", "enum": list(labels)}

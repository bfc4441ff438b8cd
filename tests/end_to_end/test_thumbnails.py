"""Thumbnails of attention over HTTP: their forms, their limits, and what is refused."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import service

TEXT = "a good film with a plot that drags but a cast so warm that it is good"


@pytest.fixture(scope="module")
def client(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """Of a service that answers with all weights of the text."""
    folder = tmp_path_factory.mktemp("thumbnails")
    limited = service(checkpoint_folder, folder, "--max-attention-weights", "5000")
    with limited as running, running.client() as client:
        yield client


def ask(client: httpx.Client, **fields: object) -> dict[str, Any]:
    response = client.post("/attention", json={"sentence": TEXT, **fields})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def test_a_thumbnail_has_the_largest_weight_of_each_cell(client: httpx.Client) -> None:
    whole = ask(client)
    told = ask(client, thumbnail=9, level="token")

    assert "strongest" not in whole
    assert told["view"] == "thumbnail"
    for name in ("model", "prediction", "tokens", "layers", "heads"):
        assert told[name] == whole[name]
    size = len(whole["tokens"])
    assert size > 9
    weights = np.array(whole["attention"])
    thumbnails = np.array(told["attention"])
    assert thumbnails.shape == (*weights.shape[:2], 9, 9)
    cells = np.arange(size) * 9 // size
    for query in range(9):
        for key in range(9):
            block = weights[:, :, cells == query][..., cells == key]
            assert (thumbnails[:, :, query, key] == block.max(axis=(-2, -1))).all()
    assert (np.array(told["strongest"]) == weights.argmax(axis=-1)).all()
    assert np.array(told["strongest_weights"]) == pytest.approx(weights.max(axis=-1), abs=1e-8)


def test_a_short_text_is_whole_and_its_special_tokens_can_be_left_out(client: httpx.Client) -> None:
    whole = ask(client, reduce="mean")
    told = ask(client, reduce="mean", thumbnail=128)
    assert told["attention"] == whole["attention"]
    assert told["view"] == "mean+thumbnail"

    plain = ask(client, reduce="mean", thumbnail=128, special=False)
    shown = [at for at, token in enumerate(whole["tokens"]) if not token["special"]]
    assert 0 < len(shown) < len(whole["tokens"])
    expected = np.array(whole["attention"])[:, :, shown][..., shown]
    assert (np.array(plain["attention"]) == expected).all()
    assert plain["tokens"] == whole["tokens"]
    assert plain["strongest"] == told["strongest"]
    query: dict[str, str | int] = {"sentence": TEXT, "reduce": "mean", "thumbnail": 128}
    by_query = client.get("/attention", params={**query, "special": "false"})
    assert by_query.json() == plain
    refused = client.get("/attention", params={**query, "special": "no"})
    wrong = error("query", "special", msg="must be true or false")
    detail = "query.special: must be true or false."
    title = "The request is not valid"
    assert_problem(refused, 422, "invalid-request", title, detail, errors=[wrong])


def test_the_archive_holds_the_same(client: httpx.Client) -> None:
    told = ask(client, thumbnail=9)
    body = {"sentence": TEXT, "thumbnail": 9, "format": "npz"}
    archive = np.load(io.BytesIO(client.post("/attention", json=body).content))

    assert archive["attention"] == pytest.approx(np.array(told["attention"]), abs=1e-8)
    assert archive["strongest"].tolist() == told["strongest"]
    assert archive["strongest_weights"] == pytest.approx(
        np.array(told["strongest_weights"]), abs=1e-8
    )


def test_several_texts_and_a_query(client: httpx.Client) -> None:
    body = {"sentences": [TEXT, "good"], "thumbnail": 9}
    first, second = client.post("/attention", json=body).json()
    query = {"sentence": TEXT, "thumbnail": "9"}
    assert client.get("/attention", params=query).json() == ask(client, thumbnail=9)
    assert np.array(first["attention"]).shape[-1] == 9
    assert np.array(second["attention"]).shape[-1] == len(second["tokens"]) < 9


def test_the_limit_is_published(client: httpx.Client) -> None:
    most = client.get("/model").json()["limits"]["max_thumbnail"]
    ask(client, thumbnail=most)
    response = client.post("/attention", json={"sentence": TEXT, "thumbnail": most + 1})
    assert response.status_code == 422
    message = f"must be at most {most}, got {most + 1}"
    assert response.json()["errors"] == [error("body", "thumbnail", msg=message)]


FORMS = "`thumbnail` works with `json` and `npz`, not with"


@pytest.mark.parametrize(
    ("fields", "accept", "place", "message"),
    [
        ({"thumbnail": 9, "format": "csv"}, "*/*", "thumbnail", f"{FORMS} `csv`"),
        ({"thumbnail": 9}, "image/svg+xml", "thumbnail", f"{FORMS} `svg`"),
        (
            {"special": False},
            "*/*",
            "special",
            "`special` needs `thumbnail`",
        ),
        ({"thumbnail": 7}, "*/*", "thumbnail", "must be at least 8, got 7"),
    ],
)
def test_what_cannot_be_had_is_refused(
    client: httpx.Client, fields: dict[str, object], accept: str, place: str, message: str
) -> None:
    body = {"sentence": TEXT, **fields}
    response = client.post("/attention", json=body, headers={"Accept": accept})
    assert response.json()["errors"] == [error("body", place, msg=message)]
    assert_problem(
        response,
        422,
        "invalid-request",
        "The request is not valid",
        response.json()["detail"],
        errors=response.json()["errors"],
    )
    assert message in response.json()["detail"]


def test_too_many_cells_are_refused(client: httpx.Client) -> None:
    body = {"sentences": [TEXT] * 20, "thumbnail": 9}
    assert_problem(
        client.post("/attention", json=body),
        413,
        "too-many-weights",
        "The attention weights are too many",
        "2 layers of 2 heads over 20 sentences in thumbnails of 9 are 6480 weights; the limit is "
        "5000: ask for fewer layers or heads, or for smaller thumbnails.",
    )

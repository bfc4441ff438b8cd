"""The forms of attention and its thumbnails, read back by what reads them elsewhere."""

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.end_to_end.conftest import shared
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService

TEXT = 'not "bad", ok'
SVG = "{http://www.w3.org/2000/svg}"
FORMS = {
    "json": "application/json",
    "npz": "application/x-npz",
    "svg": "image/svg+xml",
}


def ask(client: httpx.Client, form: str, **fields: object) -> bytes:
    """The body of an answer in a form."""
    response = client.post("/attention", json={"format": form, **fields})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == FORMS[form]
    return response.content


def raw(client: httpx.Client, **fields: object) -> Any:  # noqa: ANN401 - an object or a list
    """The same as JSON."""
    return client.post("/attention", json=fields).json()


def arrays(content: bytes) -> Mapping[str, NDArray[Any]]:
    """What an archive holds, without unpickling."""
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    return {name: loaded[name] for name in loaded.files}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_chosen_by_accept_or_by_name(client: httpx.Client, form: str) -> None:
    media_type = FORMS[form]
    query = "/attention?sentence=ok&layer=0&head=0"
    accepted = client.get(query, headers={"accept": f"{media_type}, */*;q=0.1"})
    named = client.get(f"{query}&format={form}", headers={"accept": "application/json"})
    for response in (accepted, named):
        assert response.status_code == 200
        assert response.headers["content-type"] == FORMS[form]
        assert response.headers["cache-control"] == "no-store"
    assert accepted.content == named.content


def test_arrays_of_16_bits(client: httpx.Client) -> None:
    exact = arrays(ask(client, "npz", sentence=TEXT))["attention"]
    short = arrays(ask(client, "npz", sentence=TEXT, dtype="float16"))["attention"]
    assert short.dtype == np.float16
    np.testing.assert_array_equal(short, exact.astype(np.float16))


def test_a_picture_holds_the_numbers(client: httpx.Client) -> None:
    answer = raw(client, sentence="not bad", layer=[1])
    picture = ET.fromstring(ask(client, "svg", sentence="not bad", layer=[1]))  # noqa: S314 - ours
    assert picture.tag == f"{SVG}svg"
    maps = [element for element in picture.iter(f"{SVG}g") if "data-head" in element.attrib]
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
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert "layer 1, head 0" in texts
    assert texts.count("[CLS]") == 4  # beside and above each map
    # Nothing but itself is needed to see it.
    assert {name for element in picture.iter() for name in element.attrib} & {
        "href",
        "style",
    } == set()
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags == {"svg", "title", "rect", "g", "text"}


@pytest.mark.parametrize("fields", [{"layer": [0], "head": [1]}, {"reduce": "rollout"}, {}])
def test_no_text_of_a_picture_is_cut(client: httpx.Client, fields: dict[str, object]) -> None:
    root = ET.fromstring(ask(client, "svg", sentence="ok", **fields))  # noqa: S314 - own service
    width = float(root.get("width") or 0)
    maps = [group for group in root.iter(f"{SVG}g") if group.get("data-sentence") is None]
    assert maps
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


@pytest.fixture(scope="module")
def wide(_roomy: RunningService) -> Iterator[httpx.Client]:
    """Of a service that answers with all weights of the text."""
    with _roomy.client() as client:
        yield client


def thumb(wide: httpx.Client, **fields: object) -> dict[str, Any]:
    response = wide.post("/attention", json={"sentence": MANY, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_thumbnail_has_the_largest_weight_of_each_cell(wide: httpx.Client) -> None:
    whole = thumb(wide)
    answer = thumb(wide, thumbnail=9, level="token")

    assert "strongest" not in whole
    assert answer["view"] == "thumbnail"
    for name in ("model", "prediction", "tokens", "layers", "heads"):
        assert answer[name] == whole[name]
    size = len(whole["tokens"])
    assert size > 9
    weights = np.array(whole["attention"])
    thumbnails = np.array(answer["attention"])
    assert thumbnails.shape == (*weights.shape[:2], 9, 9)
    cells = np.arange(size) * 9 // size
    for query in range(9):
        for key in range(9):
            block = weights[:, :, cells == query][..., cells == key]
            assert (thumbnails[:, :, query, key] == block.max(axis=(-2, -1))).all()
    assert (np.array(answer["strongest"]) == weights.argmax(axis=-1)).all()
    assert np.array(answer["strongest_weights"]) == pytest.approx(weights.max(axis=-1), abs=1e-8)


def test_a_short_text_is_whole_and_its_special_tokens_can_be_left_out(wide: httpx.Client) -> None:
    whole = thumb(wide, reduce="mean")
    answer = thumb(wide, reduce="mean", thumbnail=128)
    assert answer["attention"] == whole["attention"]
    assert answer["view"] == "mean+thumbnail"

    plain = thumb(wide, reduce="mean", thumbnail=128, special=False)
    shown = [at for at, token in enumerate(whole["tokens"]) if not token["special"]]
    assert 0 < len(shown) < len(whole["tokens"])
    expected = np.array(whole["attention"])[:, :, shown][..., shown]
    assert (np.array(plain["attention"]) == expected).all()
    assert plain["tokens"] == whole["tokens"]
    assert plain["strongest"] == answer["strongest"]
    query: dict[str, str | int] = {"sentence": MANY, "reduce": "mean", "thumbnail": 128}
    by_query = wide.get("/attention", params={**query, "special": "false"})
    assert by_query.json() == plain


def test_several_texts_and_a_query(wide: httpx.Client) -> None:
    body = {"sentences": [MANY, "good"], "thumbnail": 9}
    first, second = wide.post("/attention", json=body).json()
    query = {"sentence": MANY, "thumbnail": "9"}
    assert wide.get("/attention", params=query).json() == thumb(wide, thumbnail=9)
    assert np.array(first["attention"]).shape[-1] == 9
    assert np.array(second["attention"]).shape[-1] == len(second["tokens"]) < 9


def test_too_many_cells_are_refused(wide: httpx.Client) -> None:
    body = {"sentences": [MANY] * 20, "thumbnail": 9}
    assert_problem(wide.post("/attention", json=body), 413, "too-many-weights")

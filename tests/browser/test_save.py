"""What is saved opens elsewhere, and holds the numbers of the service."""

import base64
import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.browser.routes import hold
from tests.browser.visits import Visit, window
from tests.end_to_end.servers import ROOT, service

SENTENCE = "The plot drags, but the cast is superb."
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with one head chosen."""
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    return visit


@pytest.fixture
def answer(client: httpx.Client) -> dict[str, Any]:
    """That head from the service."""
    body = {"sentence": SENTENCE, "layer": [3], "head": [8]}
    found: dict[str, Any] = client.post("/attention", json=body).json()
    return found


def save(visit: Visit, form: str, folder: Path) -> Path:
    """Presses a button and keeps the file under the name that the page gives it."""
    with visit.page.expect_download() as waiting:
        visit.part(".save").get_by_role("button", name=form, exact=True).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """What an archive holds, without unpickling."""
    with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def test_the_svg_opens_and_holds_every_weight(
    asked: Visit, answer: dict[str, Any], tmp_path: Path
) -> None:
    path = save(asked, "SVG", tmp_path)

    assert path.name == "headlight-layer-3-head-8.svg"
    root = ET.parse(path).getroot()  # noqa: S314 - made by the service under test
    assert root.tag == f"{SVG}svg"
    cells = [cell.get("data-weight") for cell in root.iter(f"{SVG}rect") if cell.get("data-key")]
    expected = [weight for row in answer["attention"][0][0] for weight in row]
    assert [float(cell or "nan") for cell in cells] == expected


def test_the_json_is_the_services(asked: Visit, answer: dict[str, Any], tmp_path: Path) -> None:
    path = save(asked, "JSON", tmp_path)

    assert path.name == "headlight-layer-3-head-8.json"
    assert json.loads(path.read_text(encoding="utf-8")) == answer


def test_the_table_is_the_services(asked: Visit, answer: dict[str, Any], tmp_path: Path) -> None:
    path = save(asked, "CSV", tmp_path)

    assert path.name == "headlight-layer-3-head-8.csv"
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    weights = answer["attention"][0][0]
    assert [(int(line["query"]), int(line["key"]), float(line["weight"])) for line in lines] == [
        (query, key, weight) for query, row in enumerate(weights) for key, weight in enumerate(row)
    ]


def test_all_maps_of_a_view_are_saved_as_they_are_shown(
    asked: Visit, client: httpx.Client, tmp_path: Path
) -> None:
    asked.set("reduce", "max")
    asked.set("level", "word")
    asked.part(".scope").select_option("all")
    path = save(asked, "JSON", tmp_path)

    assert path.name == "headlight-max-words.json"
    body = {"sentence": SENTENCE, "reduce": "max", "level": "word"}
    assert (
        json.loads(path.read_text(encoding="utf-8")) == client.post("/attention", json=body).json()
    )


@pytest.mark.parametrize("picture", ["lines", "map", "both"])
def test_the_png_is_twice_the_picture_with_its_margins(
    asked: Visit, tmp_path: Path, picture: str
) -> None:
    asked.set("picture", picture) if picture != "lines" else None
    path = save(asked, "PNG", tmp_path)

    assert path.name == "headlight-layer-3-head-8.png"
    sizes = asked.part(".frames canvas:visible").evaluate_all(
        "all => all.map(canvas => [canvas.clientWidth, canvas.clientHeight])"
    )
    with Image.open(path) as image:
        image.load()
        assert image.size == (
            2 * (24 + sum(width + 24 for width, _ in sizes)),
            2 * (74 + max(height for _, height in sizes) + 34),
        )
        assert image.getpixel((0, 0)) == (255, 255, 255, 255)
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50


def test_the_archive_is_the_services(asked: Visit, answer: dict[str, Any], tmp_path: Path) -> None:
    path = save(asked, "NPZ", tmp_path)

    assert path.name == "headlight-layer-3-head-8.npz"
    archive = arrays(path.read_bytes())
    assert archive["attention"] == pytest.approx(np.array(answer["attention"]), abs=1e-8)
    assert archive["tokens"].tolist() == [token["text"] for token in answer["tokens"]]


def test_a_picture_of_all_maps_has_each(asked: Visit, tmp_path: Path) -> None:
    asked.part(".scope").select_option("all")
    path = save(asked, "PNG", tmp_path)

    assert path.name == "headlight-all.png"
    with Image.open(path) as image:
        image.load()
        assert image.size == (12 * (144 + 24) + 24, 6 * (144 + 22 + 24) + 24 + 34)
        for row in range(6):
            for column in range(12):
                left, top = 24 + column * 168, 24 + row * 190 + 22
                place = image.crop((left + 1, top + 1, left + 143, top + 143)).convert("RGB")
                assert len(place.getcolors(1 << 24) or []) > 1, (row, column)


@pytest.fixture
def limited(browser: Browser, tmp_path: Path) -> Iterator[tuple[Visit, httpx.Client]]:
    """The page of a service that answers 3 heads of a text of 20 tokens at once, or 1 as CSV."""
    limit = ("--max-attention-weights", "1600")
    checkpoint = ROOT / "checkpoints" / "default"
    folders = [tmp_path / name for name in ("limited", "whole")]
    for folder in folders:
        folder.mkdir()
    with (
        service(checkpoint, folders[0], *limit) as running,
        window(browser, running.url) as visit,
        service(checkpoint, folders[1]) as other,
        other.client() as client,
    ):
        visit.ask(LONG)
        yield visit, client


LONG = "the plot drags but the cast is superb and the end is a joy to see"


@pytest.mark.parametrize("reduce", ["none", "mean"])
def test_all_maps_come_in_parts_and_are_one_file(
    limited: tuple[Visit, httpx.Client], tmp_path: Path, reduce: str
) -> None:
    visit, client = limited
    if reduce != "none":
        visit.set("reduce", reduce)
    body = {"sentence": LONG, "reduce": reduce}
    whole = client.post("/attention", json=body).json()
    weights = np.array(whole["attention"])
    visit.part(".scope").select_option("all")

    told = json.loads(save(visit, "JSON", tmp_path).read_text(encoding="utf-8"))
    assert told == whole

    path = save(visit, "NPZ", tmp_path)
    archive = arrays(path.read_bytes())
    same = arrays(client.post("/attention", json=body | {"format": "npz"}).content)
    assert archive.keys() == same.keys()
    for name in same:
        assert archive[name].dtype == same[name].dtype
        np.testing.assert_array_equal(archive[name], same[name])
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None

    table = save(visit, "CSV", tmp_path).read_bytes()
    assert table == client.post("/attention", json=body | {"format": "csv"}).content

    root = ET.parse(save(visit, "SVG", tmp_path)).getroot()  # noqa: S314 - of the service under test
    cells = [cell.get("data-weight") for cell in root.iter(f"{SVG}rect") if cell.get("data-key")]
    assert [float(cell or "nan") for cell in cells] == weights.ravel().tolist()
    assert visit.complaints == []


def test_a_long_text_is_a_picture_with_pixels(visit: Visit, tmp_path: Path) -> None:
    visit.ask(" ".join(["good"] * 150))
    visit.choose(2, 3)
    root = ET.parse(save(visit, "SVG", tmp_path)).getroot()  # noqa: S314 - of the page under test
    (image,) = root.iter(f"{SVG}image")
    encoded = (image.get("href") or "").removeprefix("data:image/png;base64,")
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        assert picture.size == (152, 152)

    visit.part(".scope").select_option("all")
    root = ET.parse(save(visit, "SVG", tmp_path)).getroot()  # noqa: S314 - of the page under test
    assert len(list(root.iter(f"{SVG}image"))) == 72
    assert "Layer 5, head 11" in "".join(root.itertext())


def test_saving_in_parts_can_be_stopped(
    limited: tuple[Visit, httpx.Client], tmp_path: Path
) -> None:
    visit, _ = limited
    visit.part(".scope").select_option("all")
    held = hold(visit)
    visit.part(".save").get_by_role("button", name="CSV", exact=True).click()
    held.wait_for(1).continue_()
    held.wait_for(2)
    with visit.page.expect_event("requestfailed"):
        visit.part(".stop").click()

    expect(visit.part(".saving")).to_be_hidden()
    expect(visit.page.locator("#status")).to_have_text("Nothing was saved.")
    visit.page.unroute("**/attention")
    assert save(visit, "CSV", tmp_path).name == "headlight-all.csv"

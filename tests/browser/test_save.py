"""What is saved opens elsewhere, and holds the numbers of the service."""

import base64
import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import expect

from tests.browser.routes import hold
from tests.browser.visits import Visit
from tests.end_to_end.servers import RunningService

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


def weights_of(path: Path) -> list[float]:
    """The numbers of the squares in a picture."""
    root = ET.parse(path).getroot()  # noqa: S314 - made by the service under test
    cells = [cell.get("data-weight") for cell in root.iter(f"{SVG}rect") if cell.get("data-key")]
    return [float(cell or "nan") for cell in cells]


def test_each_form_holds_the_numbers_of_the_service(
    asked: Visit, answer: dict[str, Any], tmp_path: Path
) -> None:
    weights = np.array(answer["attention"][0][0])
    name = "headlight-layer-3-head-8"
    paths = {form: save(asked, form, tmp_path) for form in ("SVG", "JSON", "CSV", "NPZ")}

    assert {path.name for path in paths.values()} == {f"{name}.{form.lower()}" for form in paths}
    assert weights_of(paths["SVG"]) == weights.ravel().tolist()
    assert json.loads(paths["JSON"].read_text(encoding="utf-8")) == answer
    lines = list(csv.DictReader(io.StringIO(paths["CSV"].read_text(encoding="utf-8"))))
    assert [(int(line["query"]), int(line["key"]), float(line["weight"])) for line in lines] == [
        (query, key, weight) for (query, key), weight in np.ndenumerate(weights)
    ]
    archive = arrays(paths["NPZ"].read_bytes())
    assert archive["attention"] == pytest.approx(np.array(answer["attention"]), abs=1e-8)
    assert archive["tokens"].tolist() == [token["text"] for token in answer["tokens"]]


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


def test_the_png_is_twice_the_picture_with_its_margins(asked: Visit, tmp_path: Path) -> None:
    asked.set("picture", "both")
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
def parted(visit_limited: Visit) -> Visit:
    """The page of a service that answers 1 head of this text as CSV, and all in other forms."""
    visit_limited.ask("a good film")
    visit_limited.part(".scope").select_option("all")
    return visit_limited


def test_all_maps_come_in_parts_and_are_one_file(
    parted: Visit, tiny: RunningService, tmp_path: Path
) -> None:
    visit = parted
    body = {"sentence": "a good film"}
    with tiny.client() as client:
        table = client.post("/attention", json=body | {"format": "csv"}).content
        body["sentence"] += " ."
        whole = client.post("/attention", json=body).json()
        same = arrays(client.post("/attention", json=body | {"format": "npz"}).content)
    weights = np.array(whole["attention"])
    assert save(visit, "CSV", tmp_path).read_bytes() == table

    visit.ask(body["sentence"])  # now of other forms too, only two heads come at once
    visit.part(".scope").select_option("all")
    saved = json.loads(save(visit, "JSON", tmp_path).read_text(encoding="utf-8"))
    assert saved == whole

    path = save(visit, "NPZ", tmp_path)
    archive = arrays(path.read_bytes())
    assert archive.keys() == same.keys()
    for name in same:
        assert archive[name].dtype == same[name].dtype
        np.testing.assert_array_equal(archive[name], same[name])
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None

    assert weights_of(save(visit, "SVG", tmp_path)) == weights.ravel().tolist()
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


def test_saving_in_parts_can_be_stopped(parted: Visit, tmp_path: Path) -> None:
    visit = parted
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

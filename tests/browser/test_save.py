"""What is saved opens elsewhere, and holds the numbers of the service."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
from PIL import Image

from tests.browser.visits import Visit

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


def test_a_picture_of_all_heads_says_why_it_cannot_be_had(asked: Visit) -> None:
    asked.part(".scope").select_option("all")
    asked.part(".strip button").first.click()
    asked.ask(f"{SENTENCE} {SENTENCE}")
    asked.part(".save").get_by_role("button", name="SVG", exact=True).click()

    assert "These are too many weights" in asked.problem()
    asked.complained("413")
    assert asked.page.locator("#results").is_visible()

"""A sentence, its prediction, its heads: what the page shows is what the service answers."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visits import Visit, window
from tests.end_to_end.servers import RunningService

SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "The plot drags, but the cast is superb."
# A whole tag in one word, as the tokens of markup are too short to be any.
IMAGE, BOLD = "<img/src=x/onerror=alert(1)>", "<b>not</b>"


@pytest.fixture(scope="module")
def asked(shared: Visit) -> Visit:
    shared.ask(SENTENCE)
    return shared


def answer_of(client: httpx.Client, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    response = client.post("/attention", json={"sentence": SENTENCE, **fields})
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    return answer


def table(visit: Visit) -> list[list[str]]:
    """The numbers of the large view, in full."""
    visit.part("details.table").evaluate("part => { part.open = true; }")
    found: list[list[str]] = visit.part(".table table").evaluate(
        "table => [...table.tBodies[0].rows].map(row => "
        "[...row.querySelectorAll('td[title]')].map(cell => cell.title))"
    )
    return found


def written(weights: list[list[float]]) -> list[list[str]]:
    """Weights as the page writes them in full."""
    return [[f"{weight:.8f}" for weight in row] for row in weights]


def test_before_anything_is_asked_the_page_explains_itself(visit: Visit) -> None:
    page = visit.page
    expect(page.get_by_role("heading", name="How to read this")).to_have_count(1)
    page.locator("#how summary").click()
    text = page.locator("#how").inner_text()
    assert "they are not an explanation of the prediction (Jain and Wallace 2019" in text
    assert "Wiegreffe and Pinter 2019" in text
    assert page.locator("#results").is_hidden()


def test_the_prediction_is_that_of_the_service(asked: Visit, client: httpx.Client) -> None:
    answer = answer_of(client)
    prediction, model = answer["prediction"], answer["model"]
    assert asked.page.locator("#model").inner_text() == f"{model['name']} {model['version']}"
    assert asked.part(".label").inner_text() == prediction["label"]
    assert asked.part(".score").inner_text() == f"{100 * prediction['score']:.1f} %"
    others = [
        f"{name} {100 * share:.1f} %"
        for name, share in prediction["probabilities"].items()
        if name != prediction["label"]
    ]
    assert asked.part(".others").inner_text() == ", ".join(others)
    assert asked.part(".cut").is_hidden()


def test_a_token_tells_what_it_looks_at_and_what_looks_at_it(
    asked: Visit, client: httpx.Client
) -> None:
    answer = answer_of(client, layer=[3], head=[8])
    texts = [token["text"] for token in answer["tokens"]]
    weights = answer["attention"][0][0]
    at = texts.index("superb")
    asked.choose(3, 8)
    for name, words, own in (
        ("query", "looks most at", weights[at]),
        ("key", "is looked at most by", [row[at] for row in weights]),
    ):
        most = sorted(zip(own, texts, strict=True), key=lambda pair: -pair[0])[:4]
        listed = ", ".join(f"“{text}” {weight:.4f}" for weight, text in most)
        for each in ("query", "key"):
            asked.part(f".of-{each}").select_option(str(at) if each == name else "")
        assert asked.part(".readout").inner_text() == f"“superb” {words} {listed}."
    asked.part(".of-query").select_option(str(at))
    assert asked.part(".readout").inner_text() == f"“superb” gives itself {weights[at][at]:.4f}."


def test_views_are_those_of_the_service(visit: Visit, client: httpx.Client) -> None:
    visit.open("#layer=2&head=5")
    visit.ask(SENTENCE)
    for level in ("token", "word"):
        if level == "word":
            visit.set("level", level)
        weights = answer_of(client, level=level, layer=[2], head=[5])["attention"][0][0]
        assert visit.part(".place").inner_text() == "Layer 2, head 5"
        assert table(visit) == written(weights)
        assert visit.part(".largest").inner_text() == f"{max(map(max, weights)):.4f}"


def test_special_tokens_are_hidden_and_nothing_else_changes(
    visit: Visit, client: httpx.Client
) -> None:
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    with visit.redrawn():
        visit.menu("View").get_by_label("Special tokens").uncheck()
    answer = answer_of(client, layer=[3], head=[8])
    inner = [row[1:-1] for row in answer["attention"][0][0][1:-1]]
    assert table(visit) == written(inner)
    assert "need not sum to 1" in visit.page.locator("#view-note").inner_text()
    assert visit.tokens() == [token["text"] for token in answer["tokens"][1:-1]]


COLOURS = """async (bytes) => {
  const image = await createImageBitmap(new Blob([Uint8Array.from(bytes)]));
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  return [pixels[0], ...new Set(pixels)];
}"""


def test_a_saved_picture_is_light_and_is_the_one_on_a_dark_screen(
    browser: Browser, running: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    saved = {}
    with window(browser, running.url, scheme="dark") as visit:
        visit.ask(SENTENCE)
        visit.choose(3, 8)
        shown = visit.part(".map canvas").evaluate(
            "canvas => [...canvas.getContext('2d').getImageData(0, 0, 13, 13).data]"
        )
        for form in ("svg", "png"):
            with visit.page.expect_download() as waiting:
                visit.menu("Save").get_by_role("button", name=form.upper()).click()
            assert waiting.value.suggested_filename == f"headlight-layer-3-head-8.{form}"
            waiting.value.save_as(tmp_path / form)
            saved[form] = (tmp_path / form).read_bytes()
        corner, *colours = visit.page.evaluate(COLOURS, list(saved["png"]))
    picture = ElementTree.fromstring(saved["svg"])  # noqa: S314 - of the page
    cells = [each for each in picture.iter(f"{SVG}rect") if each.get("data-weight")]
    weights = [float(cell.get("data-weight", "")) for cell in cells]
    expected = answer_of(client, layer=[3], head=[8])["attention"][0][0]
    assert weights == pytest.approx([weight for row in expected for weight in row])
    texts = [each.text for each in picture.iter(f"{SVG}text")]
    assert {SENTENCE, "Layer 3, head 8"} <= set(texts)
    # The darkest cell is the largest weight, on white: in the file, and in the window.
    shares = [weight / max(weights) for weight in weights]
    for channel, full in enumerate((11, 92, 173)):
        drawn = [255 + share * (full - 255) for share in shares]
        assert shown[channel::4] == pytest.approx(drawn, abs=1)
    assert corner == 0xFFFFFFFF
    assert 0xFFAD5C0B in colours  # #0b5cad, from the last byte to the first


@pytest.mark.parametrize(("size", "share"), [(4, 1 / 4), (12, 1 / 6), (60, 1 / 6)])
def test_an_even_head_looks_even_and_pale(shared: Visit, size: int, share: float) -> None:
    shades: list[int] = shared.page.evaluate(
        """async (size) => {
          const { src } = document.querySelector("script[type=module]");
          const load = (name) => import(src.replace("page.js", name));
          const [{ drawSmall }, { scaleEnd }] =
            await Promise.all(["drawing.js", "weights.js"].map(load));
          const canvas = document.createElement("canvas");
          const cells = new Array(size ** 2).fill(1 / size);
          drawSmall(canvas, cells, scaleEnd(1 / size, size));
          const { data } = canvas.getContext("2d").getImageData(0, 0, size, size);
          return [...data].filter((_, at) => at % 4 === 0);
        }""",
        size,
    )
    red = 255 - (255 - 11) * share  # from #ffffff to #0b5cad
    assert shades == [pytest.approx(red, abs=1)] * size**2


def test_markup_in_a_text_stays_text(visit: Visit) -> None:
    visit.open("#level=word")
    visit.ask(f"{IMAGE} is {BOLD} a film.")
    visit.part(".table summary").click()
    for word in (IMAGE, BOLD):
        assert word in visit.tokens()
        assert visit.part(".table th[scope=row]").get_by_text(word, exact=True).count() == 1
        for name in ("query", "key"):
            visit.part(f".of-{name}").select_option(str(visit.tokens().index(word)))
        assert visit.part(".readout").inner_text().startswith(f"“{word}” gives itself 0.")
    assert visit.part(":is(b, img)").count() == 0


def test_words_from_right_to_left_stand_in_the_order_of_looking(visit: Visit) -> None:
    visit.open("#level=word&special=off")
    visit.ask("אב גד")
    visit.part(".of-query").select_option(index=1)
    said = visit.page.get_by_role("status").inner_text()
    assert said.startswith("“\u2068אב\u2069” looks most at “")
    visit.part(".of-key").select_option(index=1)
    assert visit.part(".readout").inner_text().startswith("“\u2068אב\u2069” gives itself 0.")

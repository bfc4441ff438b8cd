"""Answers that choose among some classes of the model only, by the boxes of the header."""

import csv

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Request, expect

from tests.browser.table_of_many import Many
from tests.browser.visits import Visit, explained, percent, read, window

TEXT = "The store opens at nine."
PAIR = ["negative", "positive"]


def box(visit: Visit, label: str) -> Locator:
    return visit.page.get_by_role("group", name="Classes").get_by_label(label)


def bars(visit: Visit, part: str) -> list[str]:
    """The classes with their figures."""
    cells: list[str] = visit.page.locator(f"{part} .prediction dl > :not(.track)").all_inner_texts()
    return cells


@pytest.fixture
def pair(visit: Visit) -> Visit:
    """A text whose verdict is chosen among two of three classes."""
    read(visit, TEXT)
    visit.page.evaluate("document.querySelector('#answer .how').textContent = ''")
    box(visit, "neutral").uncheck()
    explained(visit)
    return visit


def predicted(client: httpx.Client, **fields: object) -> dict[str, float]:
    answer = client.post("/predict", json={"sentences": [TEXT], **fields})
    probabilities: dict[str, float] = answer.json()["predictions"][0]["probabilities"]
    return probabilities


def written(probabilities: dict[str, float]) -> list[str]:
    return [each for label, share in probabilities.items() for each in (label, percent(share))]


def test_a_verdict_chooses_among_them_only(pair: Visit, client: httpx.Client) -> None:
    assert list(predicted(client)) == ["negative", "neutral", "positive"]
    among = predicted(client, labels=PAIR)
    assert bars(pair, "#answer") == written(among)
    verdict = pair.page.locator("#answer")
    assert verdict.locator(".label").inner_text() == max(among, key=lambda label: among[label])
    # The record of how often verdicts are right is that of all classes.
    expect(verdict.locator(".reliable")).to_have_text("Chosen among negative and positive only.")


def test_two_classes_stay(pair: Visit) -> None:
    box(pair, "positive").click()
    expect(box(pair, "positive")).to_be_checked()
    assert box(pair, "neutral").is_checked() is False


def test_every_question_has_them(pair: Visit) -> None:
    asked: dict[str, object] = {}

    def note(request: Request) -> None:
        if request.method == "POST":
            path = request.url.removeprefix(pair.url)
            asked[path] = (request.post_data_json or {}).get("labels")

    pair.page.on("request", note)
    read(pair, "The shop closes at five.")
    pair.page.locator(".leave button").first.click()
    expect(pair.page.locator("#answer .outcome")).not_to_be_empty()
    with pair.redrawn():
        pair.page.get_by_role("link", name="Heads", exact=True).click()
    assert asked == dict.fromkeys(("/predict", "/attributions", "/attention", "/importance"), PAIR)


def test_a_link_to_heads_has_them(browser: Browser, pair: Visit, client: httpx.Client) -> None:
    with pair.redrawn():
        pair.page.get_by_role("link", name="Heads", exact=True).click()
    among = written(predicted(client, labels=PAIR))
    assert bars(pair, ".panel") == among
    pair.page.get_by_label("with the text").check()
    link = pair.page.get_by_label("Link", exact=True).input_value()
    assert "labels=negative,positive" in link
    with window(browser, pair.url) as other:
        with other.redrawn():
            other.page.goto(link)
        assert bars(other, ".panel") == among
        assert box(other, "neutral").is_checked() is False
        with other.redrawn():
            box(other, "neutral").check()
        assert bars(other, ".panel") == written(predicted(client))


def test_many_texts_are_scored_with_those_that_count_at_the_start(pair: Visit) -> None:
    many = Many(pair)
    many.paste("An awful film.", "A superb film.")
    many.score()
    box(pair, "neutral").check()
    assert {row[2] for row in many.rows()} == set(PAIR)
    with pair.page.expect_download() as download:
        many.button("Save as CSV").click()
    with download.value.path().open(newline="", encoding="utf-8-sig") as file:
        header = next(csv.reader(file))
    assert [name for name in header if name.startswith("probability_")] == [
        "probability_negative", "probability_positive",
    ]  # fmt: skip


def test_a_model_of_two_classes_names_them(visit_tiny: Visit) -> None:
    read(visit_tiny, "good film")
    classes = visit_tiny.page.get_by_role("group", name="Classes")
    assert classes.locator("input").count() == 0
    expect(classes).to_contain_text(", ")

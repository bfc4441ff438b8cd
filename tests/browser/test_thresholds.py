"""The threshold of the user: what is below it has no answer, and a table helps to choose it."""

import math

import httpx
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.routes import heard, questions
from tests.browser.visits import Visit, percent

SENTENCE = "The plot drags, but the cast is superb."
NOTE = (
    "Where the highest probability is below {} %, no answer is shown, as with "
    '"abstain_below": {} in a request to /predict.'
)


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer."""
    visit.ask(SENTENCE)
    return visit


def field(visit: Visit) -> Locator:
    """Where the threshold is typed."""
    return visit.page.get_by_label("No answer below")


def set_to(visit: Visit, percents: str) -> None:
    """Types a threshold."""
    with visit.redrawn():
        field(visit).fill(percents)
        field(visit).press("Enter")


def test_below_the_threshold_there_is_no_answer(asked: Visit, client: httpx.Client) -> None:
    score = float(asked.part(".score").get_attribute("title") or "")
    label = asked.part(".label").inner_text()
    shares = asked.part("dl").inner_text()
    paths = questions(asked)
    below, above = math.floor(100 * score), math.floor(100 * score) + 1

    set_to(asked, str(below))
    assert asked.part(".label").inner_text() == label
    assert asked.part(".score").inner_text() == percent(score)

    set_to(asked, str(above))
    assert asked.part(".label").inner_text() == f"no answer below {above} %"
    assert asked.part(".score").inner_text() == ""
    assert asked.part("dl").inner_text() == shares
    note = asked.page.locator("#view-note").inner_text()
    assert note == NOTE.format(above, above / 100)
    assert paths == []  # the probabilities are there: nothing is asked again
    for percents, expected in ((below, label), (above, None)):
        body = {"sentences": [SENTENCE], "abstain_below": percents / 100}
        (prediction,) = client.post("/predict", json=body).json()["predictions"]
        assert prediction["label"] == expected

    set_to(asked, "")
    assert asked.part(".label").inner_text() == label
    assert asked.page.locator("#view-note").inner_text() == ""


def test_a_score_of_the_threshold_itself_is_an_answer(visit: Visit) -> None:
    score = 0.0

    def answer(route: Route) -> None:
        answer = route.fetch().json()
        answer["prediction"] |= {"label": "positive", "score": score}
        route.fulfill(json=answer)

    visit.page.route("**/attention", answer)
    for percents, score in (("90", 0.9), ("97.5", 0.975), ("29", 0.29), ("90", 0.8999999)):
        visit.ask(SENTENCE)
        set_to(visit, percents)
        is_answer = score != 0.8999999
        expected = "positive" if is_answer else f"no answer below {percents} %"
        assert visit.part(".label").inner_text() == expected
        set_to(visit, "")


def test_it_holds_for_each_sentence(visit: Visit) -> None:
    answer = heard(visit, lambda: visit.ask("The cast is superb. It runs two hours. Perhaps."))
    sentences = answer["predictions"][0]["sentences"]
    scores = sorted(sentence["score"] for sentence in sentences)
    percents = math.floor(100 * scores[-1])
    assert 100 * scores[0] < percents

    set_to(visit, str(percents))
    expected = [
        sentence["label"] if sentence["score"] >= percents / 100 else "no answer"
        for sentence in sentences
    ]
    assert visit.part(".verdicts .name").all_inner_texts() == expected
    plain = visit.part(".sentence").evaluate_all(
        "spans => spans.map(span => !span.style.backgroundColor && !span.style.textDecoration)"
    )
    assert plain == [label == "no answer" for label in expected]
    titles = visit.part(".sentence").evaluate_all("spans => spans.map(span => span.title)")
    for title, label in zip(titles, expected, strict=True):
        assert (f": no answer below {percents} %; " in title) == (label == "no answer")


def test_what_is_no_share_changes_nothing(asked: Visit) -> None:
    label = asked.part(".label").inner_text()
    for typed in ("101", "-1"):
        field(asked).fill(typed)
        field(asked).press("Enter")
        assert field(asked).evaluate("field => field.validity.valid") is False
        assert asked.part(".label").inner_text() == label
        assert asked.page.locator("#view-note").inner_text() == ""


def test_the_table_is_the_models_record(asked: Visit, client: httpx.Client) -> None:
    model = client.get("/model").json()
    thresholds, labels = model["thresholds"], model["labels"]
    part = asked.page.locator("#thresholds")
    part.locator("summary").click()

    caption = f"What is left of {thresholds['rows']:,} texts of {', '.join(thresholds['sets'])}"
    assert part.locator("caption").inner_text() == caption
    rows = part.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    assert rows[:2] == [
        ["threshold", "answered", "accuracy", *labels],
        ["precision", "recall"] * len(labels),
    ]

    def written(share: float | None) -> str:
        return "none" if share is None else percent(share)

    assert rows[2:] == [
        [
            f"{100 * left['threshold']:.0f} %",
            written(left["share"]),
            written(left["accuracy"]),
            *(
                written(left[figure][label])
                for label in labels
                for figure in ("precision", "recall")
            ),
        ]
        for left in thresholds["by_threshold"]
    ]
    assert len(rows) == 10


def test_a_line_of_the_table_sets_its_threshold(asked: Visit) -> None:
    label = asked.part(".label").inner_text()
    asked.page.locator("#thresholds summary").click()
    button = asked.page.get_by_role("button", name="99 %")
    with asked.redrawn():
        button.click()
    assert field(asked).input_value() == "99"
    assert asked.part(".label").inner_text() == "no answer below 99 %"
    expect(button).to_have_attribute("aria-pressed", "true")

    with asked.redrawn():
        button.click()
    assert field(asked).input_value() == ""
    assert asked.part(".label").inner_text() == label
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_model_without_a_record(visit_tiny: Visit) -> None:
    visit = visit_tiny
    visit.ask("a good film")
    part = visit.page.locator("#thresholds")
    part.locator("summary").click()
    assert part.locator(".note").inner_text() == (
        "This model has no record of its own. headlight-train evaluate --record-baseline makes one."
    )
    assert part.locator("table").count() == 0

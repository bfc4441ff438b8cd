"""How one weight was made, step by step, with the numbers of the service."""

import math
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from model import reference
from tests.browser.routes import heard
from tests.browser.visits import Visit

TEXT = "The plot drags, but the cast is superb."
PATH = "attention/steps"
TITLES = [
    "The query and the key",
    "The score",
    "The softmax of the row",
    "The value\N{RIGHT SINGLE QUOTATION MARK}s part in the result",
    "The heads, one after the other",
]


def number(value: float) -> str:
    """A number as the page writes it."""
    return f"{value:.4f}".replace("-", "\N{MINUS SIGN}")


def begin(visit: Visit, text: str = TEXT) -> None:
    """One head is shown."""
    visit.ask(text)
    visit.choose(3, 8)


def button(visit: Visit) -> Locator:
    return visit.part(".how-made")


def opened(visit: Visit) -> dict[str, Any]:
    """Opens the part, and returns what the service answered."""
    answer = heard(visit, lambda: button(visit).click(), path=PATH)
    expect(visit.part(".making > li")).to_have_count(5)
    return answer


def pick(visit: Visit, query: int, key: int) -> dict[str, Any]:
    """Chooses a pair in the open part."""

    def choose() -> None:
        visit.part(".of-query").select_option(str(query))

    answer = heard(visit, choose, path=PATH)
    visit.part(".of-key").select_option(str(key))
    return answer


def step(visit: Visit, at: int) -> Locator:
    return visit.part(".making > li").nth(at)


def test_the_steps_have_the_numbers_of_the_service(visit: Visit) -> None:
    begin(visit)
    opened(visit)
    answer = pick(visit, 8, 1)
    assert answer["asked"] == {"sentence": TEXT, "layer": 3, "head": 8, "query": 8}
    tokens = [token["text"] for token in answer["tokens"]]
    weight = answer["weights"][1]
    expect(visit.part(".made-said")).to_have_text(f"“{tokens[8]}” gives “{tokens[1]}” {weight:.4f}")
    assert visit.part(".making h3").all_inner_texts() == TITLES
    expect(visit.page.locator("#status")).to_have_text(
        f"Layer 3, head 8: “{tokens[8]}” gives “{tokens[1]}” {weight:.4f}, in five steps."
    )
    query, key = answer["query_vector"], answer["keys"][1]
    total = sum(q * k for q, k in zip(query, key, strict=True))
    score = answer["scores"][1]
    assert total / math.sqrt(32) == pytest.approx(score, abs=1e-5)
    expect(step(visit, 1)).to_contain_text(
        f"add up to {number(total)}. Divided by √32 = 5.6569 this is the score: {number(score)}."
    )
    top = max(answer["scores"])
    powers = [math.exp(each - top) for each in answer["scores"]]
    assert powers[1] / sum(powers) == pytest.approx(weight, abs=1e-5)
    expect(step(visit, 2)).to_contain_text(
        f"{number(powers[1])}, divided by the sum of all such powers, {number(sum(powers))}, is "
        f"the weight: {weight:.4f}."
    )
    chips = step(visit, 2).locator(".softmax-row li")
    assert chips.locator(".figure").all_inner_texts() == [
        f"{each:.4f}" for each in answer["weights"]
    ]
    assert chips.locator(".name").all_inner_texts() == tokens
    expect(step(visit, 2).locator(".softmax-row [aria-current]")).to_have_count(1)
    assert chips.nth(1).get_attribute("aria-current") == "true"
    expect(step(visit, 4)).to_contain_text("have the places 256 to 287, counted from 0.")
    expect(step(visit, 4).locator("[aria-current]")).to_have_text("head 8")
    functions = [reference.split_heads, reference.scaled_dot_product_score, reference.softmax]
    functions += [reference.multi_head_attention, reference.concatenate_heads]
    names = visit.part(".making code").all_inner_texts()
    assert names == [each.__name__ for each in functions]
    expect(step(visit, 1)).to_contain_text("Term: Scaled dot product.")


def test_the_pair_is_what_is_chosen(visit: Visit) -> None:
    begin(visit)
    for name in ("query", "key"):
        visit.part(f".of-{name}").select_option("5")
    answer = opened(visit)
    assert answer["asked"]["query"] == 5
    assert visit.part(".of-key").input_value() == "5"
    expect(visit.part(".made-said")).to_contain_text(" gives itself ")
    assert visit.part(".map").count() == 0
    # Another token, then another head.
    answer = pick(visit, 6, 5)
    assert answer["asked"]["query"] == 6
    answer = heard(visit, lambda: visit.head(0, 2).click(), path=PATH)
    assert {name: answer["asked"][name] for name in ("layer", "head", "query")} == {
        "layer": 0, "head": 2, "query": 6,
    }  # fmt: skip


def test_with_only_the_keyboard(visit: Visit) -> None:
    begin(visit)
    press = visit.page.keyboard.press
    visit.part(".of-query").focus()
    press("ArrowDown")
    press("ArrowDown")
    press("Tab")
    press("Tab")
    expect(button(visit)).to_be_focused()
    assert button(visit).get_attribute("aria-expanded") == "false"
    answer = heard(visit, lambda: press("Enter"), path=PATH)
    assert answer["asked"]["query"] == 1
    assert button(visit).get_attribute("aria-expanded") == "true"
    expect(button(visit)).to_be_focused()
    press("Shift+Tab")
    expect(visit.part(".of-key")).to_be_focused()
    press("Home")
    press("ArrowDown")
    press("ArrowDown")
    expect(visit.part(".of-key")).to_have_value("2")
    expect(visit.part(".made-said")).to_contain_text(f"{answer['weights'][2]:.4f}")
    press("Tab")
    press("Tab")
    press("Enter")
    expect(step(visit, 0).locator("table")).to_be_visible()
    press("Escape")
    expect(visit.part(".map")).to_be_visible()
    expect(visit.part(".made")).to_be_hidden()
    expect(button(visit)).to_be_focused()
    # The choice of the token stays: only a second Escape takes it back.
    expect(visit.part(".of-query")).to_have_value("1")
    press("Escape")
    expect(visit.part(".of-query")).to_have_value("")


def test_words_have_no_steps(visit: Visit) -> None:
    begin(visit)
    opened(visit)
    visit.set("level", "word")
    assert button(visit).count() == visit.part(".made").count() == 0

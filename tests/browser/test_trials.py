"""Would it still hold? Words left out, heads off, and how the probability moves."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.routes import heard
from tests.browser.visits import Visit, percent

TEXT = "The plot drags, but the cast is superb."
WORDS = TEXT.split()


def without(*places: int) -> str:
    """The text that is left, the spaces around a word included."""
    return " ".join("" if at in places else word for at, word in enumerate(WORDS))


def ask(visit: Visit, text: str = TEXT) -> dict[str, Any]:
    """Asks, and returns the prediction that everything is compared with."""
    answer = heard(visit, lambda: visit.ask(text), path="attention")
    prediction: dict[str, Any] = answer["prediction"]
    return prediction


def moved(before: dict[str, Any], answer: dict[str, Any]) -> str:
    """What the page says of an answer after the name of a trial."""
    (after,) = answer["predictions"]
    label = before["label"]
    from_, to = (percent(each["probabilities"][label]) for each in (before, after))
    if after["label"] == label:
        return f"{label} {from_} → {to}. The verdict holds."
    return (
        f"{label} {from_} → {to}. The verdict turns to {after['label']}, {percent(after['score'])}."
    )


def press(visit: Visit, selector: str) -> Callable[[], None]:
    return lambda: visit.part(selector).click()


def leave_out(visit: Visit, at: int) -> dict[str, Any]:
    return heard(visit, lambda: visit.part(".leave button").nth(at).click())


def test_leaving_a_word_out_of_the_text_is_leaving_out_its_tokens(client: httpx.Client) -> None:
    for at, word in enumerate(WORDS):
        start = TEXT.index(word)
        asked = client.post("/attention", json={"sentence": TEXT, "layer": [0], "head": [0]})
        omit = [
            number
            for number, token in enumerate(asked.json()["tokens"])
            if not token["special"] and start <= token["start"] < start + len(word)
        ]
        shares = [
            client.post("/predict", json=body).json()["predictions"][0]["probabilities"]
            for body in ({"sentences": [TEXT], "omit": omit}, {"sentences": [without(at)]})
        ]
        assert shares[0] == pytest.approx(shares[1], abs=1e-4)


def test_a_word_that_decided_the_verdict_is_found(visit: Visit) -> None:
    before = ask(visit)
    assert visit.part(".leave button").all_inner_texts() == WORDS
    answer = leave_out(visit, 7)

    assert answer["asked"] == {"sentences": [without(7)]}
    assert (before["label"], answer["predictions"][0]["label"]) == ("positive", "negative")
    expect(visit.part(".outcome")).to_have_text(f"Without “superb.”: {moved(before, answer)}")
    expect(visit.page.locator("#status")).to_have_text(visit.part(".outcome").inner_text())
    assert visit.part(".label").inner_text() == "positive"


def test_heads_are_switched_off_and_on(visit: Visit) -> None:
    before = ask(visit)
    visit.head(5, 3).click()
    head, layer = visit.part(".off-head"), visit.part(".off-layer")
    expect(head).to_have_text("Switch off layer 5, head 3")
    answer = heard(visit, press(visit, ".off-head"))
    assert answer["asked"] == {"sentences": [TEXT], "head_mask": [{"layer": 5, "head": 3}]}
    expect(visit.part(".outcome")).to_have_text(f"Off: layer 5, head 3: {moved(before, answer)}")

    expect(head).to_have_text("Switch on layer 5, head 3")
    expect(layer).to_have_text("Switch off all heads of layer 5")
    answer = heard(visit, press(visit, ".off-layer"))
    assert answer["asked"]["head_mask"] == [{"layer": 5, "head": 3}, {"layer": 5}]
    answer = heard(visit, press(visit, ".off-head"))
    assert answer["asked"]["head_mask"] == [{"layer": 5}]
    visit.head(2, 1).click()
    expect(layer).to_have_text("Switch off all heads of layer 2")
    expect(visit.part(".outcome")).to_contain_text("Off: all heads of layer 5: ")


def test_undo_goes_back_step_by_step_and_reset_at_once(visit: Visit) -> None:
    before = ask(visit)
    undo, reset = visit.part(".undo"), visit.part(".reset")
    expect(undo).to_be_disabled()
    expect(reset).to_be_disabled()
    first = leave_out(visit, 2)
    leave_out(visit, 7)
    again = heard(visit, press(visit, ".undo"))
    assert again["asked"] == first["asked"]
    expect(visit.part(".outcome")).to_have_text(f"Without “drags,”: {moved(before, again)}")
    undo.click()
    expect(visit.part(".outcome")).to_have_text("")
    expect(undo).to_be_disabled()
    leave_out(visit, 2)
    reset.click()
    expect(visit.part(".leave [aria-pressed=true]")).to_have_count(0)
    expect(reset).to_be_disabled()
    heard(visit, press(visit, ".undo"))
    expect(visit.part(".leave [aria-pressed=true]")).to_have_text(["drags,"])


def test_what_was_tried_can_be_tried_again(visit: Visit) -> None:
    ask(visit)
    first = leave_out(visit, 7)
    leave_out(visit, 2)
    visit.part(".history summary").click()
    entries = visit.part(".tried button")
    expect(entries).to_have_count(2)
    again = heard(visit, lambda: entries.nth(1).click())
    assert again["asked"] == first["asked"]
    expect(visit.part(".leave [aria-pressed=true]")).to_have_text(["superb."])
    expect(entries).to_have_count(2)

    visit.ask("A dull film.")
    expect(visit.part(".history")).to_be_hidden()
    expect(visit.part(".outcome")).to_have_text("")
    assert visit.part(".leave button").all_inner_texts() == ["A", "dull", "film."]


def test_one_word_stays(visit: Visit) -> None:
    ask(visit, "superb film")
    leave_out(visit, 0)
    expect(visit.part(".leave button").nth(1)).to_be_disabled()
    expect(visit.part(".leave button").nth(0)).to_be_enabled()


def test_a_view_by_words_keeps_the_words_and_joined_heads_have_none_to_switch(
    visit: Visit,
) -> None:
    ask(visit)
    visit.set("level", "word")
    assert leave_out(visit, 7)["asked"]["sentences"] == [without(7)]
    visit.set("reduce", "mean")
    expect(visit.part(".off-head")).to_be_hidden()
    expect(visit.part(".leave [aria-pressed=true]")).to_have_text(["superb."])


def test_the_keys_lead_through_it(visit: Visit) -> None:
    ask(visit)
    visit.part(".leave button").nth(0).focus()
    for key in ("End", "ArrowLeft", "ArrowRight"):
        visit.page.keyboard.press(key)
    answer = heard(visit, lambda: visit.page.keyboard.press("Space"))
    assert answer["asked"]["sentences"] == [without(7)]
    expect(visit.part(".leave button").nth(7)).to_be_focused()
    visit.page.keyboard.press("Tab")
    expect(visit.part(".off-head")).to_be_focused()


def replace(visit: Visit, word: str, by: str) -> dict[str, Any]:
    """Replaces a word, and returns the answer."""
    visit.part(".which").select_option(label=word)
    visit.part(".by").fill(by)
    return heard(visit, lambda: visit.part(".by").press("Enter"))


def test_a_word_is_replaced(visit: Visit) -> None:
    before = ask(visit)
    answer = replace(visit, "superb.", "awful 🎬.")

    assert answer["asked"] == {"sentences": ["The plot drags, but the cast is awful 🎬."]}
    expect(visit.part(".outcome")).to_have_text(
        f"“awful 🎬.” for “superb.”: {moved(before, answer)}"
    )
    expect(visit.part(".leave button").nth(7)).to_have_text("superb. → awful 🎬.")
    answer = replace(visit, "drags,", "shines,")
    assert answer["asked"] == {"sentences": ["The plot shines, but the cast is awful 🎬."]}
    visit.part(".undo").click()
    expect(visit.part(".leave button").nth(2)).to_have_text("drags,")


def test_a_word_is_left_out_of_a_sentence_with_another_word(visit: Visit) -> None:
    ask(visit)
    replace(visit, "The", "Most unquestionably the")
    answer = leave_out(visit, 7)

    sentence = "Most unquestionably the plot drags, but the cast is superb."
    assert answer["asked"] == {"sentences": [sentence.replace("superb.", "")]}
    expect(visit.part(".outcome")).to_contain_text(
        "“Most unquestionably the” for “The”; without “superb.”: "
    )
    # A word that is replaced is there again.
    answer = replace(visit, "superb.", "great.")
    assert answer["asked"] == {"sentences": [sentence.replace("superb", "great")]}


def test_back_and_forward_lead_through_what_was_tried(visit: Visit) -> None:
    ask(visit)
    leave_out(visit, 7)
    replace(visit, "plot", "story")
    pressed = visit.part(".leave [aria-pressed=true]")
    other = visit.part(".leave .other")
    back = heard(visit, lambda: visit.page.evaluate("history.back()"))
    assert back["asked"] == {"sentences": [without(7)]}
    expect(other).to_have_count(0)
    expect(pressed).to_have_text(["superb."])
    visit.page.evaluate("history.back()")
    expect(pressed).to_have_count(0)
    expect(visit.part(".outcome")).to_have_text("")
    visit.page.evaluate("history.forward()")
    expect(pressed).to_have_text(["superb."])
    visit.page.evaluate("history.forward()")
    expect(other).to_have_text(["plot → story"])


def test_a_reload_restores_the_text_and_what_was_tried(visit: Visit) -> None:
    ask(visit)
    visit.choose(2, 4)
    leave_out(visit, 7)
    outcome = visit.part(".outcome").inner_text()
    visit.wait_until(lambda: "layer=2" in visit.page.url)
    with visit.redrawn():
        visit.page.reload()

    assert visit.page.get_by_label("Text", exact=True).input_value() == TEXT
    expect(visit.part(".leave [aria-pressed=true]")).to_have_text(["superb."])
    expect(visit.part(".outcome")).to_have_text(outcome)
    assert visit.part(".place").inner_text() == "Layer 2, head 4"
    assert "superb" not in visit.page.url


def test_heads_that_are_off_are_crossed_out(visit: Visit) -> None:
    ask(visit)
    visit.choose(5, 3)
    heard(visit, press(visit, ".off-head"))
    off = visit.part(".cell .off")
    expect(off).to_have_count(1)
    name = off.get_attribute("aria-label") or ""
    assert name.startswith("Layer 5, head 3. ")
    assert name.endswith(" Switched off.")
    heard(visit, press(visit, ".off-layer"))
    expect(off).to_have_count(12)
    visit.part(".reset").click()
    expect(off).to_have_count(0)


def test_another_trial_closes_what_stood_beside(visit: Visit) -> None:
    ask(visit)
    visit.choose(5, 3)
    heard(visit, press(visit, ".off-head"))
    with visit.redrawn():
        visit.part(".beside").click()
    panels = visit.page.locator("#panels .panel")
    expect(panels).to_have_count(2)
    with visit.redrawn():
        visit.part(".reset").click()
    expect(panels).to_have_count(1)

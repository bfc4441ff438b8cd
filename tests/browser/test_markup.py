"""Markup and ways of writing in a text stay text wherever it stands."""

from tests.browser.visits import Visit

# A whole tag in one word, as the tokens of markup are too short to be any.
IMAGE, BOLD = "<img/src=x/onerror=alert(1)>", "<b>not</b>"
SENTENCE = f"{IMAGE} is {BOLD} a film."


def elements(visit: Visit) -> int:
    """Those that only markup in the text can have made."""
    return visit.page.locator(".panel :is(b, img)").count()


def test_markup_in_a_text_stays_text(visit: Visit) -> None:
    visit.open("#level=word")
    visit.ask(SENTENCE)
    visit.part(".table summary").click()
    assert elements(visit) == 0
    for word in (IMAGE, BOLD):
        assert word in visit.tokens()
        assert visit.part(".table th[scope=row]").get_by_text(word, exact=True).count() == 1
        for name in ("query", "key"):
            visit.part(f".of-{name}").select_option(str(visit.tokens().index(word)))
        assert visit.part(".readout").inner_text().startswith(f"“{word}” gives itself 0.")
        assert elements(visit) == 0


def test_words_from_right_to_left_stand_in_the_order_of_looking(visit: Visit) -> None:
    visit.open("#level=word&special=off")
    visit.ask("אב גד")
    visit.part(".of-query").select_option(index=1)
    said = visit.page.get_by_role("status").inner_text()
    assert said.startswith("“\u2068אב\u2069” looks most at “")
    visit.part(".of-key").select_option(index=1)
    assert visit.part(".readout").inner_text().startswith("“\u2068אב\u2069” gives itself 0.")

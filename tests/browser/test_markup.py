"""Markup and ways of writing in a text stay text wherever it stands."""

from tests.browser.visits import Visit

# A whole tag in one word, as the tokens of markup are too short to be any.
IMAGE, BOLD = "<img/src=x/onerror=alert(1)>", "<b>not</b>"
SENTENCE = f"{IMAGE} is {BOLD} a film."


def written(visit: Visit, selector: str) -> str:
    """All that stands in some elements."""
    return " ".join(visit.part(selector).all_text_contents())


def by_words(visit: Visit) -> None:
    """The words of the sentence in the strip, a list and the table."""
    visit.open("#level=word")
    visit.ask(SENTENCE)
    visit.part(".table summary").click()


def elements(visit: Visit) -> int:
    """Those that only markup in the text can have made."""
    return visit.page.locator(".panel :is(b, img)").count()


def test_markup_in_a_text_stays_text(visit: Visit) -> None:
    by_words(visit)
    assert elements(visit) == 0
    for word in (IMAGE, BOLD):
        assert word in visit.part(".strip button").all_inner_texts()
        assert visit.part(".table th[scope=row]").get_by_text(word, exact=True).count() == 1
        visit.part(".strip button").get_by_text(word, exact=True).click()
        assert visit.part(".lists .out h4").inner_text() == f"“{word}” looks most at"
        assert word in written(visit, ".lists .into .name") + written(visit, ".lists .into h4")
        assert elements(visit) == 0


def places(visit: Visit, selector: str) -> list[float]:
    """Where elements begin, from left to right."""
    found: list[float] = visit.part(selector).evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().left)"
    )
    return found


def test_who_looks_stands_left_of_what_is_looked_at(visit: Visit) -> None:
    visit.open("#level=word&special=off")
    visit.ask("אב גד")

    rows = visit.part(".lists .out .name")
    assert rows.count() == 4
    for at in range(rows.count()):
        assert rows.nth(at).inner_text().split(" → ") in (
            ["אב", "אב"], ["אב", "גד"], ["גד", "אב"], ["גד", "גד"],
        )  # fmt: skip
    assert len(places(visit, ".lists .out .name bdi")) == 8
    lefts = places(visit, ".lists .out .name bdi")
    for asking, asked in zip(lefts[::2], lefts[1::2], strict=True):
        assert asking < asked


def test_a_figure_stands_behind_a_word_from_right_to_left(visit: Visit) -> None:
    visit.open("#level=word")
    visit.ask("אב גד")
    visit.part(".strip button").nth(1).click()

    said = visit.page.get_by_role("status").inner_text()
    assert said.startswith("“\u2068אב\u2069” looks most at “")
    assert visit.part(".readout").inner_text().startswith("“\u2068אב\u2069” gives itself 0.")


def test_a_text_is_typed_in_its_own_direction(visit: Visit) -> None:
    field = visit.page.get_by_label("Text", exact=True)
    for text, direction in (("אב גד", "rtl"), ("a film", "ltr")):
        field.fill(text)
        assert field.evaluate("field => getComputedStyle(field).direction") == direction

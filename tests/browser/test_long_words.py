"""A word of thousands of characters is drawn like any other."""

import pytest

from tests.browser.visits import Visit

MEASURE = """() => {
  window.measured = [];
  window.written = [];
  const { measureText, fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.measureText = function (text) {
    window.measured.push(text.length);
    return measureText.call(this, text);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.written.push(text);
    fillText.call(this, text, ...place);
  };
}"""
WORDS = 7  # see, the long one, it, was, good with its point, and two special tokens
STEPS = 8  # halvings of 200 characters


@pytest.mark.parametrize("picture", ["lines", "map"])
@pytest.mark.parametrize("word", ["deadbeef" * 1000, "\U0001f600" * 300])
def test_few_short_texts_are_measured(visit: Visit, picture: str, word: str) -> None:
    visit.open(f"#level=word&view={picture}")
    visit.ask("A superb film.")
    visit.page.evaluate(MEASURE)
    visit.ask(f"See {word} it was good.")

    measured = visit.page.evaluate("window.measured")
    assert visit.part(".strip button").count() == WORDS
    # Once for the widest, once to see whether it fits, and while the long one is halved.
    assert WORDS <= len(measured) <= 2 * WORDS + STEPS
    assert max(measured) <= 2 * 200 + 1
    (long,) = {text for text in visit.page.evaluate("window.written") if text[:1] == word[:1]}
    assert long.endswith("…")
    assert word.startswith(long[:-1])
    assert 3 < len(long) < 100

    visit.page.evaluate("window.measured = []")
    visit.part(".strip button").first.click()
    visit.part(".cell button").first.click()
    count = len(visit.page.evaluate("window.measured"))
    visit.part(".strip button").nth(2).hover()
    visit.part(".strip button").nth(3).hover()
    visit.page.evaluate("new Promise(requestAnimationFrame)")
    assert len(visit.page.evaluate("window.measured")) == count

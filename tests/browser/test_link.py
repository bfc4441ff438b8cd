"""A link restores the view; the text is in it only if the user wants it there."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.routes import hold
from tests.browser.visits import Visit, window

SENTENCE = "The plot drags & drags, but 100 % of the cast is “superb” #1."


@pytest.fixture
def chosen(visit: Visit) -> Visit:
    """The page with a view that is not the usual one."""
    visit.ask(SENTENCE, "The plot drags.")
    visit.set("reduce", "max")
    visit.set("level", "word")
    visit.set("picture", "both")
    with visit.redrawn():
        visit.page.get_by_label("Special tokens").uncheck()
    visit.part(".cell button").nth(4).click()
    return visit


def link(visit: Visit) -> str:
    """What the page offers to copy."""
    return visit.page.get_by_label("Link", exact=True).input_value()


def is_restored(visit: Visit) -> None:
    """Whether the view of `chosen` is on screen."""
    assert visit.part(".place").inner_text() == "Layer 4, largest of heads 0 to 11"
    for name, value in (("reduce", "max"), ("level", "word"), ("picture", "both")):
        expect(visit.page.locator(f"input[name={name}][value={value}]")).to_be_checked()
    expect(visit.page.get_by_label("Special tokens")).not_to_be_checked()
    assert visit.page.locator(".panel").count() == 2
    assert visit.part(".lines canvas").is_visible()
    assert visit.part(".map canvas").is_visible()


def test_a_link_restores_the_view_without_the_text(chosen: Visit, browser: Browser) -> None:
    address = urlsplit(link(chosen))
    assert address.query == ""
    assert parse_qs(address.fragment).keys() == {
        "layer", "head", "reduce", "level", "view", "special", "compare",
    }  # fmt: skip
    expect(chosen.page).to_have_url(link(chosen))
    with window(browser, chosen.url) as other:
        other.open(f"#{address.fragment}")
        other.page.reload()
        assert other.page.locator("#results").is_hidden()
        other.ask("Another text altogether.", "And one more.")
        is_restored(other)


def test_a_link_takes_the_text_along_if_asked(chosen: Visit, browser: Browser) -> None:
    chosen.page.get_by_label("with the text").check()
    address = urlsplit(link(chosen))
    assert address.query == ""
    fields = parse_qs(address.fragment)
    assert (fields["text"], fields["text2"]) == ([SENTENCE], ["The plot drags."])
    with window(browser, chosen.url) as other:
        with other.redrawn():
            other.page.evaluate("fragment => { location.hash = fragment; }", address.fragment)
        assert other.page.get_by_label("Text", exact=True).input_value() == SENTENCE
        is_restored(other)
    chosen.page.get_by_label("with the text").uncheck()
    assert "text" not in link(chosen)
    expect(chosen.page).to_have_url(link(chosen))


def test_the_address_waits_until_the_view_rests(visit: Visit) -> None:
    visit.ask(SENTENCE)
    visit.head(3, 0).focus()
    links, written = visit.page.evaluate(
        """async () => {
          const written = [];
          const replace = history.replaceState;
          const rested = new Promise((resolve) => {
            history.replaceState = (...given) => {
              written.push(String(given[2]));
              replace.apply(history, given);
              resolve();
            };
          });
          const links = [];
          for (let step = 0; step < 9; step += 1) {
            const event = new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true });
            document.activeElement.dispatchEvent(event);
            links.push(document.getElementById('link').value);
          }
          await rested;
          return [links, written];
        }"""
    )
    assert [parse_qs(urlsplit(one).fragment)["head"] for one in links] == [
        [str(head)] for head in range(1, 10)
    ]
    assert written == links[-1:]


def test_an_address_typed_while_another_waits_stays(visit: Visit) -> None:
    visit.ask(SENTENCE)
    # A clock that is put in the place of the browser's cannot stop what the latter has begun.
    expect(visit.page).to_have_url(link(visit))
    visit.page.clock.install()
    held = hold(visit)
    visit.page.evaluate(
        """() => {
          document.querySelectorAll('.cell button')[5].click();
          location.hash = '#layer=4&head=7';
        }"""
    )
    held.wait_for(1)
    visit.page.clock.fast_forward(1_000)
    assert visit.page.url == f"{visit.url}/#layer=4&head=7"


def test_the_link_is_copied(chosen: Visit) -> None:
    chosen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    # The button says so for two seconds: here for as long as it takes to look.
    chosen.page.evaluate("window.setTimeout = () => 0")
    chosen.page.get_by_role("button", name="Copy link").click()
    expect(chosen.page.get_by_role("button", name="Copied")).to_be_visible()
    assert chosen.page.evaluate("navigator.clipboard.readText()") == link(chosen)


def test_every_field_of_a_link_comes_back(visit: Visit) -> None:
    visit.ask(SENTENCE)
    for fragment in (
        "layer=1&head=2&layers=0,1&heads=0,2,3&importance=on",
        "layer=4&head=7&view=several&overlay=5,7&special=off",
        "layer=3&reduce=mean&level=word&view=map&whole=on",
    ):
        with visit.redrawn():
            visit.page.evaluate("fragment => { location.hash = fragment; }", fragment)

        assert parse_qs(urlsplit(link(visit)).fragment) == parse_qs(fragment)


@pytest.mark.parametrize(
    "fragment",
    [
        "layer=99&head=-1&reduce=sum&level=<b>&view=3d&special=maybe&layers=7,99&heads=x&window=-1",
        "layers=1e1&overlay=",
    ],
)
def test_nonsense_in_a_link_is_passed_over(visit: Visit, fragment: str) -> None:
    visit.open(f"#{fragment}")
    visit.page.reload()
    visit.ask("The plot drags.")
    assert visit.part(".overview-title").inner_text() == "72 heads"
    assert visit.page.locator("#some-chosen").inner_text() == "all"
    assert parse_qs(urlsplit(link(visit)).fragment).keys() == {"layer", "head"}

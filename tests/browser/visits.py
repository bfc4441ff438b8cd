"""A visit to the page: its sentences are asked, its answers waited for, its complaints noted."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
)

Scheme = Literal["light", "dark"]
WIDE, NARROW = 1440, 360
PATIENCE = 60_000.0  # milliseconds: only a test that fails ever waits for so long


@dataclass(slots=True)
class Visit:
    """One window with the page in it.

    It notes the errors and warnings of the browser's console, and the addresses of other hosts that
    were asked. `url` is that of the service, without a slash at the end.
    """

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def open(self, fragment: str = "#quiet") -> None:
        """Goes to the page: to its heads, without an example, if the fragment names no tab."""
        was = self.page.url
        self.page.goto(f"{self.url}/{fragment}")
        if was.startswith(self.url):
            self.page.reload()

    def ask(self, sentence: str) -> None:
        """Types a sentence, asks, and waits until the answer is drawn."""
        self.page.locator("#heads-tab").wait_for()
        self.page.get_by_label("Text", exact=True).fill(sentence)
        with self.redrawn():
            self.page.get_by_role("button", name="Read it", exact=True).click()

    @contextmanager
    def redrawn(self) -> Iterator[None]:
        """Waits until what is done inside has been drawn and painted."""
        # The page counts a drawing one frame and one timer after it: what was drawn before is
        # counted first, so that it is not taken for what is done inside.
        self.page.evaluate(
            """async () => {
              await new Promise(requestAnimationFrame);
              await new Promise((resolve) => { setTimeout(resolve); });
              delete document.documentElement.dataset.drawn;
            }"""
        )
        yield
        self.page.locator("html[data-drawn]").wait_for(state="attached", timeout=PATIENCE)

    def menu(self, name: str) -> Locator:
        """What is in a menu of the heads, which is opened."""
        menu = self.part(".menu").filter(has_text=name)
        if menu.get_attribute("open") is None:
            menu.locator("summary").click()
        return menu

    def set(self, name: str, value: str) -> None:
        """Chooses one of the views of the heads."""
        with self.redrawn():
            menu = self.menu("View")
            menu.locator(f"[name={name}]").select_option(value)
            menu.locator("summary").press("Escape")

    def tokens(self) -> list[str]:
        """What can be chosen to look."""
        options = self.part(".of-query option").all_inner_texts()[1:]
        return [option.partition(": ")[2] for option in options]

    def part(self, selector: str) -> Locator:
        return self.page.locator(".panel").locator(selector)

    def head(self, layer: int, head: int) -> Locator:
        """The button of a head."""
        return self.part(".grid").get_by_role("button", name=f"Layer {layer}, head {head}.")

    def choose(self, layer: int, head: int) -> None:
        """Chooses a head, and waits until it is shown large."""
        self.head(layer, head).click()
        expect(self.part(".place")).to_have_text(f"Layer {layer}, head {head}")

    def problem(self) -> str:
        box = self.page.locator("#problem")
        box.wait_for(state="visible", timeout=PATIENCE)
        return box.inner_text()

    def try_again(self) -> None:
        """Presses the button in the box, and waits until the answer is drawn."""
        with self.redrawn():
            self.page.get_by_role("button", name="Try again").click()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Lets the browser go on until something holds."""
        until = time.monotonic() + PATIENCE / 1000
        while not condition() and time.monotonic() < until:
            self.page.wait_for_timeout(20)

    def complained(self, text: str) -> None:
        """Takes out the complaints that hold a text, once there is one."""
        self.wait_until(lambda: any(text in complaint for complaint in self.complaints))
        rest = [complaint for complaint in self.complaints if text not in complaint]
        assert len(rest) < len(self.complaints), self.complaints
        self.complaints[:] = rest

    def call(self, module: str, function: str, *arguments: object) -> Any:  # noqa: ANN401
        """What a function of one of the page's modules returns."""
        script = """async ([module, name, given]) => {
          const { src } = document.querySelector('script[type=module]');
          return (await import(src.replace('page.js', module)))[name](...given);
        }"""
        return self.page.evaluate(script, [module, function, arguments])

    def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        found: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found


def watch(page: Page, url: str) -> Visit:
    """A visit that notes what the browser complains about and where it asks."""
    visit = Visit(page, url)
    host = urlsplit(url).netloc

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            path = urlsplit(message.location["url"]).path
            visit.complaints.append(f"{message.text} {path}")

    def see(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.netloc != host:
            visit.elsewhere.append(request.url)

    page.on("console", hear)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("request", see)
    return visit


@contextmanager
def window(
    browser: Browser, url: str, *, width: int = WIDE, scheme: Scheme = "light"
) -> Iterator[Visit]:
    """A window of its own; at its end nothing may have gone wrong, and nobody else been asked."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    try:
        visit = watch(context.new_page(), url)
        visit.open()
        yield visit
        assert visit.complaints == []
        assert visit.elsewhere == []
    finally:
        context.close()


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def come(visit: Visit) -> None:
    """Opens the page as on a first visit, and waits for its example."""
    visit.page.evaluate("history.replaceState(null, '', location.pathname)")
    visit.page.reload()
    explained(visit)


def explained(visit: Visit) -> None:
    """Waits until it is said what leaving out changes, after which nothing moves by itself."""
    visit.page.locator("#answer .passage").wait_for()
    expect(visit.page.locator("#answer .how", has_text="so far")).to_have_count(0)


def read(visit: Visit, text: str) -> None:
    """Opens *One review*, asks, and waits until all of it is there."""
    visit.page.get_by_role("link", name="One review", exact=True).click()
    visit.page.get_by_label("Text", exact=True).fill(text)
    visit.page.get_by_role("button", name="Read it", exact=True).click()
    visit.page.locator("#answer:not([aria-busy])").wait_for()
    explained(visit)

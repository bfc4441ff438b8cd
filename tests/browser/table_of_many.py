"""The section for many sentences: what is put in, what is shown, and a service that is made up."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Dialog, FilePayload, Locator, Route, expect

from tests.browser.routes import body_of
from tests.browser.visits import Visit

Prediction = dict[str, Any]


# Without slots: Playwright leaves marks on whose methods it calls.
@dataclass
class Many:
    """The section of a visit, opened."""

    visit: Visit
    asked: list[str] = field(default_factory=list)  # whether verdicts may go
    answer: bool = True

    def __post_init__(self) -> None:
        self.visit.page.on("dialog", self._answer)
        self.visit.page.get_by_role("link", name="A file", exact=True).click()

    def _answer(self, dialog: Dialog) -> None:
        self.asked.append(dialog.type)
        (dialog.accept if self.answer else dialog.dismiss)()

    def part(self, selector: str) -> Locator:
        """What is inside the section."""
        return self.visit.page.locator("#many-tab").locator(selector)

    def button(self, name: str) -> Locator:
        return self.visit.page.locator("#many-tab").get_by_role("button", name=name, exact=True)

    def paste(self, *lines: str) -> None:
        self.visit.page.get_by_label("Or paste texts").fill("\n".join(lines))

    def choose(self, name: str, content: str | bytes) -> None:
        raw = content.encode() if isinstance(content, str) else content
        file: FilePayload = {"name": name, "mimeType": "text/plain", "buffer": raw}
        self.visit.page.get_by_label("Choose a file").set_input_files(file)

    def score(self, state: str = "Done") -> None:
        """Presses the button and waits for the end of the run."""
        self.button("Score").click()
        self.wait(state)

    def wait(self, state: str) -> None:
        """Waits until the line beside the bar begins with a text."""
        expect(self.part("#many-state")).to_have_text(re.compile(f"^{re.escape(state)}"))

    def change(self) -> Locator:
        """Opens what can be changed of how the file is read."""
        self.button("Change").click()
        return self.part("#many-how")

    def note(self) -> str:
        """What is said of the source, once something is."""
        box = self.part("#many-note")
        expect(box).to_have_text(re.compile(r"^(?!Reading )."))
        return box.inner_text()

    def rows(self) -> list[list[str]]:
        """The cells of the page of the table, without the button."""
        found: list[list[str]] = self.part("#rows").evaluate(
            "table => [...table.tBodies[0].rows].map(row => "
            "[...row.cells].slice(0, 5).map(cell => cell.textContent))"
        )
        return found

    def column(self, at: int) -> list[str]:
        return [row[at] for row in self.rows()]

    def counts(self) -> dict[str, str]:
        found: dict[str, str] = self.part("#counts").evaluate(
            "list => Object.fromEntries([...list.children].map(item => "
            "[...item.children].map(part => part.textContent)))"
        )
        return found

    def save(self, folder: Path) -> Path:
        with self.visit.page.expect_download() as waiting:
            self.button("Download CSV").click()
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path


def records_of(table: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a saved table."""
    text = table.read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


def prediction_of(shares: Mapping[str, float], *, truncated: bool = False) -> Prediction:
    label = max(shares, key=lambda name: shares[name])
    return {
        "label": label,
        "score": shares[label],
        "probabilities": dict(shares),
        "token_count": 5,
        "truncated": truncated,
    }


@dataclass  # without slots for the same reason
class MadeUp:
    """Answers `/predict` in the place of the service.

    `before` may answer a route itself, given how many came before; it returns whether it did.
    """

    predict: Callable[[str], Prediction]
    before: Callable[[Route, int], bool] = lambda _, __: False
    version: str = "0123456789ab"
    asked: list[Sequence[str]] = field(default_factory=list)
    count: int = 0

    def stand_in(self, visit: Visit) -> None:
        visit.page.route("**/predict", self._answer)

    def _answer(self, route: Route) -> None:
        at, self.count = self.count, self.count + 1
        if self.before(route, at):
            return
        sentences = body_of(route)["sentences"]
        self.asked.append(sentences)
        model = {"name": "default", "version": self.version}
        predictions = [self.predict(sentence) for sentence in sentences]
        route.fulfill(json={"model": model, "predictions": predictions})

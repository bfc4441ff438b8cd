"""What stands between the page and its service in tests: answers held back, refused or altered."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Request, Route

from service.errors import ALL_ERRORS
from tests.browser.visits import Visit

Answer = dict[str, Any]
TITLES = {error.type: error.title for error in ALL_ERRORS}


def problem_of(status: int, kind: str, retry_after: int | None = None) -> dict[str, Any]:
    """What a route is fulfilled with to be the service's problem."""
    title = TITLES.get(kind, "")
    problem = {"type": f"/problems/{kind}", "title": title, "status": status, "detail": "Details."}
    headers = {}
    if retry_after is not None:
        problem["retry_after"] = retry_after
        headers["Retry-After"] = str(retry_after)
    return {
        "status": status,
        "headers": headers,
        "content_type": "application/problem+json",
        "body": json.dumps(problem),
    }


def body_of(route: Route) -> Answer:
    body: Answer = route.request.post_data_json or {}
    return body


def _plain(body: Answer) -> Answer:
    return {name: value for name, value in body.items() if name != "thumbnail"}


def refuse(
    visit: Visit, status: int, kind: str, retry_after: int | None = None, path: str = "attention"
) -> None:
    """Answers a path with a problem from now on."""
    answer = problem_of(status, kind, retry_after)
    visit.page.route(f"**/{path}", lambda route: route.fulfill(**answer))


def questions(visit: Visit) -> list[str]:
    """The paths of all questions from now on, without what moved a verdict."""
    paths: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and "method" not in (request.post_data_json or {}):
            paths.append(request.url.removeprefix(visit.url))

    visit.page.on("request", note)
    return paths


# Without slots: Playwright leaves marks on whose methods it calls.
@dataclass
class Replaced:
    """Another model in the place of the served one, as far as the page can see.

    It has the layers of the served one, left out or repeated.
    """

    layers: int
    is_asked: bool = True
    asked: list[Answer] = field(default_factory=list)
    version: str = "0123456789ab"

    def stand_in(self, visit: Visit) -> None:
        """Takes part from now on."""
        own = {"model": self.model, "attention": self.attention}
        for path, answer in own.items():
            visit.page.route(f"**/{path}", answer)

    def model(self, route: Route) -> None:
        """Describes itself, or leaves that to the served model."""
        if not self.is_asked:
            route.continue_()
            return
        answer = route.fetch().json()
        route.fulfill(json=answer | {"version": self.version, "num_layers": self.layers})

    def attention(self, route: Route) -> None:
        body = body_of(route)
        self.asked.append(_plain(body))
        answer = route.fetch().json()
        for name in ("attention", "strongest", "strongest_weights"):
            served = answer[name]
            answer[name] = [served[layer % len(served)] for layer in range(self.layers)]
        answer["model"]["version"] = self.version
        route.fulfill(json=answer)


def heard(visit: Visit, act: Callable[[], None], path: str = "predict") -> Answer:
    """The answer of a path to the only question that an action leads to, with what was `asked`."""
    with visit.page.expect_response(f"**/{path}") as waiting:
        act()
    answer: Answer = waiting.value.json()
    return {**answer, "asked": waiting.value.request.post_data_json}

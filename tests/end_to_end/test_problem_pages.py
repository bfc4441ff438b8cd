"""The address in the `type` of a problem leads to what the problem means."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from service.errors import ALL_ERRORS, ServiceError
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service
from tests.end_to_end.test_pages import Assets

WORDS = [error.type for error in ALL_ERRORS]
ASKED = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}  # as browsers do


class Words(HTMLParser):
    """Collects the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_data(self, data: str) -> None:
        """Notes a piece of text."""
        self.text += data


def words_of(page: httpx.Response) -> str:
    """The text of a page, with single spaces."""
    words = Words()
    words.feed(page.text)
    return " ".join(words.text.split())


@pytest.mark.parametrize("kind", ALL_ERRORS, ids=WORDS)
def test_each_type_has_a_page_json_and_text(client: httpx.Client, kind: type[ServiceError]) -> None:
    path = f"/problems/{kind.type}"
    told = client.get(path, headers={"accept": "application/json"})
    assert told.headers["content-type"] == "application/json"
    members = told.json()
    assert list(members) == ["type", "title", "status", "when", "remedy"]
    assert (members["type"], members["title"], members["status"]) == (path, kind.title, kind.status)

    page = client.get(path, headers=ASKED)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == client.get(path).text
    words = words_of(page)
    for said in (kind.type, kind.title, f"The status is {kind.status}."):
        assert said in words
    for name in ("when", "remedy"):
        assert f"{members[name].replace('`', '')}." in words

    text = client.get(path, headers={"accept": "text/plain"})
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text == (
        f"{kind.type} ({kind.status}): {kind.title}\n"
        f"  when: {members['when']}\n"
        f"  what to do: {members['remedy']}\n"
    )


def test_the_type_of_a_real_problem_leads_to_its_page(client: httpx.Client) -> None:
    refused = client.post("/predict", json={"text": "good"})
    address = urljoin(str(refused.url), refused.json()["type"])
    page = client.get(address)
    assert page.status_code == 200
    assert "What to do:" in words_of(page)


def test_the_list_has_every_problem_in_order(client: httpx.Client) -> None:
    listed = client.get("/problems", headers={"accept": "application/json"}).json()["problems"]
    assert [each["type"] for each in listed] == [f"/problems/{word}" for word in WORDS]
    for each in listed:
        alone = client.get(each["type"], headers={"accept": "application/json"}).json()
        assert alone == each
    page = client.get("/problems", headers=ASKED).text
    assert re.findall(r'<section id="([^"]+)">', page) == WORDS
    text = client.get("/problems", headers={"accept": "text/plain"}).text
    assert re.findall(r"^(\S+) \([0-9]{3}\): ", text, re.MULTILINE) == WORDS


@pytest.mark.parametrize("path", ["/problems", "/problems/overloaded"])
def test_a_page_loads_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    page = client.get(path, headers=ASKED)
    policy = "default-src 'self'; frame-ancestors 'none'"
    assert page.headers["content-security-policy"] == policy
    assets = Assets()
    assets.feed(page.text)
    assert not assets.inline
    assert sum(address.endswith((".css", ".svg")) for address in assets.addresses) == 2
    for address in assets.addresses:
        # Beside the page, wherever a proxy may show it.
        assert not address.startswith("/")
        assert "//" not in address
        answer = client.get(urljoin(str(page.url), address))
        assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/problems", "/problems/timeout"])
def test_head_and_what_a_browser_keeps(client: httpx.Client, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "etag", "cache-control", "vary"):
        assert head.headers[name] == whole.headers[name]
    assert whole.headers["cache-control"] == "no-cache"
    assert whole.headers["vary"] == "Accept"
    known = {"if-none-match": whole.headers["etag"]}
    assert client.get(path, headers=known).status_code == 304
    other = {**known, "accept": "text/plain"}
    assert client.get(path, headers=other).status_code == 200


def test_an_unknown_word(client: httpx.Client) -> None:
    for path in ("/problems/Canary", "/problems/overloaded%3Cb%3E"):
        refused = client.get(path)
        detail = "There is no problem of this name: GET /problems lists all."
        assert_problem(refused, 404, "not-found", "Nothing is here", detail)
    assert client.get("/problems/").status_code == 404


def test_other_forms_and_methods_are_refused(client: httpx.Client) -> None:
    assert_problem(
        client.get("/problems/timeout", headers={"accept": "image/png"}),
        406,
        "not-acceptable",
        "None of the forms asked for is offered",
        "Accept names none of what is offered here: text/html, application/json, text/plain.",
    )
    refused = client.post("/problems/timeout")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_they_are_counted_by_their_route(running: RunningService, client: httpx.Client) -> None:
    def counted() -> list[float]:
        labels = 'method="GET",route="/problems/{word}"'
        names = [f'headlight_requests_total{{{labels},status="{status}"}}' for status in (200, 404)]
        return [running.metric(name) for name in names]

    before = counted()
    client.get("/problems/timeout")
    client.get("/problems/Canary")
    assert counted() == [count + 1 for count in before]
    assert "Canary" not in running.metrics()


@pytest.mark.parametrize(("docs", "statuses"), [("off", (404, 404)), ("key", (401, 200))])
def test_they_follow_the_setting_of_the_documentation(
    checkpoint_folder: Path, tmp_path: Path, docs: str, statuses: tuple[int, int]
) -> None:
    settings = {"HEADLIGHT_API_KEYS": "right", "HEADLIGHT_DOCS": docs}
    with service(checkpoint_folder, tmp_path, settings=settings, ready=False) as running:
        for path in ("/problems", "/problems/timeout"):
            bare = httpx.get(running.url + path)
            keyed = httpx.get(running.url + path, headers={"authorization": "Bearer right"})
            assert (bare.status_code, keyed.status_code) == statuses

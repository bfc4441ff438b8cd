"""The pages, what they load, how long a browser keeps it, and where types of problems lead."""

import re
import shutil
from contextlib import ExitStack
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock
from urllib.parse import urljoin

import httpx
import pytest

from service.errors import ALL_ERRORS
from service.page import routes as pages
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem
from tests.end_to_end.servers import ROOT

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
JSON, TEXT = {"accept": "application/json"}, {"accept": "text/plain"}
OWN = sorted(path.name for path in (ROOT / "service" / "page" / "static").iterdir())
SCRIPTS = [name for name in OWN if name.endswith(".js") and name != "docs.js"]


class Assets(HTMLParser):
    """Collects what a page loads and where it links."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes addresses, and scripts and styles that stand in the page itself."""
        attributes = dict(attrs)
        found = [attributes.get("src"), attributes.get("href"), attributes.get("action")]
        self.addresses += [address for address in found if address]
        inline_script = tag == "script" and "src" not in attributes
        handlers = [name for name in attributes if name.startswith("on")]
        self.inline |= inline_script or tag == "style" or "style" in attributes or bool(handlers)


@pytest.mark.parametrize("path", ["/", "/docs", "/problems", "/problems/overloaded"])
def test_a_page_loads_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    page = client.get(path, headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assets = Assets()
    assets.feed(page.text)
    assert not assets.inline
    assert len(assets.addresses) >= 2
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for address in assets.addresses:
        # Beside the page, wherever a proxy may show it.
        assert not address.startswith("/")
        assert "//" not in address
        answer = client.get(urljoin(str(page.url), address))
        assert answer.status_code == 200
        suffix = address.rpartition(".")[2]
        if suffix in types:
            assert answer.headers["content-type"].partition(";")[0] == types[suffix]


def version_of(client: httpx.Client) -> str:
    """The version of all static files, as the page names it."""
    versions = set(re.findall(r'="static/([^/"]+)/', client.get("/").text))
    assert versions == set(re.findall(r'="static/([^/"]+)/', client.get("/docs").text))
    assert len(versions) == 1
    version: str = versions.pop()
    return version


def test_the_page_loads_every_script_and_no_other(client: httpx.Client) -> None:
    reached, waiting = set(), re.findall(r'src="static/[0-9a-f]{12}/([^"]+)"', client.get("/").text)
    assert waiting == ["page.js"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += re.findall(
                r'(?:from |import\()"\./([^"]+)"', client.get(f"/static/{name}").text
            )
    assert sorted(reached) == SCRIPTS
    preloaded = re.findall(
        rf'<link rel="modulepreload" href="static/{version_of(client)}/([^"]+)">',
        client.get("/").text,
    )
    # The other tabs load theirs once they are opened.
    assert {"many.js", "heads.js"}.isdisjoint(preloaded)
    assert "modulepreload" not in client.get("/docs").text


def test_the_page_names_no_host_and_talks_to_only_four_routes(client: httpx.Client) -> None:
    for name in OWN:
        if not name.endswith(".svg"):
            text = client.get(f"/static/{name}").text
            comments = r"/\*.*?\*/|^\s*//.*|(?<= )// .*"
            code = re.sub(comments, "", text, flags=re.MULTILINE | re.DOTALL)
            assert "//" not in code, name
    # ESLint forbids what the library offers for markup.
    scripts = {name: client.get(f"/static/{name}").text for name in SCRIPTS if name != "preact.js"}
    asked = [
        path
        for script in scripts.values()
        for path in re.findall(r"\b(?:get|post)\(([^,)]*)", script)
    ]
    assert {path for path in asked if path.startswith('"/')} == {
        *('"/attention"', '"/attention/steps"', '"/model"', '"/predict"'),
    }
    assert [name for name, script in scripts.items() if "fetch(" in script] == ["api.js"]
    for other in (
        *("XMLHttpRequest", "sendBeacon", "WebSocket", "EventSource", "eval("),
        *("innerHTML", "insertAdjacentHTML", "localStorage", "sessionStorage", "cookie"),
    ):
        assert [name for name, script in scripts.items() if other in script] == []


def test_a_file_under_its_version_is_kept_for_a_year(client: httpx.Client) -> None:
    version = version_of(client)
    for name in (*OWN, "swagger-ui.css", "swagger-ui-bundle.js"):
        plain, versioned = client.get(f"/static/{name}"), client.get(f"/static/{version}/{name}")
        assert versioned.content == plain.content
        for header in ("content-type", "etag", "content-encoding", "content-length"):
            assert versioned.headers[header] == plain.headers[header]
        assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["cache-control"] == "no-cache"
    # While replicas are replaced, a page of one version asks a replica of another.
    answer = client.get("/static/0123456789ab/page.js")
    assert answer.content == client.get("/static/page.js").content
    assert answer.headers["cache-control"] == "no-cache"


def test_a_first_visit_is_small_and_every_answer_is_compressed(client: httpx.Client) -> None:
    page = client.get("/")
    assets = Assets()
    assets.feed(page.text)
    answers = [page, *(client.get(urljoin(str(page.url), each)) for each in set(assets.addresses))]
    assert sum(int(answer.headers["content-length"]) for answer in answers) <= 40_000
    assert len(answers) <= 11  # with what is asked, 15
    for path in ("/static/page.js", "/docs", "/openapi.json", "/problems"):
        packed = client.get(path)
        whole = client.get(path, headers={"accept-encoding": "br, gzip;q=0"})
        assert packed.content == whole.content
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(whole.content) / 1.5
        assert "content-encoding" not in whole.headers
        assert packed.headers["etag"] != whole.headers["etag"]
        assert "Accept-Encoding" in packed.headers["vary"]


def test_the_version_is_that_of_the_content(
    client: httpx.Client, start: Start, tmp_path: Path
) -> None:
    """Or a browser would keep an old file, or take a new one for it."""
    folder = tmp_path / "page"
    shutil.copytree(ROOT / "service" / "page", folder)
    script = folder / "static" / "parts.js"
    script.write_bytes(script.read_bytes() + b"// One.\n")
    kept = (pages._assets, pages.asset_version, pages.source, pages._html)
    with (
        ExitStack() as forgotten,
        mock.patch.object(pages, "_FOLDER", folder),
        start() as running,
        running.client() as other,
    ):
        for each in kept:
            each.cache_clear()
            forgotten.callback(each.cache_clear)
        version = version_of(other)
        assert version != version_of(client)
        assert "immutable" in other.get(f"/static/{version}/parts.js").headers["cache-control"]
        script.write_bytes(script.read_bytes() + b"// Two.\n")
        assert other.get(f"/static/{version}/parts.js").content.endswith(b"// One.\n")


@pytest.mark.parametrize("path", ["/", "/docs", "/problems/timeout", "/static/{version}/page.js"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_a_browser_has_is_not_sent_again(client: httpx.Client, method: str, path: str) -> None:
    path = path.format(version=version_of(client))
    first = client.request(method, path)
    assert first.status_code == 200
    for known in (first.headers["etag"], f'"x", {first.headers["etag"]}', "*"):
        again = client.request(method, path, headers={"if-none-match": known})
        assert again.status_code == 304
        assert again.content == b""
        for header in ("etag", "cache-control", "content-security-policy"):
            assert again.headers[header] == first.headers[header]
    for other in ({"if-none-match": '"x"'}, {"range": "bytes=0-1"}):  # a server may ignore ranges
        whole = client.request(method, path, headers=other)
        assert (whole.status_code, whole.content) == (200, first.content)
    # Each form of a problem is kept.
    if path.startswith("/problems"):
        assert first.headers["vary"] == "Accept, Accept-Encoding"
        known_form = {"if-none-match": first.headers["etag"], **TEXT}
        assert client.request(method, path, headers=known_form).status_code == 200


def test_an_unknown_file_is_a_problem(client: httpx.Client) -> None:
    version = version_of(client)
    for path in (
        *("nothing.js", "index.html", "favicon-32x32.png", "", "none/page.js"),
        *(f"{version}/nothing.js", f"{version}/", version, f"{version}/x/page.js"),
        f"{version}/../page.js%00",
    ):
        answer = client.get(f"/static/{path}")
        assert_problem(answer, 404, "not-found")
        assert answer.headers["cache-control"] == "no-store"


def test_each_type_has_a_page_json_and_text_and_all_are_listed(client: httpx.Client) -> None:
    listed = client.get("/problems", headers=JSON).json()["problems"]
    words = [error.type for error in ALL_ERRORS]
    assert [each["type"] for each in listed] == [f"/problems/{word}" for word in words]
    page = client.get("/problems", headers=BROWSER).text
    assert re.findall(r'<section id="([^"]+)">', page) == words
    text = client.get("/problems", headers=TEXT).text
    assert re.findall(r"^(\S+) \([0-9]{3}\): ", text, re.MULTILINE) == words
    for kind, members in zip(ALL_ERRORS, listed, strict=True):
        path = members["type"]
        shown = client.get(path, headers=JSON)
        assert (shown.headers["content-type"], shown.json()) == ("application/json", members)
        assert list(members) == ["type", "title", "status", "when", "remedy"]
        assert (members["title"], members["status"]) == (kind.title, kind.status)
        found = client.get(path, headers=BROWSER)
        assert found.text == client.get(path).text
        said = " ".join(unescape(re.sub(r"<[^>]*>", "", found.text)).split())
        for part in (kind.type, kind.title, f"The status is {kind.status}."):
            assert part in said
        for name in ("when", "remedy"):
            assert f"{members[name].replace('`', '')}." in said
        plain = client.get(path, headers=TEXT)
        assert plain.headers["content-type"] == "text/plain; charset=utf-8"
        assert plain.text == (
            f"{kind.type} ({kind.status}): {kind.title}\n"
            f"  when: {members['when']}\n"
            f"  what to do: {members['remedy']}\n"
        )

"""Behind a proxy that shows the service under a longer path, the page and the interface work."""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.table_of_many import Many
from tests.browser.test_accessibility import violations
from tests.browser.visits import Scheme, window
from tests.end_to_end.servers import RunningService

PREFIX = "/tools/headlight"
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
_OWN = ("connection", "content-length", "date", "host", "server", "transfer-encoding")


@pytest.fixture(scope="module")
def prefixed(running: RunningService) -> Iterator[str]:
    """The address of a proxy that takes the prefix away; under any other there is nothing."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in _OWN
            }
            url = running.url + self.path.removeprefix(PREFIX)
            answer = httpx.request(self.command, url, headers=headers, content=body, timeout=60)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in (*_OWN, "content-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET  # noqa: N815 - called by this name

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_page_asks_and_leads_on(browser: Browser, prefixed: str) -> None:
    with window(browser, prefixed) as visit:
        visit.ask("A superb film.")
        assert len(visit.tokens()) == 6
        background = visit.page.evaluate(
            "getComputedStyle(document.querySelector('.primary')).backgroundColor"
        )
        assert background == "rgb(29, 91, 184)"
        with visit.page.expect_download():
            visit.menu("Save").get_by_role("button", name="PNG").click()
        many = Many(visit)
        many.paste("A superb film.")
        many.score("Done: 1 of 1 row scored.")
        assert visit.page.url == f"{prefixed}/#file"
        link = visit.page.get_by_role("link", name="API")
        assert link.evaluate("link => link.href") == f"{prefixed}/docs"


def test_the_interface_begins_with_an_example_that_runs_and_axe_finds_nothing(
    browser: Browser, prefixed: str
) -> None:
    with window(browser, prefixed) as visit:
        page = visit.page
        page.goto(f"{prefixed}/docs")
        assert page.get_by_role("link", name="To the page").evaluate("link => link.href") == (
            f"{prefixed}/"
        )
        page.locator(".opblock-summary-control").first.click()
        with page.expect_response("**/predict") as response:
            page.get_by_role("button", name="Execute").click()
        assert (response.value.url, response.value.status) == (f"{prefixed}/predict", 200)
        expect(page.locator(".curl")).not_to_contain_text("X-Request")
        page.locator(".live-responses-table").wait_for()
        command = page.locator("#first").inner_text()
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
        assert json.loads(done.stdout)["predictions"][0]["label"] == "positive"
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert violations(visit) == []

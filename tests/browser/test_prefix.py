"""Behind a proxy that shows the service under a longer path, the page and the interface work."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Browser

from tests.browser.table_of_many import Many
from tests.browser.visits import PATIENCE, Visit, watch, window
from tests.end_to_end.servers import RunningService

PREFIX = "/tools/headlight"
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


def test_the_interface_is_shown_and_can_be_tried(browser: Browser, prefixed: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    try:
        visit: Visit = watch(page, prefixed)
        page.goto(f"{prefixed}/docs")
        page.locator("#operations-tag-answers, .opblock").first.wait_for()
        route = page.locator(".opblock", has=page.locator("[data-path='/model']"))
        route.click()
        with page.expect_response("**/model") as response:
            route.get_by_role("button", name="Execute").click()
        assert response.value.url == f"{prefixed}/model"
        assert response.value.status == 200
        assert visit.elsewhere == []
    finally:
        page.close()

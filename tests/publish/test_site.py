"""The site of docs/: complete, without a dead link, and whole without the internet."""

import functools
import http.server
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from tests.publish.building import ROOT, build, read

PATIENCE = 120  # seconds
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


def _pages(site: Path) -> list[Path]:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    return pages


def test_every_page_of_the_documentation_is_on_the_site_and_in_its_navigation(site: Path) -> None:
    docs = ROOT / "docs"
    wanted = {
        str(page.relative_to(docs).with_suffix(".html")).replace("README.html", "index.html")
        for page in docs.rglob("*.md")
    }

    found = {link.partition("#")[0] for link in read(site / "index.html").navigation}
    assert wanted - found <= {"index.html"}
    assert found - wanted <= {"", "."}
    assert all((site / page).is_file() for page in wanted)


def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    pages = {page: read(page) for page in _pages(site) if page.name != "404.html"}
    dead = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                dead.append((page.name, link))

    assert dead == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    foreign = [
        (page.name, x) for page in _pages(site) for x in read(page).assets if _ELSEWHERE.match(x)
    ]
    for sheet in site.rglob("*.css"):
        targets = _IN_STYLES.findall(sheet.read_text(encoding="utf-8"))
        foreign += [(sheet.name, target) for target in targets if _ELSEWHERE.match(target)]

    assert foreign == []


def test_a_link_out_of_the_documentation_shows_the_file(site: Path) -> None:
    guide = read(site / "guides" / "deploy.html")

    assert "../repository/Dockerfile.html" in guide.links
    page = (site / "repository" / "Dockerfile.html").read_text(encoding="utf-8")
    assert "healthcheck.py" in page
    assert "../guides/deploy.html#with-a-gpu" in read(site / "repository/CONTRIBUTING.html").links


def test_a_bar_in_code_of_a_table_needs_no_backslash(site: Path) -> None:
    metrics = (site / "reference" / "metrics.html").read_text(encoding="utf-8")

    assert 'type=~"overloaded|timeout"' in metrics


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site can be opened."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Writes nothing."""

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_browser_asks_no_other_server(address: str) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        reason = "no Chromium is installed: apt-get install chromium"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    asked = []
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/index.html", wait_until="networkidle")
        page.get_by_role("link", name="Harden", exact=True).first.click()
        page.wait_for_url("**/guides/hardening.html")
        page.get_by_label("Search").first.click(force=True)
        results = page.locator(".md-search-result__item")
        until = time.monotonic() + PATIENCE
        while not results.first.is_visible():  # what is typed before the index is read is lost
            assert time.monotonic() < until
            page.locator("input.md-search__input").fill("")
            page.locator("input.md-search__input").press_sequentially("calibrated")
            page.wait_for_timeout(500)
        browser.close()

    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project of two pages with the configuration of this one."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    hook = str(ROOT / "publish" / "pages.py")
    text = text.replace("publish/pages.py", hook)
    (tmp_path / "mkdocs.yml").write_text(text, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n## Begin\n\n- [One](one.md)\n")
    (tmp_path / "docs" / "one.md").write_text("# One\n")
    return tmp_path


def test_a_sound_project_is_built(small: Path) -> None:
    done = build(small / "mkdocs.yml", small / "site")

    assert done.returncode == 0, done.stderr
    assert read(small / "site" / "index.html").navigation.count("one.html") == 1


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        ("[x](missing.md)", "missing.md"),
        ("[x](index.md#nowhere)", "nowhere"),
        (
            "[x](../missing.toml)",
            "docs/one.md links to missing.toml, which is not in the repository",
        ),
        ("[x](../../etc)", "docs/one.md links to ../etc, which is not in the repository"),
    ],
)
def test_a_dead_link_stops_the_build(small: Path, added: str, complaint: str) -> None:
    (small / "docs" / "one.md").write_text(f"# One\n\n{added}\n")

    done = build(small / "mkdocs.yml", small / "site")

    assert done.returncode != 0
    assert complaint in done.stderr


def test_a_page_that_the_index_leaves_out_stops_the_build(small: Path) -> None:
    (small / "docs" / "two.md").write_text("# Two\n")

    done = build(small / "mkdocs.yml", small / "site")

    assert done.returncode == 1
    assert "two.md" in done.stderr

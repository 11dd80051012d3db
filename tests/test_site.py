"""The documentation site: it builds strictly, stands alone, and can be read on a desk and on a phone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chromium import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("index", "start/first-model", "howto/release-gate", "method", "reference/configuration", "cli")
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once, by the command of `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


class Assets(HTMLParser):
    """Collects the addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        address = own.get(LOADED.get(tag, ""))
        if address and own.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(address)


@pytest.mark.timeout(900)
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        assert [address for address in assets.found if re.match(r"(https?:)?//", address)] == [], page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", text), style


@pytest.mark.timeout(900)
def test_the_sections_of_the_site_are_there(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'class="md-tabs__link">\s*([\w-]+)', start)
    assert tabs == ["Start", "How-to", "Explanation", "Reference", "Reproduction"]
    api = (site / "reference" / "api" / "classifier.html").read_text(encoding="utf-8")
    assert 'id="rsmi.classifier.RsmiClassifier"' in api
    assert 'id="rsmi.estimator.Certifying.certify"' in api


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served, on this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.timeout(900)
@pytest.mark.skipif(CHROMIUM is None, reason="NOT LOOKED AT IN A BROWSER: chromium is missing, run `make browser`")
def test_pages_fit_a_desk_and_a_phone_and_ask_nobody_else(address: str) -> None:
    with Browser() as browser:
        for page in PAGES:
            for width, dark in ((1280, False), (375, True)):
                browser.visit(f"{address}/{page}.html", width=width, dark=dark)
                wide = browser.run("document.scrollingElement.scrollWidth")
                assert wide <= width, (page, width, wide)
                contrasts = browser.contrasts([".md-typeset h1", ".md-typeset p", ".md-typeset a:not(.headerlink)"])
                assert min(contrasts.values()) >= 4.5, (page, dark, contrasts)
        browser.visit(f"{address}/index.html#__search")
        browser.run("document.querySelector('.md-search__input').focus()")
        browser.type("certificate")
        browser.until("document.querySelectorAll('.md-search-result__item').length > 2")
    assert browser.complaints == []
    assert [asked for asked in browser.requests if not asked.startswith((address, "about:", "data:", "blob:"))] == []

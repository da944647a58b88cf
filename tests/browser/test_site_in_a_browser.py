"""The documentation site in a real browser, from a folder, without a server."""

from __future__ import annotations

import pytest
from pages import ROOT
from site_build import build_site

# One page of each kind: code, pictures, wide tables, docstrings.
PAGES = ("tutorial", "reading-a-report", "settings", "python")


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build_site(ROOT / "docs", folder)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def visit(browser, site):
    """Return what opens a page; it fails the test if that asked for anything outside the folder."""
    faults = []
    contexts = []

    def visitor(name, width=1400, theme="light"):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=theme))
        page = contexts[-1].new_page()
        page.on("console", lambda message: message.type == "error" and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: _is_inside(asked.url) or faults.append(asked.url))
        page.goto(f"{site.as_uri()}/{name}")
        return page

    yield visitor
    for context in contexts:
        context.close()
    assert faults == []


def _is_inside(url):
    return url.startswith(("file:", "data:"))


@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_and_show_their_pictures(visit, width):
    for name in PAGES:
        page = visit(f"{name}.html", width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        for image in page.locator("article img").all():
            image.scroll_into_view_if_needed()
            assert image.evaluate("async image => (await image.decode(), image.naturalWidth)") > 300


def test_light_and_dark_follow_the_reader(visit):
    grounds = {
        visit("tutorial.html", theme=theme).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for theme in ("light", "dark")
    }
    assert len(grounds) == 2


def test_search_works_without_a_server(visit):
    page = visit("search.html?q=neighbours")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results a[href^='analyses.html']").count() > 0


def test_a_newcomer_finds_the_way_from_the_first_page(visit):
    page = visit("index.html")
    page.locator("article").get_by_role("link", name="tutorial").click()
    assert page.title().startswith("Five minutes")
    page.locator("article").get_by_role("link", name="Reading a report").click()
    assert page.title().startswith("Reading a report")

"""The built site as a reader uses it: opened from its folder, without a network, on a desk and on a phone.

`make docs` builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memoranda

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SITE = Path(__file__).parents[2] / "build" / "site" / ".".join(memoranda.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="make docs builds the site")
# Pages of each kind: the first one, one with pictures, with tables, and with code. The checker is slow on long ones.
PAGES = ("index.html", "howto/console.html", "reference/settings.html", "reference/errors.html", "howto/sync.html")
LONG_PAGES = (
    "reference/python.html",
    "reference/python-verbs.html",
    "reference/http-operations.html",
    "standards/mapping.html",
    "reference/cli.html",
)
PHONE, DESK = 360, 1440
Opened = Callable[..., "Page"]


def foreign_address(url: str) -> list[str]:
    return [] if url.startswith(("file:", "data:")) else [url]


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Opened]:
    """Open pages in a browser that fails the test if a page complains or asks another machine."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_page(name: str, **options: Any) -> Page:
        contexts.append(chromium.new_context(**options))
        page: Page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: complaints.extend(foreign_address(request.url)))
        page.goto((SITE / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize(("scheme", "width"), [("light", PHONE), ("dark", DESK)])
def test_every_kind_of_page_fits_and_can_be_used_by_everybody(
    opened: Opened, axe: str, scheme: Any, width: int
) -> None:
    for name in PAGES:
        page = opened(name, color_scheme=scheme, viewport={"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), name
        page.evaluate(axe)
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        options = {"runOnly": {"type": "tag", "values": tags}, "preload": False}
        result = page.evaluate("options => axe.run(options)", options)
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"]] == [], name


def test_long_pages_fit_a_phone(opened: Opened) -> None:
    for name in LONG_PAGES:
        page = opened(name, viewport={"width": PHONE, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), name


def test_search_works_without_a_server(opened: Opened) -> None:
    page = opened("index.html", viewport={"width": DESK, "height": 800})
    page.get_by_placeholder("Search").press_sequentially("pgvector")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url("**/*pgvector*")
    assert "pgvector" in page.locator("article").inner_text()


def test_a_reader_goes_on_and_back_to_the_source_and_to_other_versions(opened: Opened) -> None:
    page = opened("howto/connect.html", viewport={"width": DESK, "height": 800})
    page.get_by_label("Next:").click()
    page.get_by_label("Previous:").click()
    assert page.url.endswith("howto/connect.html")
    assert page.get_by_role("link", name="Source").first.get_attribute("href")
    versions = page.get_by_label("Version").first
    assert versions.input_value() == SITE.name
    versions.evaluate("select => select.dispatchEvent(new Event('change'))")
    page.wait_for_url(f"**/{SITE.name}/index.html")

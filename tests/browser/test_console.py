"""The console as a person uses it: each test is a sentence of what it is for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.bindings.http.running import Running

from memoranda.bindings.console.app import PAGES
from memoranda.bindings.console.visit import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Remember = Callable[..., str]
Opened = Callable[..., "BrowserContext"]
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg><style>*{display:none}</style> javascript:alert(1)"
    " \u202eabc \x1b[31mred"
)
# Every page that can be looked at, with something on it.
SHOWN = (
    "/",
    "/?q=note",
    "/graph?subject=alice",
    "/ask?query=RECALL+LIKE+%22note%22",
    "/review?project=pictures&strategy=compress",
    "/timeline",
    "/moving",
    "/overview",
    "/audit",
    "/keys",
)


def texts(page: Page) -> list[str]:
    return [each.strip() for each in page.locator("#results .list h2").all_inner_texts()]


def test_what_is_typed_searches_at_once_and_the_address_says_it(page: Page, remember: Remember) -> None:
    remember("The heron nests by the river")
    remember("Budgets are made in March")
    page.locator("#q").type("heron")
    page.wait_for_function("() => location.search.includes('heron')")
    page.wait_for_function("() => document.querySelectorAll('#results .list h2').length === 1")
    assert texts(page) == ["The heron nests by the river"]
    page.goto(page.url)
    assert texts(page) == ["The heron nests by the river"]
    page.locator("#q").fill("quetzalcoatl")
    page.get_by_text("Nothing here answers that.").wait_for()


def test_what_an_agent_writes_appears_while_one_looks(page: Page, remember: Remember) -> None:
    remember("An agent wrote this just now")
    page.get_by_text("An agent wrote this just now").wait_for()


def test_the_list_is_narrowed(page: Page, remember: Remember) -> None:
    remember("of the first project", project="first")
    remember("of the second project", project="second")
    page.get_by_text("Narrow").click()
    page.get_by_label("Project").first.fill("second")
    page.wait_for_function("() => location.search.includes('second')")
    page.wait_for_function("() => !document.querySelector('#results').innerText.includes('of the first')")
    assert texts(page) == ["of the second project"]


def test_a_memory_is_corrected_and_its_history_shows_how(page: Page, remember: Remember) -> None:
    remember("The shop opens at nine")
    page.reload()
    page.get_by_role("link", name="The shop opens at nine").click()
    page.get_by_label("What it should say").fill("The shop opens at ten")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Changed.").wait_for()
    assert page.locator(".history del").inner_text() == "nine"
    assert page.locator(".history ins").inner_text() == "ten"


def test_a_memory_is_forgotten_and_brought_back(page: Page, remember: Remember) -> None:
    name = remember("A thought that passes")
    page.goto(f"{page.url}memory/{name}")
    page.get_by_role("button", name="Forget", exact=True).click()
    page.get_by_text("Forgot 1 memory").wait_for()
    assert "A thought that passes" not in texts(page)
    page.get_by_role("button", name="Undo the last change").click()
    page.get_by_text("Taken back").wait_for()
    assert "A thought that passes" in texts(page)


def test_erasing_for_good_needs_a_typed_word(page: Page, remember: Remember) -> None:
    name = remember("Something to be destroyed")
    page.goto(f"{page.url}memory/{name}")
    page.get_by_text("Erase it for good").click()
    page.locator("#typed").fill("yes")
    page.get_by_role("button", name="Erase for good").click()
    # The browser itself does not send the form.
    assert page.url.endswith(name)
    page.locator("#typed").fill("erase")
    page.get_by_role("button", name="Erase for good").click()
    page.get_by_text("Erased 1 memory for good.").wait_for()


def test_the_keys_of_a_keyboard_are_enough(page: Page, remember: Remember) -> None:
    remember("Reached by keys")
    page.reload()
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "q"
    page.locator("main").focus()
    page.keyboard.press("j")
    assert page.evaluate("() => document.activeElement.innerText") == "Reached by keys"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Reached by keys").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()


def test_what_is_stored_stays_text(page: Page, remember: Remember, server: Running) -> None:
    name = remember(HOSTILE, project="<b>bold</b>", user="<i>anna</i>")
    for path in ("/", f"/memory/{name}", f"/memory/{name}/views", f"/memory/{name}/readers", "/overview", "/?q=owned"):
        page.goto(f"{server.url}{ROOT}{path}")
        assert page.title() != "owned"
        assert page.locator("main img, main style, main script, main b >> text=bold").count() == 0


def test_without_a_script_the_pages_are_read_and_forms_work(
    opened: Opened, server: Running, remember: Remember
) -> None:
    remember("Read without a script")
    page = opened(java_script_enabled=False).new_page()
    page.goto(f"{server.url}{ROOT}/?q=script")
    page.get_by_role("link", name="Read without a script").click()
    page.get_by_label("What it should say").fill("Changed without a script")
    page.get_by_role("button", name="Save").click()
    assert "Changed without a script" in page.locator("h1").inner_text()


def test_a_dead_server_is_said_and_the_page_recovers(opened: Opened, server: Running, remember: Remember) -> None:
    page = opened().new_page()
    page.goto(f"{server.url}{ROOT}/")
    page.route("**/console/**", lambda route: route.abort())
    page.locator("#q").type("x")
    page.get_by_text("The server does not answer").wait_for()
    page.unroute("**/console/**")
    remember("Written after it was back")
    page.locator("#q").fill("")
    page.get_by_text("Written after it was back").wait_for()
    assert not page.locator(".offline").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_every_page_fits_and_can_be_used_by_everybody(
    opened: Opened, server: Running, remember: Remember, axe: str, scheme: str, width: int
) -> None:
    name = remember("A note to look at, with some words in it", project="pictures")
    with server.client(server.key()) as client:
        said = {"type": "belief", "subject": "alice", "relation": "likes", "object": "tea", "confidence": 1}
        client.post("/oms/grains", json={**said, "created_at": 1_768_471_200_000})
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 800}).new_page()
    for path in (*SHOWN, f"/memory/{name}", f"/memory/{name}/views", f"/memory/{name}/readers"):
        page.goto(f"{server.url}{ROOT}{path}")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), path
        # The policy lets no script in but ours: the checker comes beside it.
        page.context.new_cdp_session(page).send("Page.setBypassCSP", {"enabled": True})
        page.reload()
        page.evaluate(axe)
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = page.evaluate("tags => axe.run({runOnly: {type: 'tag', values: tags}})", tags)
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == [], path
        if folder := os.environ.get("MEMORANDA_PICTURES"):
            drawn = re.sub(r"[^a-z]+", "-", path.partition("?")[0].replace(name, "one")).strip("-") or "memories"
            page.screenshot(path=Path(folder) / f"{drawn}-{scheme}-{width}.png", full_page=True)


def test_every_page_is_looked_at() -> None:
    looked_at = {path.partition("?")[0] for path in SHOWN} | {
        "/memory/{id}",
        "/memory/{id}/views",
        "/memory/{id}/readers",
    }
    assert set(PAGES) - looked_at == {"/memory/{id}/export", "/ask/check", "/latest"}

"""Pictures of the console for the README and the pages: a store of an invented person, seen in a real browser.

`make pictures` saves them to docs/howto/pictures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import pytest
from tests.bindings.http.running import OWNER, Running, running
from tests.browser.conftest import ALL

import memoranda.opening
from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT
from memoranda.model.instant import Instant
from memoranda.service.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOUR_MS = 3_600_000
# Hours ago, agent ("" is the person), project, kind, text; the oldest first.
MEMORIES = (
    (5200, "", "home", "semantic", "Ana lives in Lisbon with Jonas and their daughter Ada"),
    (4900, "claude-code", "home", "semantic", "Ana prefers short answers with the command first"),
    (
        2200,
        "codex",
        "shop",
        "semantic",
        "The checkout service calls Stripe through the payments gateway",
    ),
    (1500, "cursor", "shop", "procedural", "Use pnpm in this repository, never npm or yarn"),
    (900, "claude-code", "shop", "procedural", "Never deploy on Fridays; the freeze starts on Thursday at 16:00"),
    (700, "gemini", "shop", "semantic", "The staging database is restored from production every Sunday night"),
    (410, "claude-code", "team", "semantic", "Priya leads the payments team"),
    (300, "codex", "team", "semantic", "Tomás leads the payments team"),
    (160, "cursor", "shop", "episodic", "Fixed the double charge: the retry key now includes the cart id"),
    (75, "gemini", "team", "semantic", "Ana is on leave from 14 December to 4 January"),
    (26, "claude-code", "team", "procedural", "Write dates as 2026-11-19 in reports"),
    (3, "codex", "shop", "semantic", "The orders API is paginated by cursor; a page has at most 100 orders"),
)


class Picture(NamedTuple):
    """A page of the console, a text that it shows, and the size of the window."""

    path: str
    text: str
    width: int = 1120
    height: int = 700
    # The text of a link that leads on to the page.
    opens: str = ""


PICTURES = {
    "console": Picture("/", "Ana prefers short answers"),
    "console-dark": Picture("/", "Ana prefers short answers"),
    "memories": Picture("/memories?" + urlencode({"q": "deploy freeze?"}), "the freeze starts on", height=480),
    "memory": Picture(
        "/memories?" + urlencode({"q": "deploy freeze?"}), "the freeze starts on", opens="the freeze starts"
    ),
    "review": Picture("/review", "This is right", height=560),
    "try": Picture("/try?" + urlencode({"q": "Can we deploy on Friday?"}), "Treat them as reference data", height=640),
    "graph": Picture("/graph", "within two hops", height=760),
    "timeline": Picture("/timeline", "memories from", height=760),
    "agents": Picture("/agents", "Claude Code", height=640),
    "phone": Picture("/", "Ana prefers short answers", width=390, height=844),
}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Serve memories written at different times by different agents."""
    hours_ago = [MEMORIES[0][0] + 1]

    def clock() -> Instant:
        return Instant(time.time_ns() // 1_000_000 - hours_ago[-1] * HOUR_MS)

    def with_console(service: Service) -> dict[str, Any]:
        return {"folders": {ROOT: lambda threads: LazyConsole(service, threads).routes}}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memoranda.opening, "system_clock", clock)
        with running(tmp_path_factory.mktemp("pictures"), extra=with_console) as server:
            for hours, agent, project, kind, text in MEMORIES:
                hours_ago.append(hours)
                author = {"actor": agent, "actor_kind": "agent"} if agent else {"actor": OWNER, "actor_kind": "user"}
                scope = {"owner": OWNER, "project": project, "visibility": "private"}
                record = {
                    "kind": kind,
                    "body": {"text": text},
                    "scope": {**scope, **({"agent": agent} if agent else {})},
                    "provenance": {**author, "method": "stated"},
                }
                with server.client(server.key(OWNER, *ALL)) as client:
                    answer = client.post("/ump/remember", json=record)
                assert answer.status_code == 200, answer.text
            hours_ago.append(0)
            yield server


@pytest.fixture
def saved() -> Callable[[str], Path | None]:
    folder = os.environ.get("MEMORANDA_PICTURES")
    return lambda name: Path(folder) / f"{name}.png" if folder else None


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_shows_what_its_picture_is_for(
    chromium: Browser, furnished: Running, saved: Callable[[str], Path | None], name: str
) -> None:
    path, text, width, height, opens = PICTURES[name]
    options: Any = {"color_scheme": "dark" if name.endswith("-dark") else "light", "device_scale_factor": 1.25}
    with chromium.new_context(viewport={"width": width, "height": height}, **options) as context:
        page = context.new_page()
        link = furnished.service.sessions.create_link(furnished.key(OWNER, *ALL))
        page.goto(f"{furnished.url}{ROOT}/enter?link={link}")
        page.goto(f"{furnished.url}{ROOT}{path}")
        page.get_by_text(text).first.wait_for()
        if opens:
            page.get_by_role("link", name=opens).first.click()
            page.get_by_text("How it changed").wait_for()
        if name in ("graph", "timeline"):
            page.wait_for_function("() => window.explore?.ready")
        picture = page.screenshot(animations="disabled", path=saved(name))
        assert picture.startswith(b"\x89PNG")

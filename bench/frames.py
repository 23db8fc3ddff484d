"""Frame times of the console's graph and timeline in Chromium: 2,000 people and things, and 20,000 memories.

Frames per second depend on everything else that the machine does; the time of the script and of the processors for one
frame hardly do. Chromium draws on the processor here.

The drawings get invented data, because their speed does not depend on the store. Without Playwright and Chromium
(`make bring-browser`) nothing is measured.
"""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from bench.figures import Figures, percentile, say
from bench.served import processor_seconds

_NODES, _EDGES, _ITEMS = 2_000, 4_000, 20_000
_DAYS = 1_100
_NOW = datetime(2026, 11, 18, tzinfo=UTC)
# Moves the camera in every frame for some seconds; returns the gaps between frames in milliseconds.
_RUN = """
([seconds, step]) => new Promise((done) => {
  const move = new Function("t", step), gaps = [], start = performance.now();
  let last = start;
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    move((now - start) / 1000 / seconds);
    if (now - start < seconds * 1000) requestAnimationFrame(frame);
    else done(gaps.slice(2));
  };
  requestAnimationFrame(frame);
})
"""
_GRAPH = """
const { S, draw } = window.explore, f = 1 + 2 * (1 - Math.cos(t * 6.28));
window.explore.k0 ??= S.k;
S.k = window.explore.k0 * f; S.cx = 200 * Math.sin(t * 12); draw();
"""
_TIMELINE = """
const e = window.explore, span = (e.LAST - e.FIRST) * (0.001 + Math.pow(Math.cos(t * 3.14), 2));
const middle = e.FIRST + (e.LAST - e.FIRST) * (0.3 + 0.4 * t);
e.show(middle - span / 2, middle + span / 2);
"""
_SECONDS = 6


def measure_frames(host: str, port: int, key: str) -> Figures:
    """Return the frames per second and the slowest frames of both drawings; nothing without a browser."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        say("no browser: the frames of the console are not measured (make bring-browser)")
        return {}
    url, figures = f"http://{host}:{port}/console", Figures()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{url}/sign-in")
        page.locator("#key").fill(key)
        page.locator("#key").press("Enter")
        page.wait_for_url(f"{url}/")
        for name, path, data, step in (
            ("graph", "/graph?all=1", _graph(), _GRAPH),
            ("timeline", "/timeline", _timeline(), _TIMELINE),
        ):
            body = orjson.dumps(data)
            page.route(f"**/{name}.json*", lambda route, _request, body=body: route.fulfill(body=body))
            page.goto(url + path)
            page.wait_for_function("() => window.explore?.ready", timeout=60_000)
            page.evaluate("() => { window.explore.draws.length = 0; }")
            used = _processor_seconds()
            gaps = page.evaluate(_RUN, [_SECONDS, step])
            used = _processor_seconds() - used
            drawn = page.evaluate("() => window.explore.draws")
            figures[f"console.{name}.script_ms_per_frame"] = round(sum(drawn) / len(drawn), 2)
            figures[f"console.{name}.script_p95_ms"] = round(percentile(drawn, 0.95), 2)
            # The browser draws without a graphics card, so all of its processes are counted.
            figures[f"console.{name}.cpu_ms_per_frame"] = round(used / len(drawn) * 1000, 1)
            figures[f"console.{name}.frames_per_s"] = round(len(gaps) / sum(gaps) * 1000, 1)
            figures[f"console.{name}.frame_p95_ms"] = percentile(gaps, 0.95)
        browser.close()
    return figures


def _processor_seconds() -> float:
    """Return the processor seconds of all processes that this one started, the browser's among them."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    ours = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return sum(processor_seconds(process) for process in ours - {os.getpid()})


def _day(number: int) -> str:
    return (_NOW - timedelta(days=_DAYS - number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _graph() -> dict[str, Any]:
    rng = random.Random(7)
    kinds = ("person", "project", "thing", "org", "place", "topic")
    nodes: list[dict[str, Any]] = [
        {"id": f"e{n}", "label": f"Entity {n}", "kind": kinds[n % 6], "memories": 1 + 400 // (n + 1), "ids": [],
         "degree": 4, "from": _day(n % _DAYS)[:10], "to": None}
        for n in range(_NODES)
    ]  # fmt: skip
    edges = [
        {"source": f"e{rng.randrange(n % _NODES + 1)}", "target": f"e{n % _NODES}", "verb": "works with",
         "memories": 1 + n % 5, "from": _day(n % _DAYS)[:10], "to": None}
        for n in range(1, _EDGES + 1)
    ]  # fmt: skip
    counted = [{"id": kind, "name": kind, "count": _NODES // 6} for kind in kinds]
    return {"you": "e0", "reach": _NODES, "next": None, "kinds": counted, "nodes": nodes, "edges": edges}


def _timeline() -> dict[str, Any]:
    rng = random.Random(7)
    items = []
    for n in range(_ITEMS):
        start = rng.randrange(_DAYS)
        end = _day(start) if n % 3 == 0 else None if n % 3 == 1 else _day(min(_DAYS, start + rng.randrange(1, 300)))
        items.append(
            {"id": f"m{n}", "project": f"project {n % 11}", "person": "", "from": _day(start), "to": end,
             "known": _day(start), "kind": ("event", "fact", "preference")[n % 3], "weight": rng.random(),
             "agent": "Claude Code", "text": f"Memory number {n} about the release of the week"}
        )  # fmt: skip
    return {"now": _day(_DAYS), "total": _ITEMS, "months": {}, "items": items}

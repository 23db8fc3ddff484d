"""The console: how soon its pages come, and an answer while one types. The bar: 30 ms at 100,000 memories.

Beside the time to the first byte stands the processor time of the server per page, which a busy machine changes little.
"""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import quote, urlencode

from bench.corpus import Corpus
from bench.figures import Figures, percentile
from bench.served import Served

_PAGES = {
    "home": "/",
    "memories": "/memories",
    "project": "/memories?project=project-3",
    "try": "/try?q=what+do+we+know+about+the+deploy+budget",
    "ask": "/ask",
    "changes": "/changes",
    "review": "/review",
    "graph": "/graph",
    "timeline": "/timeline",
    "agents": "/agents",
    "audit": "/audit",
    "keys": "/keys",
    "overview": "/overview",
    "rules": "/rules",
    "moving": "/moving",
    "design": "/design",
}
# Seconds for the background scan of Review, which begins with the first page and would be counted with the others.
_SCAN_SECONDS = 300


def measure_console(served: Served, corpus: Corpus, label: str, rounds: int) -> Figures:
    connection = http.client.HTTPConnection(served.host, served.port)
    cookie = _sign_in(connection, served.bearer)
    _await_scan(connection, cookie)
    figures: Figures = {}
    name = _first_memory(connection, cookie)
    pages = {**_PAGES, "memory": f"/memory/{quote(name, safe='')}"}
    for page, path in pages.items():
        figures |= _measure(served, connection, cookie, f"{page}.{label}", [path] * max(10, rounds // 10))
    # What somebody types, letter by letter.
    typed = [query[:end] for query, _ in corpus.questions(max(1, rounds // 10)) for end in range(4, len(query), 4)]
    paths = [f"/memories?{urlencode({'q': text})}" for text in typed[:rounds]]
    figures |= _measure(served, connection, cookie, f"search.{label}", paths)
    connection.close()
    return figures


def _measure(
    served: Served, connection: http.client.HTTPConnection, cookie: str, label: str, paths: list[str]
) -> Figures:
    """Return the time to the first byte, the processor time of the server, and the largest answer."""
    # The first time, templates are compiled.
    _first_byte(connection, paths[0], cookie)
    used = served.processor_seconds()
    answers = [_first_byte(connection, path, cookie) for path in paths]
    used = served.processor_seconds() - used
    return {
        f"console.{label}.p50_ms": percentile([milliseconds for milliseconds, _ in answers], 0.50),
        f"console.{label}.cpu_ms": round(used / len(paths) * 1000, 1),
        f"console.{label}.bytes": max(size for _, size in answers),
    }


def _await_scan(connection: http.client.HTTPConnection, cookie: str) -> None:
    """Open Review until its background scan has ended."""
    deadline = time.monotonic() + _SCAN_SECONDS
    while b"data-scanning" in _get(connection, "/review", cookie):
        assert time.monotonic() < deadline, "the scan of Review takes too long"
        time.sleep(0.5)


def _first_memory(connection: http.client.HTTPConnection, cookie: str) -> str:
    return str(json.loads(_get(connection, "/memories.json", cookie))["memories"][0]["record"]["id"])


def _get(connection: http.client.HTTPConnection, path: str, cookie: str) -> bytes:
    connection.request("GET", f"/console{path}", headers={"Cookie": cookie})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, (path, answer.status)
    return body


def _sign_in(connection: http.client.HTTPConnection, key: str) -> str:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/console/sign-in", urlencode({"key": key}), form)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 303, answer.status
    return (answer.getheader("set-cookie") or "").partition(";")[0]


def _first_byte(connection: http.client.HTTPConnection, path: str, cookie: str) -> tuple[float, int]:
    start = time.perf_counter()
    connection.request("GET", f"/console{path}", headers={"Cookie": cookie})
    answer = connection.getresponse()
    milliseconds = (time.perf_counter() - start) * 1000
    body = answer.read()
    assert answer.status == 200, (path, answer.status)
    return milliseconds, len(body)

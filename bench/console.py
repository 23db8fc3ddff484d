"""The console: how soon its pages come, and an answer while one types. The bars: 50 and 30 ms at 100,000 memories."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlencode

from bench.corpus import Corpus
from bench.figures import Figures, percentile

_PAGES = {
    "home": "/",
    "memories": "/memories",
    "graph": "/graph",
    "timeline": "/timeline",
    "agents": "/agents",
    "audit": "/audit",
    "keys": "/keys",
    "overview": "/overview",
    "rules": "/rules",
}


def measure_console(host: str, port: int, key: str, corpus: Corpus, label: str, rounds: int) -> Figures:
    connection = http.client.HTTPConnection(host, port)
    cookie = _sign_in(connection, key)
    figures: Figures = {}
    for name, path in _PAGES.items():
        found = [_first_byte(connection, path, cookie) for _ in range(max(5, rounds // 10))]
        figures[f"console.{name}.{label}.p50_ms"] = percentile([milliseconds for milliseconds, _ in found], 0.50)
        figures[f"console.{name}.{label}.bytes"] = max(size for _, size in found)
    # What somebody types, letter by letter.
    typed = [query[:end] for query, _ in corpus.questions(max(1, rounds // 10)) for end in range(4, len(query), 4)]
    found = [_first_byte(connection, f"/memories?{urlencode({'q': each})}", cookie) for each in typed[:rounds]]
    figures[f"console.search.{label}.p50_ms"] = percentile([milliseconds for milliseconds, _ in found], 0.50)
    connection.close()
    return figures


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

"""An embedder of a few lines, where only the way of a vector is looked at. What is about meaning uses the model."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from msgspec.structs import replace

from memoranda.embedding.embedder import of_callable
from memoranda.service.core.access import Access
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.service import Service

SIZE = 64
# For processes that are not given the environment of the tests.
WORDS_ALONE = {"MEMORANDA_EMBEDDER": "off"}


def by_letters(texts: Sequence[str]) -> list[list[float]]:
    """Texts are near each other that share runs of three letters."""
    found = []
    for text in texts:
        numbers = [0.0] * SIZE
        padded = f"  {text.lower()} "
        for start in range(len(padded) - 2):
            digest = hashlib.blake2b(padded[start : start + 3].encode("utf-8", "replace"), digest_size=2).digest()
            numbers[digest[0] % SIZE] += 1.0 if digest[1] % 2 else -1.0
        found.append(numbers if any(numbers) else [1.0] * SIZE)
    return found


LETTERS = of_callable("letters", by_letters)


def letters(patience_seconds: float = 0.0) -> SemanticSearch:
    """An embedder of one's own, as a caller brings it."""
    return SemanticSearch(LETTERS.model, lambda: LETTERS, patience_seconds=patience_seconds)


# Of so many, some are near to any question by chance, and hold a word of it.
GARDEN = tuple(f"gardening note {number}: prune the roses of bed {number} before winter" for number in range(400))
FOREIGN = "winter olympic hockey championship medals awarded"
AT_HOME = "prune the roses of bed 77"


def lined() -> SemanticSearch:
    """The same embedder where it is known how near the nearest of many must be to be an answer."""
    made = replace(LETTERS, model="lined", floor=0.2, line=0.7)
    return SemanticSearch(made.model, lambda: made)


def fill_garden(service: Service, access: Access) -> None:
    """Remember all of it, and make its vectors."""
    owner = access.default_tenant
    by = {"actor": owner, "actor_kind": "user", "method": "user_correction"}
    for text in GARDEN:
        drafted = {"kind": "semantic", "body": {"text": text}, "scope": {"owner": owner}, "provenance": by}
        service.remember(access, cast("Any", drafted))
    while service.embedding.step():
        pass


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_known = self.headers["Authorization"] == "Bearer key" and body["model"] == "tiny"
        found = [{"embedding": each} for each in by_letters(body["input"])]
        answer = json.dumps({"data": found} if is_known else {"error": "who?"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def endpoint() -> Iterator[str]:
    """The address of an endpoint with the OpenAI interface, whose model is `tiny` and whose key is `key`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()

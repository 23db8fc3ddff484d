"""The routes that ask one thing and get one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import (
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
    draft_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request says, whichever way it says it."""

    access: Access
    body: Any
    # From the path.
    id: str
    query: dict[str, str]


Verb = Callable[[Service, Asked], dict[str, Any]]


class VerbRoute:
    """ASGI endpoint: read the request, and in one thread parse, call and render."""

    def __init__(self, verb: Verb, *, service: Service, threads: Threads, max_body_bytes: int) -> None:
        self._verb = verb
        self._service = service
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = b""
        if scope["method"] == "POST":
            if not wire.is_small(scope):
                # Nobody unknown makes us hold a large body.
                await self._threads.run(scope["state"]["caller"].authenticate)
                wire.check_length(scope, self._max_body_bytes)
            raw = await wire.read_body(receive)
        await wire.send_bytes(send, 200, await self._threads.run(self._work, scope, raw))

    def _work(self, scope: Scope, raw: bytes) -> bytes:
        access = scope["state"]["caller"].authenticate()
        if scope["method"] == "POST":
            wire.check_media_type(scope)
        asked = Asked(
            access=access,
            # As in the reference: an empty POST body is {}.
            body=parse(raw, max_bytes=self._max_body_bytes) if raw else {},
            id=scope["path_params"].get("id", ""),
            query=wire.query(scope),
        )
        return dump(self._verb(self._service, asked))


def recall(service: Service, asked: Asked) -> dict[str, Any]:
    found = service.recall(asked.access, RecallRequest.parse(asked.body))
    return {"results": [ranked.document() for ranked in found]}


def rehydrate(service: Service, asked: Asked) -> dict[str, Any]:
    block = service.for_prompt(asked.access, RehydrateRequest.parse(asked.body))
    answer: dict[str, Any] = {"text": block.text, "injected": block.injected}
    if block.dropped:
        answer["dropped"] = [{"id": name, "reason": reason} for name, reason in block.dropped]
    return answer


def remember(service: Service, asked: Asked) -> dict[str, Any]:
    remembered = service.remember(asked.access, draft_of(asked.body))
    return {"id": remembered.id, "result": remembered.result}


def get(service: Service, asked: Asked) -> dict[str, Any]:
    return {"record": service.get(asked.access, asked.id)}


def history(service: Service, asked: Asked) -> dict[str, Any]:
    return {"versions": service.history(asked.access, asked.id)}


def revise(service: Service, asked: Asked) -> dict[str, Any]:
    revised = service.revise(asked.access, ReviseRequest.parse(asked.body))
    return {"id": revised.id, "supersedes": revised.supersedes}


def forget(service: Service, asked: Asked) -> dict[str, Any]:
    return {"result": service.forget(asked.access, ForgetRequest.parse(asked.body))}


def feedback(service: Service, asked: Asked) -> dict[str, Any]:
    service.feedback(asked.access, FeedbackRequest.parse(asked.body))
    return {"ok": True}


def audit(service: Service, asked: Asked) -> dict[str, Any]:
    return {"events": service.audit(asked.access, asked.body)}


def audit_verify(service: Service, asked: Asked) -> dict[str, Any]:
    unknown = set(asked.query) - {"owner"}
    if unknown:
        raise InvalidInput("the query may only name an owner")
    report = service.audit_verify(asked.access, asked.query.get("owner"))
    answer: dict[str, Any] = {"ok": report.ok, "count": report.count}
    if not report.ok:
        answer |= {"brokenAt": report.broken_at, "reason": report.reason}
    return answer

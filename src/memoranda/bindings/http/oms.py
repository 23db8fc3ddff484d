"""The routes of OMS: grains as canonical bytes, in their envelopes, or as JSON (OMS §28.4 over HTTP).

What was written as bytes is read back as the same bytes; content negotiation decides only whether they are shown
as they are or as JSON fields. Nothing here deletes except for compliance, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import GrainError, InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.oms.grains import Given, StoredGrain
from memoranda.service.service import Service
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.requests import (
    FIND_FIELDS,
    FindRequest,
    VerificationRequest,
    check_known,
    given_of,
    name_of,
    reason_of,
    required_name,
)
from memoranda.standards.oms.signature import is_envelope

JSON: Final = "application/json"
# All of them mean "as it travels": a grain's first byte tells whether it is in an envelope.
GRAIN_TYPES: Final = frozenset((MEDIA_TYPE, SIGNED_MEDIA_TYPE, "application/cose", "application/octet-stream"))
# What is refused because it is protected, not because it is wrong.
DENIALS: Final = frozenset(("ERR_INVALIDATION_DENIED", "ERR_EVIDENCE_REQUIRED"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a verb of OMS."""

    access: Access
    # From the path.
    address: str
    query: dict[str, str]
    raw: bytes
    # Of the body.
    media_type: str
    wants_bytes: bool
    max_body_bytes: int

    def json(self) -> Any:
        """The body as JSON; an empty one is {}."""
        if self.media_type != JSON:
            raise InvalidInput("content-type must be application/json")
        return parse(self.raw, max_bytes=self.max_body_bytes) if self.raw else {}

    def given(self, *options: str) -> tuple[Given, dict[str, Any]]:
        """The grain in the body, as bytes or as fields, and what the request says beside it."""
        if self.media_type in GRAIN_TYPES:
            return self.raw, {}
        if self.media_type != JSON:
            raise InvalidInput(f"content-type must be {MEDIA_TYPE}, {SIGNED_MEDIA_TYPE} or {JSON}")
        return given_of(self.json(), *options)

    def options(self, *known: str) -> dict[str, Any]:
        """The query, of which every field must be known."""
        check_known(self.query, known)
        return dict(self.query)

    def said(self, *known: str) -> dict[str, Any]:
        """What a short request says, in its query or in its JSON body."""
        body = self.json()
        if not isinstance(body, dict):
            raise InvalidInput("the body must be an object")
        if twice := sorted(set(body) & set(self.query)):
            raise InvalidInput(f"{twice[0][:40]!a} is given both in the query and in the body")
        fields = {**self.query, **body}
        check_known(fields, known)
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent, and as what."""

    body: bytes
    media_type: str = JSON
    headers: tuple[wire.Header, ...] = ()


Verb = Callable[[Service, Asked], dict[str, Any] | Answer]


class OmsRoute:
    """ASGI endpoint: read the request, and in one thread parse, call and render."""

    def __init__(self, verb: Verb, *, service: Service, threads: Threads, max_body_bytes: int) -> None:
        self._verb = verb
        self._service = service
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = b"" if scope["method"] in ("GET", "HEAD") else await wire.read_body(receive)
        try:
            answer = await self._threads.run(self._work, scope, raw)
        except GrainError as error:
            # Under /ump/ the same error goes out in UMP's words alone.
            await _send_refusal(send, error)
            return
        await wire.send_bytes(send, 200, answer.body, answer.headers, media_type=answer.media_type)

    def _work(self, scope: Scope, raw: bytes) -> Answer:
        stated = wire.header(scope, b"content-type") or JSON
        asked = Asked(
            access=scope["state"]["access"],
            address=scope["path_params"].get("address", ""),
            query=wire.query(scope),
            raw=raw,
            media_type=wire.bare(stated),
            wants_bytes=_prefers_bytes(wire.header(scope, b"accept") or "*/*"),
            max_body_bytes=self._max_body_bytes,
        )
        answer = self._verb(self._service, asked)
        return answer if isinstance(answer, Answer) else Answer(body=dump(answer))


async def _send_refusal(send: Send, error: GrainError) -> None:
    body = {"code": error.code, "message": f"{error.code}: {error.message}", "oms_code": error.oms_code}
    status = 403 if error.oms_code in DENIALS else wire.OTHER_ERROR_STATUS
    await wire.send_bytes(send, status, dump({"error": body}))


def put(service: Service, asked: Asked) -> dict[str, Any]:
    options = asked.options("owner")
    given, _ = asked.given()
    stored = service.grains.put(asked.access, given, owner=name_of(options, "owner"))
    return {"address": stored.address, "result": stored.result, "warnings": list(stored.warnings)}


def get(service: Service, asked: Asked) -> dict[str, Any] | Answer:
    asked.options()
    found = service.grains.get(asked.access, asked.address)
    headers = _index_headers(found)
    if not asked.wants_bytes:
        return Answer(body=dump(found.document()), headers=headers)
    return Answer(
        body=found.delivery,
        # OMS §9.2: a signed grain travels in its envelope, whatever was asked for.
        media_type=SIGNED_MEDIA_TYPE if is_envelope(found.delivery) else MEDIA_TYPE,
        # Only the bytes never change; what the index says of them does.
        headers=((b"etag", f'"{found.address}"'.encode("ascii")), *headers),
    )


def find(service: Service, asked: Asked) -> dict[str, Any]:
    """By query, as GET has it."""
    options = asked.options("owner", *FIND_FIELDS)
    if "current" in options:
        options["current"] = {"true": True, "false": False}.get(options["current"], options["current"])
    if (limit := options.get("limit", "")).isascii() and limit.isdecimal():
        options["limit"] = int(limit[:9])
    return _found(service, asked, options)


def search(service: Service, asked: Asked) -> dict[str, Any]:
    """By JSON, as POST has it."""
    asked.options()
    body = asked.json()
    return _found(service, asked, dict(body) if isinstance(body, dict) else body)


def _found(service: Service, asked: Asked, fields: Any) -> dict[str, Any]:
    owner = None
    if isinstance(fields, dict):
        owner = name_of(fields, "owner")
        fields.pop("owner", None)
    return service.grains.find(asked.access, FindRequest.parse(fields), owner=owner).document()


def supersede(service: Service, asked: Asked) -> dict[str, Any]:
    given, beside = asked.given("justification")
    options = asked.options("justification")
    if beside and options:
        raise InvalidInput("justification is given both in the query and in the body")
    why = reason_of({**options, **beside}, "justification") or None
    stored = service.grains.supersede(asked.access, asked.address, given, justification=why)
    return {
        "address": stored.address,
        "result": stored.result,
        "needs_review": stored.needs_review,
        "warnings": list(stored.warnings),
    }


def verification(service: Service, asked: Asked) -> dict[str, Any]:
    asked.options()
    request = VerificationRequest.parse(asked.json())
    status = service.grains.set_verification(
        asked.access, asked.address, request.status, reason=request.reason, by=request.by
    )
    return {"address": asked.address, "verification_status": status}


def hold(service: Service, asked: Asked) -> dict[str, Any]:
    return _set_hold(service, asked, held=True)


def release(service: Service, asked: Asked) -> dict[str, Any]:
    return _set_hold(service, asked, held=False)


def _set_hold(service: Service, asked: Asked, *, held: bool) -> dict[str, Any]:
    reason = reason_of(asked.said("reason"))
    return {
        "address": asked.address,
        "held": service.grains.set_hold(asked.access, asked.address, held=held, reason=reason),
    }


def erase(service: Service, asked: Asked) -> dict[str, Any]:
    service.grains.erase(asked.access, asked.address, reason=reason_of(asked.said("reason")))
    return {"result": "erased"}


def erase_user(service: Service, asked: Asked) -> dict[str, Any]:
    fields = asked.said("user_id", "reason", "owner")
    done = service.grains.erase_user(
        asked.access, required_name(fields, "user_id"), reason=reason_of(fields), owner=name_of(fields, "owner")
    )
    return {"erased": done.erased, "held": done.held, "key_destroyed": done.key_destroyed}


def consents(service: Service, asked: Asked) -> dict[str, Any]:
    options = asked.options("subject_did", "grantee_did", "scope")
    address = service.grains.consent(
        asked.access,
        subject=required_name(options, "subject_did"),
        grantee=required_name(options, "grantee_did"),
        scope=name_of(options, "scope") or "retrieve",
    )
    return {"address": address}


VERBS: Final[tuple[tuple[str, str, Verb], ...]] = (
    ("POST", "/oms/grains", put),
    ("GET", "/oms/grains", find),
    ("POST", "/oms/grains/search", search),
    ("GET", "/oms/grains/{address}", get),
    ("POST", "/oms/grains/{address}/supersede", supersede),
    ("POST", "/oms/grains/{address}/verification", verification),
    ("PUT", "/oms/grains/{address}/hold", hold),
    ("DELETE", "/oms/grains/{address}/hold", release),
    ("DELETE", "/oms/grains/{address}", erase),
    ("POST", "/oms/users/erase", erase_user),
    ("GET", "/oms/consents", consents),
)


def _index_headers(found: StoredGrain) -> tuple[wire.Header, ...]:
    index = found.index
    known = (
        ("x-oms-address", found.address),
        ("x-oms-superseded-by", index.superseded_by),
        ("x-oms-system-valid-to", index.system_valid_to),
        ("x-oms-verification-status", index.verification_status),
        ("vary", "accept"),
    )
    return tuple((name.encode(), str(value).encode("ascii")) for name, value in known if value is not None)


def _prefers_bytes(accept: str) -> bool:
    """Whether an Accept header asks for the grain as it travels; JSON where it leaves both open."""
    best_bytes = best_json = 0.0
    for part in accept.split(","):
        name, quality = wire.bare(part), wire.quality(part)
        if name in GRAIN_TYPES:
            best_bytes = max(best_bytes, quality)
        elif name in (JSON, "application/*", "*/*"):
            best_json = max(best_json, quality)
    return best_bytes > best_json or (best_bytes == best_json > 0 and JSON not in accept.lower())

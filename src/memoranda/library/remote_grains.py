"""OMS over a server, with the verbs that it has over a store of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from memoranda.encoding.bases import base64_decode
from memoranda.errors import InvalidInput, NotFound, Unsupported
from memoranda.library.connection import Answer, Connection
from memoranda.model.selection import Selection
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE, TYPES
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.oms.signature import SignedGrain, is_envelope, open_delivery

if TYPE_CHECKING:
    from memoranda.service.oms.grains import Stored, UserErasure
    from memoranda.service.oms.query import GrainPage
    from memoranda.service.oms.views import Given, StoredGrain
    from memoranda.service.report import Report
    from memoranda.standards.oms.grains import Grain

_GRAINS: Final = "/oms/grains"
_BYTES: Final = {"Accept": f"{MEDIA_TYPE}, {SIGNED_MEDIA_TYPE}"}


# Why a server does not do it for others.
NOT_OVER_A_WIRE: Final = {
    "rotate_master_key": "its master key is every owner's; its operator rotates it: memoranda oms rotate-key"
}
# Listings that can be gone on with.
_CURSORS_LIMIT: Final = 1000
_SAID: Final = {"subject": "subject", "relation": "relation", "object": "object", "user_id": "user"}


class RemoteGrains:
    """Grains over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server
        # Where listings go on, by numbers of our own.
        self._cursors: dict[int, str] = {}
        self._last = 0

    def __getattr__(self, name: str) -> Any:
        if (why := NOT_OVER_A_WIRE.get(name)) is None:
            raise AttributeError(f"grains have no verb {name!r}")
        raise Unsupported(f"grains.{name}: this memory is on a server, and {why}")

    def put(self, given: Given, *, owner: str | None = None) -> Stored:
        """Add a grain: its fields, or the bytes in which it travels."""
        return _stored(self._send(_GRAINS, given, owner=owner))

    def get(self, address: str) -> StoredGrain:
        """One grain by its address."""
        return self._read(_path(address))

    def release(self, address: str) -> StoredGrain:
        """One grain that is about to leave the store. Raises ConsentViolation if it has to stay."""
        return self._read(f"{_path(address)}/leaving")

    def _read(self, path: str) -> StoredGrain:
        answer = self._server.ask("GET", path, headers=_BYTES)
        opened = open_delivery(answer.raw)
        grain = opened.grain if isinstance(opened, SignedGrain) else opened
        # What the index says beside the bytes.
        return _shown(self._server.get(path), grain, answer.raw)

    def exists(self, address: str) -> bool:
        """Whether there is such a grain."""
        try:
            self._server.get(_path(address))
        except NotFound:
            return False
        return True

    def find(self, request: FindRequest, *, owner: str | None = None) -> GrainPage:
        """Grains that match, best first when words were given, else in the order written."""
        from memoranda.service.oms.query import FoundGrain, GrainPage

        asked = {name: value for name, value in to_builtins(request, enc_hook=_type_name).items() if value is not None}
        if owner is not None:
            asked["owner"] = owner
        said = self._server.post(f"{_GRAINS}/search", asked)
        results = tuple(
            FoundGrain(stored=self._found(each), score=each["score"], matched_fields=tuple(each["matched_fields"]))
            for each in said["results"]
        )
        return GrainPage(results=results, total=said["total"], next_cursor=said["next_cursor"])

    def search(
        self, text: str, *, owner: str | None = None, where: Selection, limit: int = 20
    ) -> list[tuple[StoredGrain, float]]:
        """Grains of any of the ten types by their words, best first; `where` as far as a request can say it."""
        found = self.find(_request(where, text=text, limit=limit), owner=owner)
        return [(each.stored, each.score) for each in found.results]

    def listing(
        self,
        selection: Selection,
        *,
        owner: str | None = None,
        type_byte: int | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> tuple[list[StoredGrain], int | None]:
        """Grains in the order written, and where to go on: a number of this object's own, for what a server told it."""
        cursor = None if not after else self._cursors.get(after)
        if after and cursor is None:
            raise InvalidInput("after is not where a listing of this object went on")
        kind = None if type_byte is None else _type_name(type_byte)
        page = self.find(_request(selection, type=kind, cursor=cursor, limit=limit), owner=owner)
        following = None
        if page.next_cursor is not None:
            self._last = following = self._last + 1
            self._cursors[following] = page.next_cursor
            self._cursors.pop(following - _CURSORS_LIMIT, None)
        return [each.stored for each in page.results], following

    def with_defaults(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with the present moment; the namespace that they do not name, the server fills in."""
        return {"created_at": time.time_ns() // 1_000_000, **fields}

    def export(
        self,
        *,
        owner: str | None = None,
        namespace: str | None = None,
        history: bool = True,
        report: Report | None = None,
    ) -> Iterator[tuple[bytes, IndexState]]:
        """Every grain that may leave, as it travels, with what the index knows."""
        following: int | None = 0
        while following is not None:
            page, following, told = self.export_page(owner=owner, namespace=namespace, history=history, after=following)
            if report is not None:
                report.add(told)
            yield from page

    def export_page(
        self, *, owner: str | None = None, namespace: str | None = None, history: bool = True, after: int = 0
    ) -> tuple[list[tuple[bytes, IndexState]], int | None, Report]:
        """A page of the same, after which version the next begins, and what of it stays behind."""
        from memoranda.service.report import Report

        asked = {"owner": owner, "namespace": namespace, "history": "true" if history else "false"}
        said = self._server.get("/oms/export", **asked, cursor=after or None)
        page = [(base64_decode(each["grain"]), IndexState.from_fields(each["index"])) for each in said["grains"]]
        cursor = said["next_cursor"]
        return page, None if cursor is None else int(cursor), Report.of(said["report"])

    def supersede(self, old_address: str, given: Given, *, justification: str | None = None) -> Stored:
        """Replace a grain under its policy."""
        return _stored(self._send(f"{_path(old_address)}/supersede", given, justification=justification))

    def set_verification(self, address: str, status: str, *, reason: str = "", by: str | None = None) -> str:
        """Say what is known of a grain's truth."""
        asked = {"status": status, "reason": reason, **({} if by is None else {"by": by})}
        return str(self._server.post(f"{_path(address)}/verification", asked)["verification_status"])

    def set_hold(self, address: str, *, held: bool, reason: str = "") -> bool:
        """Put a legal hold on a grain, or lift it."""
        method = "PUT" if held else "DELETE"
        return bool(self._server.ask(method, f"{_path(address)}/hold", query={"reason": reason}).document["held"])

    def erase(self, address: str, *, reason: str) -> None:
        """Erase a grain for compliance."""
        self._server.ask("DELETE", _path(address), query={"reason": reason})

    def erase_user(self, user: str, *, reason: str, owner: str | None = None) -> UserErasure:
        """Erase everything of a user, and destroy the user's key."""
        from memoranda.service.oms.grains import UserErasure

        asked = {"user_id": user, "reason": reason, **({} if owner is None else {"owner": owner})}
        return UserErasure(**self._server.post("/oms/users/erase", asked))

    def consent(self, *, subject: str, grantee: str, scope: str = "retrieve") -> str | None:
        """The address of the consent under which `grantee` may act on what is `subject`'s, now."""
        said = self._server.get("/oms/consents", subject_did=subject, grantee_did=grantee, scope=scope)
        return None if said["address"] is None else str(said["address"])

    def _send(self, path: str, given: Given, **query: str | None) -> Answer:
        if not isinstance(given, bytes):
            return self._server.ask("POST", path, {"grain": dict(given)}, query=query)
        kind = SIGNED_MEDIA_TYPE if is_envelope(given) else MEDIA_TYPE
        return self._server.ask("POST", path, given, query=query, headers={"Content-Type": kind})

    def _found(self, said: Mapping[str, Any]) -> StoredGrain:
        """A grain of a list. JSON cannot say all that a grain can: where it is another, its bytes are asked for."""
        grain = codec.encode(said["grain"])
        if grain.address != said["content_address"]:
            return self.get(said["content_address"])
        return _shown({**said, "address": said["content_address"]}, grain, grain.blob)


def _request(selection: Selection, **more: Any) -> FindRequest:
    """The request that says the same. Raises Unsupported for what a request has no word for."""
    space = DEFAULT_NAMESPACE if selection.space == "" else selection.space
    fields: dict[str, Any] = {name: getattr(selection, part) for name, part in _SAID.items()}
    fields |= {"namespace": space, "session_id": selection.session, "current": selection.standing == "current", **more}
    request = FindRequest.parse({name: value for name, value in fields.items() if value is not None})
    if request.selection != selection:
        raise Unsupported("where: over a server, grains are found by what a FindRequest can say")
    return request


def _shown(said: Mapping[str, Any], grain: Grain, delivery: bytes) -> StoredGrain:
    from memoranda.service.oms.views import StoredGrain

    return StoredGrain(
        address=said["address"],
        delivery=delivery,
        grain=grain,
        index=IndexState.from_fields(said["index"]),
        is_held=said["held"],
        needs_review=said["needs_review"],
        is_native=said["native"],
        writer=said.get("written_by", ""),
    )


def _stored(answer: Answer) -> Stored:
    from memoranda.service.oms.grains import Stored

    return Stored(**{**answer.document, "warnings": tuple(answer.document["warnings"])})


def _type_name(byte: int) -> str:
    known = next((each.name for each in TYPES if each.byte == byte), None)
    return known or f"0x{byte:02X}"


def _path(address: str) -> str:
    from urllib.parse import quote

    return f"{_GRAINS}/{quote(address, safe='')}"

"""OMS over a server, with the verbs that it has over a store of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from memoranda.errors import NotFound
from memoranda.library.connection import Answer, Connection
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.registry import TYPES
from memoranda.standards.oms.signature import SignedGrain, is_envelope, open_delivery

if TYPE_CHECKING:
    from memoranda.service.oms.grains import Stored, UserErasure
    from memoranda.service.oms.query import GrainPage
    from memoranda.service.oms.views import Given, StoredGrain
    from memoranda.standards.oms.grains import Grain
    from memoranda.standards.oms.requests import FindRequest

_GRAINS: Final = "/oms/grains"
_BYTES: Final = {"Accept": f"{MEDIA_TYPE}, {SIGNED_MEDIA_TYPE}"}


class RemoteGrains:
    """Grains over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def put(self, given: Given, *, owner: str | None = None) -> Stored:
        """Add a grain: its fields, or the bytes in which it travels."""
        return _stored(self._send(_GRAINS, given, owner=owner))

    def get(self, address: str) -> StoredGrain:
        """One grain by its address."""
        answer = self._server.ask("GET", _path(address), headers=_BYTES)
        opened = open_delivery(answer.raw)
        grain = opened.grain if isinstance(opened, SignedGrain) else opened
        # What the index says beside the bytes.
        return _shown(self._server.get(_path(address)), grain, answer.raw)

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


def _shown(said: Mapping[str, Any], grain: Grain, delivery: bytes) -> StoredGrain:
    from memoranda.service.oms.views import StoredGrain

    return StoredGrain(
        address=said["address"],
        delivery=delivery,
        grain=grain,
        index=IndexState(**said["index"]),
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

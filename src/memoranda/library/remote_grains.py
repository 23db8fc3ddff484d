"""OMS over a server: the verbs on grains that a store of this process has.

Grains travel as the bytes that were signed: JSON cannot hold every grain, so a list whose entry lost something fetches
the bytes of that grain. The positions of a server's pages are texts, those of a local store numbers; this class numbers
the texts that it received, which is why `after` must come from the same object.

Verbs without anything special are made from the rows of the operations; see `library/remote_verbs.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from memoranda.bindings.operations.oms import OPERATIONS
from memoranda.encoding.bases import base64_decode
from memoranda.errors import InvalidInput, NotFound, Unsupported
from memoranda.library.remote_ump import read_pages
from memoranda.library.remote_verbs import RemoteVerbs, read_result
from memoranda.model.selection import Selection
from memoranda.service.exchange.report import Report
from memoranda.service.oms.grains import GrainResult
from memoranda.service.oms.query import GrainPage, ScoredGrain
from memoranda.service.oms.views import GrainInput, StoredGrain
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE, TYPES
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.oms.signature import SignedGrain, is_envelope, open_delivery

if TYPE_CHECKING:
    from memoranda.library.remote import ServerConnection

_BYTES: Final = {"Accept": f"{MEDIA_TYPE}, {SIGNED_MEDIA_TYPE}"}
# Listings that can be continued: their cursors, a hundred bytes each, are kept for a caller who comes back.
_CURSORS_LIMIT: Final = 1000
# Fields of a request, and the parts of a selection that they state.
_PARTS: Final = {
    "subject": "subject",
    "relation": "relation",
    "object": "object",
    "user_id": "user",
}
# Verbs that a server does not offer, and the reason.
NOT_OVER_A_WIRE: Final[Mapping[str, str]] = {
    "rotate_master_key": "its master key is every owner's; its operator rotates it: memoranda oms rotate-key"
}


class RemoteGrains(RemoteVerbs, rows=OPERATIONS, refused=NOT_OVER_A_WIRE):
    """Grains over a server. Defines only verbs that send bytes or need several requests; `rows` gives the others."""

    def __init__(self, server: ServerConnection) -> None:
        super().__init__(server)
        # The server's cursors, by numbers of our own.
        self._cursors: dict[int, str] = {}
        self._last = 0

    def put(self, grain_input: GrainInput, *, owner: str | None = None) -> GrainResult:
        """Add a grain: its fields, or the bytes in which it travels."""
        return self._store("put", grain_input, owner=owner)

    def supersede(
        self, old_address: str, grain_input: GrainInput, *, justification: str | None = None
    ) -> GrainResult:
        """Replace a grain under its policy."""
        return self._store(
            "supersede", grain_input, address=old_address, justification=justification
        )

    def _store(self, verb: str, grain_input: GrainInput, **arguments: Any) -> GrainResult:
        if isinstance(grain_input, bytes):
            kind = SIGNED_MEDIA_TYPE if is_envelope(grain_input) else MEDIA_TYPE
            answer = self._answer(
                verb, _body=grain_input, _headers={"Content-Type": kind}, **arguments
            )
        else:
            answer = self._answer(verb, _body={"grain": dict(grain_input)}, **arguments)
        result: GrainResult = read_result(answer.document, GrainResult)
        return result

    def get(self, address: str) -> StoredGrain:
        """Return one grain by its address."""
        return self._fetch("get", address)

    def release(self, address: str) -> StoredGrain:
        """Return one grain that is about to leave the store. Raises ConsentViolation if it has to stay."""
        return self._fetch("release", address)

    def _fetch(self, verb: str, address: str) -> StoredGrain:
        delivery = self._answer(verb, address=address, _headers=_BYTES).raw
        opened_delivery = open_delivery(delivery)
        grain = (
            opened_delivery.grain if isinstance(opened_delivery, SignedGrain) else opened_delivery
        )
        # The index does not travel with the bytes.
        return _stored_grain(self._document(verb, address=address), grain, delivery)

    def exists(self, address: str) -> bool:
        """Return True if there is such a grain."""
        try:
            self._answer("get", address=address)
        except NotFound:
            return False
        return True

    def find(self, request: FindRequest, *, owner: str | None = None) -> GrainPage:
        """Return grains that match, best first with a text, else in the order written."""
        fields = {
            name: value
            for name, value in to_builtins(request, enc_hook=_type_name).items()
            if value is not None
        }
        answer = self._document("find", request=fields, owner=owner)
        results = tuple(
            ScoredGrain(
                stored=self._grain_in(result),
                score=result["score"],
                matched_fields=tuple(result["matched_fields"]),
            )
            for result in answer["results"]
        )
        return GrainPage(results=results, total=answer["total"], next_cursor=answer["next_cursor"])

    def search(
        self, text: str, *, owner: str | None = None, where: Selection, limit: int = 20
    ) -> list[tuple[StoredGrain, float]]:
        """Return grains of any type by their words, best first; `where` as far as a request can state it."""
        page = self.find(_request(where, text=text, limit=limit), owner=owner)
        return [(result.stored, result.score) for result in page.results]

    def listing(
        self,
        selection: Selection,
        *,
        owner: str | None = None,
        type_byte: int | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> tuple[list[StoredGrain], int | None]:
        """Return a page of grains in the order written, and what to pass as `after` for the next page.

        Raises InvalidInput for a position that another object returned.
        """
        cursor = None if not after else self._cursors.get(after)
        if after and cursor is None:
            raise InvalidInput(
                "after must be the position that an earlier page of this object returned"
            )
        kind = None if type_byte is None else _type_name(type_byte)
        page = self.find(_request(selection, type=kind, cursor=cursor, limit=limit), owner=owner)
        next_position = None
        if page.next_cursor is not None:
            self._last = next_position = self._last + 1
            self._cursors[next_position] = page.next_cursor
            self._cursors.pop(next_position - _CURSORS_LIMIT, None)
        return [result.stored for result in page.results], next_position

    def with_defaults(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the fields with the present moment; the server fills in a namespace."""
        return {"created_at": time.time_ns() // 1_000_000, **fields}

    def export(
        self,
        *,
        owner: str | None = None,
        namespace: str | None = None,
        history: bool = True,
        report: Report | None = None,
    ) -> Iterator[tuple[bytes, IndexState]]:
        """Yield every grain that may leave, as it travels, with its index."""
        return read_pages(
            lambda after: self.export_page(
                owner=owner, namespace=namespace, history=history, after=after
            ),
            report,
        )

    def export_page(
        self,
        *,
        owner: str | None = None,
        namespace: str | None = None,
        history: bool = True,
        after: str | None = None,
    ) -> tuple[list[tuple[bytes, IndexState]], str | None, Report]:
        """Return a page of an export, the position of the next one, and the report of the page."""
        answer = self._document(
            "export_page", owner=owner, namespace=namespace, history=history, after=after
        )
        page = [
            (base64_decode(grain["grain"]), IndexState(**grain["index"]))
            for grain in answer["grains"]
        ]
        return page, answer["next_cursor"], Report.of(answer["report"])

    def set_hold(self, address: str, *, held: bool, reason: str = "") -> bool:
        """Put a legal hold on a grain, or lift it."""
        answer = self._document(
            "grain_hold" if held else "grain_release", address=address, reason=reason
        )
        return bool(answer["held"])

    def _grain_in(self, document: Mapping[str, Any]) -> StoredGrain:
        """Return a grain of a list. JSON cannot hold every grain: where it holds another, the bytes are fetched."""
        grain = codec.encode(document["grain"])
        if grain.address != document["content_address"]:
            return self.get(document["content_address"])
        return _stored_grain(
            {**document, "address": document["content_address"]}, grain, grain.blob
        )


def _request(selection: Selection, **extra: object) -> FindRequest:
    """Return the request for a selection. Raises Unsupported for one that no request can state."""
    space = DEFAULT_NAMESPACE if selection.space == "" else selection.space
    fields: dict[str, object] = {name: getattr(selection, part) for name, part in _PARTS.items()}
    fields |= {
        "namespace": space,
        "session_id": selection.session,
        "current": selection.status_filter == "current",
        **extra,
    }
    request = FindRequest.parse(
        {name: value for name, value in fields.items() if value is not None}
    )
    if request.selection != selection:
        raise Unsupported("where: a server finds grains only by the fields of a FindRequest")
    return request


def _stored_grain(document: Mapping[str, Any], grain: Grain, delivery: bytes) -> StoredGrain:
    return StoredGrain(
        address=document["address"],
        delivery=delivery,
        grain=grain,
        index=IndexState(**document["index"]),
        is_held=document["held"],
        needs_review=document["needs_review"],
        is_native=document["native"],
        writer=document.get("written_by", ""),
    )


def _type_name(byte: int) -> str:
    name = next((kind.name for kind in TYPES if kind.byte == byte), None)
    return name or f"0x{byte:02X}"

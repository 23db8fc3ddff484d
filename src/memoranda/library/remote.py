"""The verbs over a server: asked over HTTP as UMP and OAMS say it, and answered with the same values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from memoranda.encoding.json_text import dump
from memoranda.errors import MemoryNotFound, NotFound, Unsupported
from memoranda.library.connection import Connection
from memoranda.library.results import Hit, Hits, Memories, Memory, Versions, version
from memoranda.library.verbs import Asked
from memoranda.model.instant import Instant
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.requests import MAX_IMPORT
from memoranda.standards.ump.rules import without_original
from memoranda.standards.ump.shapes import Record

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.access import Access
    from memoranda.service.exchange import Report
    from memoranda.service.imports import UndoneImport
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.overview import Stats
    from memoranda.service.ump.redact import Suspect
    from memoranda.service.ump.remember import Remembered
    from memoranda.service.ump.revise import Forgotten, Revised
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.oams import memory as oams
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.ump.rehydrate import Rehydrated


# What a pass of consolidation can be told over HTTP, by the names that it has there.
_OPTIONS: Final = {"limit": "limit", "budget_tokens": "budget"}
# Half of what a server takes.
_BATCH_BYTES: Final = 1_048_576


class Remote:
    """UMP's verbs over a server; the key decides whose memory it is."""

    def __init__(self, url: str, key: str | None) -> None:
        self._server = Connection(url, key)

    @cached_property
    def owner(self) -> str:
        return str(self._server.get("/ump/stats")["owner"])

    @cached_property
    def oams(self) -> RemoteOams:
        return RemoteOams(self._server)

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    def remember(self, draft: dict[str, Any]) -> Remembered:
        from memoranda.service.ump.remember import Remembered

        # As in a store of one's own: that a program said it, by whatever way.
        provenance = {"method": "library", **draft.get("provenance", {})}
        return Remembered(**self._server.post("/ump/remember", {**draft, "provenance": provenance}))

    def recall(self, asked: Asked) -> Hits:
        return [
            Hit(each["record"], score=each["score"], signals=each["signals"], explanation=each.get("explanation"))
            for each in self._server.post("/ump/recall", asked)["results"]
        ]

    def for_prompt(self, asked: Asked) -> Rehydrated:
        from memoranda.standards.ump.rehydrate import Rehydrated

        said = self._server.post("/ump/rehydrate", asked)
        dropped = tuple((each["id"], each["reason"]) for each in said.get("dropped", ()))
        return Rehydrated(text=said["text"], injected=tuple(said["injected"]), dropped=dropped)

    def page(self, asked: Asked, limit: int, after: int) -> tuple[Memories, int | None]:
        found: Memories = []
        following: int | None = after
        # A server's pages are shorter than what may be asked for here.
        while following is not None and len(found) < limit:
            size = min(limit - len(found), MAX_RECALL)
            said = self._server.get("/ump/memories", **asked, limit=size, cursor=following or None)
            found += [Memory(record) for record in said["records"]]
            following = None if said["next_cursor"] is None else int(said["next_cursor"])
        return found, following

    def stats(self) -> Stats:
        from memoranda.service.ump.overview import Stats

        said = self._server.get("/ump/stats")
        return Stats(**{name: value for name, value in said.items() if name != "owner"})

    def get(self, name: str) -> Record:
        return cast("Record", self._server.get(_memory(name))["record"])

    def history(self, name: str) -> Versions:
        found: Versions = []
        cursor = None
        while True:
            said = self._server.get(f"{_memory(name)}/history", cursor=cursor)
            found += [version(each) for each in said["versions"]]
            cursor = said.get("next_cursor")
            if cursor is None:
                return found

    def change(
        self, name: str, text: str | None, structured: Mapping[str, Any] | None, patch: Mapping[str, Any]
    ) -> Revised:
        from memoranda.service.ump.revise import Revised

        changes = dict(patch)
        if text is not None or structured is not None:
            # UMP §3.5 replaces a body as a whole, so that a new wording alone would lose the data.
            body: dict[str, Any] = dict(without_original(self.get(name))["body"])
            said = {"text": text, "structured": None if structured is None else dict(structured)}
            changes["body"] = {**body, **{part: value for part, value in said.items() if value is not None}}
        revised = self._server.post("/ump/revise", {"id": name, "patch": changes})
        return Revised(id=revised["id"], supersedes=tuple(revised["supersedes"]))

    def forget(self, asked: Asked) -> Forgotten:
        return cast("Forgotten", self._server.post("/ump/forget", asked)["result"])

    def feedback(self, asked: Asked) -> None:
        self._server.post("/ump/feedback", asked)

    @cached_property
    def cal(self) -> Cal[Access]:
        from memoranda.library.remote_cal import RemoteCal

        # The same verbs with the same signatures; tests/test_library_parity.py holds them against each other.
        return cast("Cal[Access]", RemoteCal(self._server))

    @cached_property
    def grains(self) -> Grains[Access]:
        from memoranda.library.remote_grains import RemoteGrains

        return cast("Grains[Access]", RemoteGrains(self._server))

    @cached_property
    def openwop(self) -> Openwop[Access]:
        from memoranda.library.remote_openwop import RemoteOpenwop

        return cast("Openwop[Access]", RemoteOpenwop(self._server))

    def suspects(self) -> Sequence[Suspect]:
        from memoranda.service.ump.redact import Suspect

        found = self._server.get("/ump/suspects")["suspects"]
        return [Suspect(**{**each, "kinds": tuple(each["kinds"])}) for each in found]

    def redact(self, name: str) -> str:
        return str(self._server.post("/ump/redact", {"id": name})["id"])

    def export(self, project: str | None, history: bool, report: Report | None) -> Iterator[Record]:
        from memoranda.service.exchange import Report

        cursor: str | None = None
        while True:
            asked = {"project": project, "history": "true" if history else "false", "cursor": cursor}
            said = self._server.get("/ump/export", **asked)
            if report is not None:
                report.add(Report.of(said["report"]))
            yield from said["records"]
            cursor = said["next_cursor"]
            if cursor is None:
                return

    def import_records(self, records: Iterable[object], restore: bool) -> Report:
        from memoranda.service.exchange import Report

        report, first = Report(), 1
        for batch in _batches(records):
            said = self._server.post("/ump/import", {"records": batch, "restore": restore, "first": first})
            report.add(Report.of(said))
            first += len(batch)
        return report

    def undo_import(self, name: str | None) -> UndoneImport:
        from memoranda.service.imports import UndoneImport

        said = self._server.post("/ump/imports/undo", {} if name is None else {"id": name})
        return UndoneImport(id=said.pop("import"), **said)

    def verify(self) -> VerifyReport:
        from memoranda.service.verify import VerifyReport

        return VerifyReport.of(self._server.get("/ump/verify"))

    def close(self) -> None:
        self._server.close()


class RemoteOams:
    """The operations of OAMS over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    @cached_property
    def _default(self) -> Namespace:
        from memoranda.standards.oams.namespace import parse_namespace

        return parse_namespace(self._server.get("/v1/oams/namespaces")["default"])

    def namespace(self, name: str | None = None) -> Namespace:
        from memoranda.standards.oams.namespace import parse_namespace

        if name is None:
            return self._default
        return parse_namespace(name if ":" in name else f"{self._default.owner}:{name}")

    def namespaces(self) -> Sequence[str]:
        return tuple(self._server.get("/v1/oams/namespaces")["namespaces"])

    def store(self, memory: Asked, *, if_match: str | None, if_absent: bool) -> Stored:
        from memoranda.service.oams.memories import Stored

        conditions = {"If-Match": if_match, "If-None-Match": "*" if if_absent else None}
        headers = {name: value for name, value in conditions.items() if value is not None}
        answer = self._server.ask("PUT", _path(memory["namespace"], memory["key"]), dict(memory), headers=headers)
        return Stored(
            memory=answer.document,
            etag=_etag(answer.headers.get("ETag")),
            # Over HTTP what says the same as before is not told from what does not.
            result="created" if answer.status == 201 else "updated",
            warnings=tuple(answer.headers.get_all("X-OAMS-Warning") or ()),
        )

    def batch_store(self, memories: Sequence[Asked]) -> Sequence[Stored]:
        from memoranda.service.oams.memories import Stored

        said = self._server.post("/v1/oams/memories/batch", {"memories": [dict(each) for each in memories]})
        return [Stored(memory=each, etag="", result="stored") for each in said]

    def recall(self, asked: Asked) -> Sequence[oams.Memory]:
        return cast("list[oams.Memory]", self._server.post("/v1/oams/recall", asked))

    def get(self, namespace: Namespace, key: str) -> Shown:
        from memoranda.service.oams.views import Shown

        answer = self._server.ask("GET", _path(str(namespace), key))
        return Shown(memory=answer.document, etag=_etag(answer.headers.get("ETag")))

    def forget(self, namespace: Namespace, key: str, *, if_match: str | None) -> None:
        headers = {} if if_match is None else {"If-Match": if_match}
        self._server.ask("DELETE", _path(str(namespace), key), headers=headers)

    def list(self, asked: Asked) -> Page:
        from memoranda.service.oams.recall import Page

        where = {name: value for name, value in asked.items() if name != "namespace"}
        said = self._server.get(f"/v1/oams/memories/{quote(asked['namespace'], safe='')}", **where)
        return Page(memories=said["memories"], next_cursor=said["next_cursor"])

    def consolidate(self, namespace: Namespace, strategy: str, is_dry: bool, options: Asked) -> DreamRun:
        from memoranda.service.consolidation.dreams import DreamRun, Output

        if unknown := sorted(options.keys() - _OPTIONS.keys()):
            raise Unsupported(f"{unknown[0]}: a server can be told only {', '.join(_OPTIONS)}")
        asked = {"namespace": str(namespace), "strategy": strategy, "dry_run": is_dry}
        said = self._server.post("/v1/oams/dreams", {**asked, **{_OPTIONS[name]: options[name] for name in options}})
        outputs = tuple(
            Output(
                memory=each["memory"],
                result=each["result"],
                inputs=tuple((came["key"], came["text"]) for came in each["inputs"]),
            )
            for each in said["outputs"]
        )
        plain: dict[str, Any] = {name: said[name] for name in ("run_id", "namespace", "strategy", "inputs", "stayed")}
        plain |= {name: tuple(said[name]) for name in ("taken_back", "left_out")}
        return DreamRun(**plain, outputs=outputs, is_dry=said["dry_run"])

    def undo(self, run_id: str) -> Undone:
        from memoranda.service.consolidation.runs import Undone

        try:
            said = self._server.ask("DELETE", f"/v1/oams/dreams/{quote(run_id, safe='')}").document
        except MemoryNotFound as error:
            # OAMS has one code for both.
            raise NotFound(error.message) from None
        listed = {name: tuple(said[name]) for name in ("taken_back", "brought_again", "left")}
        return Undone(run_id=said["run_id"], **listed)


def _batches(records: Iterable[object]) -> Iterator[list[object]]:
    """As many records at a time as fit into one request."""
    batch: list[object] = []
    size = 0
    for record in records:
        length = len(dump(record))
        if batch and (size + length > _BATCH_BYTES or len(batch) == MAX_IMPORT):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch


def _memory(name: str) -> str:
    return f"/ump/memory/{quote(name, safe='')}"


def _path(namespace: str, key: str) -> str:
    return f"/v1/oams/memories/{quote(namespace, safe='')}/{quote(key, safe='')}"


def _etag(header: str | None) -> str:
    return (header or "").strip('"')

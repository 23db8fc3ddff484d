"""Every standard over a server: asked over HTTP, and answered with the same values."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from memoranda.encoding.json_text import dump, parse
from memoranda.encoding.shapes import to_json
from memoranda.errors import MemoryNotFound, NotFound, Unsupported
from memoranda.library.connection import Connection
from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.consolidation.strategies.dream import Options
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.access import Access
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.report import Report
    from memoranda.service.ump.ump import Ump
    from memoranda.standards.oams import memory as oams
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.oams.requests import DreamRequest, ListRequest, RecallRequest


class Remote:
    """One person's memory on a server; the key decides whose."""

    def __init__(self, url: str, key: str | None) -> None:
        self._server = Connection(url, key)

    @cached_property
    def owner(self) -> str:
        return str(self._server.get("/ump/stats")["owner"])

    @cached_property
    def ump(self) -> Ump[Access]:
        from memoranda.library.remote_ump import RemoteUmp

        # The same verbs with the same signatures; tests/test_library_parity.py holds them against each other.
        return cast("Ump[Access]", RemoteUmp(self._server))

    @cached_property
    def oams(self) -> Oams[Access]:
        return cast("Oams[Access]", RemoteOams(self._server))

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    @cached_property
    def cal(self) -> Cal[Access]:
        from memoranda.library.remote_cal import RemoteCal

        return cast("Cal[Access]", RemoteCal(self._server))

    @cached_property
    def grains(self) -> Grains[Access]:
        from memoranda.library.remote_grains import RemoteGrains

        return cast("Grains[Access]", RemoteGrains(self._server))

    @cached_property
    def openwop(self) -> Openwop[Access]:
        from memoranda.library.remote_openwop import RemoteOpenwop

        return cast("Openwop[Access]", RemoteOpenwop(self._server))

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

    def namespaces(self) -> list[str]:
        return list(self._server.get("/v1/oams/namespaces")["namespaces"])

    def store(self, value: Mapping[str, Any], *, if_match: str | None = None, if_absent: bool = False) -> Stored:
        """Write one memory."""
        from memoranda.service.oams.memories import Stored

        conditions = {"If-Match": if_match, "If-None-Match": "*" if if_absent else None}
        headers = {name: value for name, value in conditions.items() if value is not None}
        answer = self._server.ask("PUT", _path(value["namespace"], value["key"]), dict(value), headers=headers)
        return Stored(
            memory=answer.document,
            etag=_etag(answer.headers.get("ETag")),
            result=str(answer.headers.get("X-OAMS-Result")),
            warnings=tuple(answer.headers.get_all("X-OAMS-Warning") or ()),
        )

    def batch_store(self, values: Sequence[Mapping[str, Any]]) -> list[Stored]:
        """Write many memories, all or none; which were new is not told over HTTP."""
        from memoranda.service.oams.memories import Stored

        said = self._server.post("/v1/oams/memories/batch", {"memories": [dict(each) for each in values]})
        return [Stored(memory=each, etag="", result="stored") for each in said]

    def recall(self, request: RecallRequest, *, consents: Sequence[Access] = ()) -> list[oams.Memory]:
        """The best memories for a query, each with its score."""
        if consents:
            raise Unsupported("consents: over a server they are tokens, in the header X-OAMS-Consent")
        return cast("list[oams.Memory]", self._server.post("/v1/oams/recall", to_json(request)))

    def get(self, namespace: Namespace, key: str) -> Shown:
        from memoranda.service.oams.views import Shown

        answer = self._server.ask("GET", _path(str(namespace), key))
        return Shown(memory=answer.document, etag=_etag(answer.headers.get("ETag")))

    def forget(self, namespace: Namespace, key: str, *, if_match: str | None = None) -> None:
        """Take a memory out of every answer."""
        headers = {} if if_match is None else {"If-Match": if_match}
        self._server.ask("DELETE", _path(str(namespace), key), headers=headers)

    def list_memories(self, request: ListRequest) -> Page:
        """What there is in a namespace, last updated first, a page at a time."""
        from memoranda.service.oams.recall import Page

        where = to_json(request)
        path = f"/v1/oams/memories/{quote(where.pop('namespace'), safe='')}"
        if "tags" in where:
            where["tags"] = dump(where["tags"]).decode()
        said = self._server.get(path, **where)
        return Page(memories=said["memories"], next_cursor=said["next_cursor"])

    def export(
        self, *, namespaces: Sequence[Namespace] | None = None, report: Report | None = None
    ) -> Iterator[tuple[bytes, oams.Memory]]:
        """Every memory that is there now and may leave: the bytes of its line, and what they say."""
        listed = [self.namespace(name) for name in self.namespaces()] if namespaces is None else namespaces
        for namespace in listed:
            following: int | None = 0
            while following is not None:
                lines, following, told = self.export_page(namespace, after=following)
                if report is not None:
                    report.add(told)
                yield from lines

    def export_page(
        self, namespace: Namespace, *, after: int = 0
    ) -> tuple[list[tuple[bytes, oams.Memory]], int | None, Report]:
        """A page of what may leave of a namespace."""
        from memoranda.service.report import Report

        said = self._server.get(f"/v1/oams/export/{quote(str(namespace), safe='')}", cursor=after or None)
        lines = [(line.encode("utf-8"), cast("oams.Memory", parse(line.encode("utf-8")))) for line in said["lines"]]
        cursor = said["next_cursor"]
        return lines, None if cursor is None else int(cursor), Report.of(said["report"])

    def consolidate(
        self,
        namespace: Namespace,
        strategy: str,
        *,
        is_dry: bool = False,
        options: Options | None = None,
        writer: object = None,
        only: Collection[str] | None = None,
    ) -> DreamRun:
        """Run one strategy over a namespace."""
        from memoranda.consolidation.strategies.dream import Options

        told = Options() if options is None else options
        if writer is not None or told.count is not Options().count:
            raise Unsupported("writer and count: what words results and counts tokens is the server's")
        asked = {"namespace": str(namespace), "strategy": strategy, "dry_run": is_dry}
        wanted = {} if only is None else {"only": list(only)}
        how = {"limit": told.limit, "budget": told.budget_tokens, "least": told.least, "likeness": told.likeness}
        return self._dreamt({**asked, **how, **wanted})

    def refuse(self, namespace: Namespace, strategy: str, keys: Collection[str]) -> DreamRun:
        """Note that some of what a strategy comes to is not wanted."""
        return self._dreamt({"namespace": str(namespace), "strategy": strategy, "refuse": list(keys)})

    def dream(self, request: DreamRequest) -> DreamRun:
        """The pass that a request asks for."""
        return self._dreamt(to_json(request))

    def dream_runs(self) -> list[dict[str, Any]]:
        """The passes that changed something and were not undone, the last first."""
        return list(self._server.get("/v1/oams/dreams")["runs"])

    def _dreamt(self, asked: Mapping[str, Any]) -> DreamRun:
        from memoranda.service.consolidation.dreams import DreamRun, Output

        said = self._server.post("/v1/oams/dreams", asked)
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


def _path(namespace: str, key: str) -> str:
    return f"/v1/oams/memories/{quote(namespace, safe='')}/{quote(key, safe='')}"


def _etag(header: str | None) -> str:
    return (header or "").strip('"')

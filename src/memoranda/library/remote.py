"""Every standard over a server: asked over HTTP, and answered with the same values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from memoranda.errors import MemoryNotFound, NotFound, Unsupported
from memoranda.library.connection import Connection
from memoranda.library.verbs import Asked
from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.access import Access
    from memoranda.service.oams.memories import Stored
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.ump import Ump
    from memoranda.standards.oams import memory as oams
    from memoranda.standards.oams.namespace import Namespace


# What a pass of consolidation can be told over HTTP, by the names that it has there.
_OPTIONS: Final = {"limit": "limit", "budget_tokens": "budget"}


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
    def oams(self) -> RemoteOams:
        return RemoteOams(self._server)

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


def _path(namespace: str, key: str) -> str:
    return f"/v1/oams/memories/{quote(namespace, safe='')}/{quote(key, safe='')}"


def _etag(header: str | None) -> str:
    return (header or "").strip('"')

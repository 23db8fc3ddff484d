"""UMP over a server: the verbs that it has over a store of this process, with the same requests and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from memoranda.encoding.shapes import to_json
from memoranda.library.connection import Connection
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.requests import MAX_EXPORT_IDS, GetRequest
from memoranda.standards.ump.rules import drop_original
from memoranda.standards.ump.shapes import Record

if TYPE_CHECKING:
    from memoranda.service.core.feed import FeedPage
    from memoranda.service.core.ranking import Ranked
    from memoranda.service.core.rules import OwnRules
    from memoranda.service.exchange import Item, Part
    from memoranda.service.imports import UndoneImport
    from memoranda.service.report import Report
    from memoranda.service.ump.origins import Origins
    from memoranda.service.ump.overview import Stats
    from memoranda.service.ump.redact import BesidePage, Suspect, SuspectBeside, SuspectPage
    from memoranda.service.ump.remember import Remembered
    from memoranda.service.ump.revise import Forgotten, Revised
    from memoranda.service.ump.undo import UndoneChange
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.ump.audit import ChainReport
    from memoranda.standards.ump.rehydrate import RehydratedBlock
    from memoranda.standards.ump.requests import (
        FeedbackRequest,
        ForgetRequest,
        RecallRequest,
        RehydrateRequest,
        ReviseRequest,
    )

Progress = Callable[[int], None]
# What a request calls otherwise than the verb.
_ASKED: Final = {"kinds": "kind"}


class RemoteUmp:
    """UMP's verbs over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    # --- one memory --------------------------------------------------------------------------------------------------

    def with_defaults(self, draft: object, *, method: str, actor_kind: str | None = None) -> object:
        """The draft, with how it came here; what else its credential says, the server fills in when it remembers it."""
        if not isinstance(draft, dict) or "integrity" in draft:
            return draft
        said = draft.get("provenance", {})
        if not isinstance(said, dict) or "actor" in said:
            return draft
        kind = {} if actor_kind is None else {"actor_kind": actor_kind}
        return {**draft, "provenance": {**kind, "method": method, **said}}

    def remember(self, draft: object) -> Remembered:
        """Write one memory."""
        from memoranda.service.ump.remember import Remembered

        return Remembered(**self._server.post("/ump/remember", draft))

    def get(self, name: str) -> Record:
        """One record by its id, or by the beginning of it."""
        return cast("Record", self._server.get(_memory(name))["record"])

    def history(self, name: str) -> list[dict[str, object]]:
        """All versions of a memory, oldest first."""
        found, after = self.history_page(name)
        while after is not None:
            page, after = self.history_page(name, after=after)
            found += page
        return found

    def history_page(self, name: str, *, after: int = 0) -> tuple[list[dict[str, object]], int | None]:
        """As many of them as fit into an answer; `after` is how many were passed over before."""
        said = self._server.get(f"{_memory(name)}/history", cursor=after or None)
        return said["versions"], _place(said.get("next_cursor"))

    def seen_as(self, name: str) -> dict[str, Any]:
        """The memory in UMP, OMS, OAMS and openwop."""
        return dict(self._server.get(f"{_memory(name)}/standards")["standards"])

    def origins(self, name: str) -> Origins:
        """What a memory was made from, and what was made from it."""
        from memoranda.service.ump.origins import Origins

        return Origins(**self._server.get(f"{_memory(name)}/origins"))

    def revise(self, request: ReviseRequest) -> Revised:
        """Write a successor."""
        from memoranda.service.ump.revise import Revised

        said = self._server.post("/ump/revise", to_json(request))
        return Revised(id=said["id"], supersedes=tuple(said["supersedes"]))

    def change(
        self,
        name: str,
        text: str | None = None,
        structured: Mapping[str, Any] | None = None,
        patch: Mapping[str, Any] | None = None,
    ) -> Revised:
        """Write the next version: another text, or something else about it. What is not said stays."""
        from memoranda.standards.ump.requests import ReviseRequest

        changes = dict(patch or {})
        if text is not None or structured is not None:
            # UMP §3.5 replaces a body as a whole, so that a new wording alone would lose the data.
            body: dict[str, Any] = dict(drop_original(self.get(name))["body"])
            said = {"text": text, "structured": None if structured is None else dict(structured)}
            changes["body"] = {**body, **{part: value for part, value in said.items() if value is not None}}
        return self.revise(ReviseRequest.parse({"id": name, "patch": changes}))

    def undo_last(self) -> UndoneChange:
        """Take back the last change."""
        from memoranda.service.ump.undo import UndoneChange

        return UndoneChange(**self._server.ask("POST", "/ump/undo").document)

    def forget(self, request: ForgetRequest) -> Forgotten:
        """Tombstone a memory, or erase it for good."""
        return cast("Forgotten", self._server.post("/ump/forget", to_json(request))["result"])

    def feedback(self, request: FeedbackRequest) -> None:
        """Say what became of a recalled memory."""
        self._server.post("/ump/feedback", to_json(request))

    # --- many --------------------------------------------------------------------------------------------------------

    def recall(self, request: RecallRequest) -> list[Ranked]:
        """The best memories for a query, each with its signals."""
        return self._recalled("/ump/recall", request)

    def recall_bare(self, request: RecallRequest) -> list[Ranked]:
        """The same without the documents of other standards that records carry."""
        return self._recalled("/ump/recall/bare", request)

    def _recalled(self, path: str, request: RecallRequest) -> list[Ranked]:
        from memoranda.model.selection import Reason
        from memoranda.service.core.ranking import Ranked

        found = []
        for each in self._server.post(path, to_json(request))["results"]:
            explained = each.pop("explanation", None)
            reasons = None if explained is None else {name: Reason(**why) for name, why in explained.items()}
            found.append(Ranked(**each, reasons=reasons))
        return found

    def for_prompt(self, request: RehydrateRequest) -> RehydratedBlock:
        """Recalled memories as one framed, neutralised block for a model's context."""
        from memoranda.standards.ump.rehydrate import RehydratedBlock

        said = self._server.post("/ump/rehydrate", to_json(request))
        dropped = tuple((each["id"], each["reason"]) for each in said.get("dropped", ()))
        return RehydratedBlock(text=said["text"], injected=tuple(said["injected"]), dropped=dropped)

    def framed(self, records: Sequence[Record], *, max_chars: int = 500) -> RehydratedBlock:
        """Records that were listed, in their order, as such a block with short ids."""
        from memoranda.standards.ump.rehydrate import frame_records

        return frame_records(records, self.short_ids([record["id"] for record in records]), max_chars=max_chars)

    def elsewhere(self, request: RecallRequest) -> Mapping[str, int]:
        """In which other projects a question that found nothing in one has answers."""
        return dict(self._server.post("/ump/recall/elsewhere", to_json(request))["projects"])

    def list_records(self, *, after: int = 0, limit: int = 50, **where: Any) -> tuple[list[Record], int | None]:
        """What is current, last updated first, a page at a time; `after` is how many were passed over before."""
        asked = {_ASKED.get(name, name): _said(name, value) for name, value in where.items() if value not in (None, ())}
        found: list[Record] = []
        following: int | None = after
        # A server's pages are shorter than what may be asked for here.
        while following is not None and len(found) < limit:
            size = min(limit - len(found), MAX_RECALL)
            said = self._server.get("/ump/memories", **asked, limit=size, cursor=following or None)
            found += said["records"]
            following = _place(said["next_cursor"])
        return found, following

    def short_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The beginnings by which memories can be named."""
        return dict(self._server.post("/ump/short_ids", {"ids": list(names)})["short"])

    def stats(self) -> Stats:
        """How much is remembered now, of what kind and where."""
        from memoranda.service.ump.overview import Stats

        said = self._server.get("/ump/stats")
        return Stats(**{name: value for name, value in said.items() if name != "owner"})

    def projects(self) -> list[str]:
        """The projects in which there is or was anything."""
        return list(self._server.get("/ump/projects")["projects"])

    # --- what should be looked at ------------------------------------------------------------------------------------

    def suspects(self, *, progress: Progress | None = None) -> Iterator[Suspect]:
        """Every version of one's own that looks as if it held a secret."""
        return _all(partial(self.suspects_page), progress)

    def suspects_page(self, *, after: int = 0) -> SuspectPage:
        """Some of them, after a version."""
        return self._suspected("/ump/suspects", after)

    def orders(self, *, progress: Progress | None = None) -> Iterator[Suspect]:
        """Every memory of one's own that reads as if it gave orders to a model, unless somebody said that it may."""
        return _all(partial(self.orders_page), progress)

    def orders_page(self, *, after: int = 0) -> SuspectPage:
        """Some of them, after a version."""
        return self._suspected("/ump/orders", after)

    def _suspected(self, path: str, after: int) -> SuspectPage:
        from memoranda.service.ump.redact import Suspect, SuspectPage

        said = self._server.get(path, cursor=after or None)
        found = [Suspect(**{**each, "kinds": tuple(each["kinds"])}) for each in said["suspects"]]
        return SuspectPage(suspects=found, next=_place(said["next_cursor"]))

    def suspects_beside(self) -> Iterator[SuspectBeside]:
        """What looks like a secret beside memories: in files and in logs."""
        page = self.suspects_beside_page()
        yield from page.suspects
        while page.next is not None:
            page = self.suspects_beside_page(after=page.next)
            yield from page.suspects

    def suspects_beside_page(self, *, after: int = 0) -> BesidePage:
        """Some of it: all files first, then the logs."""
        from memoranda.service.ump.redact import BesidePage, SuspectBeside

        said = self._server.get("/ump/suspects/beside", cursor=after or None)
        found = [SuspectBeside(where=each["where"], kinds=tuple(each["kinds"])) for each in said["suspects"]]
        return BesidePage(suspects=found, next=_place(said["next_cursor"]))

    def allow_orders(self, name: str) -> None:
        """Say that a memory may read as it does."""
        self._server.post("/ump/orders/allow", to_json(GetRequest.parse({"id": name})))

    def redact(self, name: str) -> str:
        """Take out of a memory what looks like a secret, for good; the id that it has now."""
        return str(self._server.post("/ump/redact", {"id": name})["id"])

    # --- all of it ---------------------------------------------------------------------------------------------------

    def rules(self) -> OwnRules:
        """What the owner asked for."""
        from memoranda.service.core.rules import OwnRules

        said = self._server.get("/ump/rules")
        return OwnRules(**{**said, "presets": tuple(said["presets"])})

    def set_rules(self, rules: OwnRules) -> None:
        """Ask for something else from now on."""
        self._server.ask("PUT", "/ump/rules", to_json(rules))

    def feed_position(self) -> int:
        """How far the feed has come."""
        return int(self._server.get("/ump/changes/position")["place"])

    def feed_end(self, scope: Mapping[str, str]) -> int:
        """Where the feed ends now."""
        return int(self._server.get("/ump/changes/end", **scope)["place"])

    def changes(self, scope: Mapping[str, str], after: int) -> FeedPage:
        """The next changes in a scope."""
        from memoranda.service.core.feed import ChangeEvent, FeedPage

        said = self._server.get("/ump/changes", **scope, after=after)
        return FeedPage(**{**said, "events": tuple(ChangeEvent(**each) for each in said["events"])})

    def audit(self, request: object) -> list[dict[str, Any]]:
        """The last events that match, oldest first."""
        return list(self._server.post("/ump/audit", request)["events"])

    def audit_verify(self, owner: str | None = None) -> ChainReport:
        """Walk the whole audit chain."""
        from memoranda.standards.ump.audit import ChainReport

        said = self._server.get("/ump/audit/verify", owner=owner)
        return ChainReport(**{"broken_at" if name == "brokenAt" else name: value for name, value in said.items()})

    def audit_prune(self, before: Instant, owner: str | None = None) -> int:
        """Take the events from before an instant out of the audit log; how many."""
        asked = {"before": format_instant(before), **({} if owner is None else {"owner": owner})}
        return int(self._server.post("/ump/audit/prune", asked)["pruned"])

    def verify(self, *, owner: str | None = None, progress: Progress | None = None) -> VerifyReport:
        """Check every signature, the audit chain and the database."""
        from memoranda.service.verify import VerifyReport

        report = VerifyReport.of(self._server.get("/ump/verify", owner=owner))
        _tell(progress, report.records)
        return report

    def capabilities(self) -> dict[str, Any]:
        """What the server speaks."""
        return dict(self._server.get("/ump/capabilities"))

    def manifest(self, endpoint: str | None = None) -> dict[str, Any]:
        """`/.well-known/ump.json`."""
        said = dict(self._server.get("/.well-known/ump.json"))
        said.pop("endpoint", None)
        return said if endpoint is None else {**said, "endpoint": endpoint}

    # --- in and out --------------------------------------------------------------------------------------------------

    def export(
        self, *, names: Sequence[str] | None = None, report: Report | None = None, **which: Any
    ) -> Iterator[Record]:
        """Every record that may leave, in the order written; or those of the given ids."""
        if names is not None:
            for first in range(0, len(names), MAX_EXPORT_IDS):
                said = self._export(**which, ids=list(names[first : first + MAX_EXPORT_IDS]))
                yield from self._told(said, report)
            return
        following: int | None = 0
        while following is not None:
            said = self._export(**which, cursor=following or None)
            yield from self._told(said, report)
            following = _place(said["next_cursor"])

    def _told(self, said: Mapping[str, Any], report: Report | None) -> Iterator[Record]:
        from memoranda.service.report import Report

        if report is not None:
            report.add(Report.of(said["report"]))
        yield from said["records"]

    def _export(self, **which: Any) -> Any:
        flags = {name: "true" if value else "false" for name, value in which.items() if isinstance(value, bool)}
        return self._server.get("/ump/export", **{**which, **flags})

    def export_page(self, *, after: int = 0, **which: Any) -> tuple[list[Record], int | None, Report]:
        """A page of what may leave, after which version the next begins, and what of it stays behind."""
        from memoranda.service.report import Report

        said = self._export(**which, cursor=after or None)
        return said["records"], _place(said["next_cursor"]), Report.of(said["report"])

    def import_items(self, items: Iterable[Item], **how: Any) -> Report:
        """Take memories in, in any form, reporting what was refused; with a `label`, what can be taken back."""
        from memoranda.library.remote_import import RemoteImport

        return RemoteImport(self._server, **how).run(items)

    def import_part(self, items: Iterable[Item], **how: Any) -> Part:
        """Take in a part of what is brought from elsewhere."""
        from memoranda.library.remote_import import part

        return part(self._server, items, **how)

    def imports(self) -> list[dict[str, Any]]:
        """The imports that can be taken back, the last first."""
        return list(self._server.get("/ump/imports")["imports"])

    def undo_import(self, name: str | None = None, *, progress: Progress | None = None) -> UndoneImport:
        """Take back an import, the last unless it is named."""
        from memoranda.service.imports import UndoneImport

        said = self._server.post("/ump/imports/undo", {} if name is None else {"id": name})
        undone = UndoneImport(id=said.pop("import"), **said)
        _tell(progress, undone.forgotten + undone.restored + undone.left)
        return undone


def _all(page_after: Callable[..., SuspectPage], progress: Progress | None) -> Iterator[Suspect]:
    """What all pages hold; progress counts what was found, for over a server nobody knows how much was looked at."""
    count, following = 0, cast("int | None", 0)
    while following is not None:
        page = page_after(after=following)
        count += len(page.suspects)
        _tell(progress, count)
        yield from page.suspects
        following = page.next


def _tell(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)


def _memory(name: str) -> str:
    return f"/ump/memory/{quote(name, safe='')}"


def _place(cursor: str | None) -> int | None:
    return None if cursor is None else int(cursor)


def _said(name: str, value: Any) -> Any:
    return format_instant(value) if name in ("since", "valid_at", "known_at") else value

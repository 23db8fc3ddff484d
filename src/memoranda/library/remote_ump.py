"""UMP over a server.

The body of the class has the verbs that take several requests, and those whose answer a row of the table of operations
does not describe. What an import needs is imported with the first one: it loads the other standards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.bindings.operations.ump import OPERATIONS
from memoranda.errors import StoreUnavailable
from memoranda.library.remote_verbs import RemoteVerbs, read_result
from memoranda.model.selection import Reason
from memoranda.service.core.feed import ChangeEvent, FeedPage
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.exchange.import_records import UndoneImport
from memoranda.service.exchange.report import Report
from memoranda.service.ump.browse import Stats
from memoranda.service.ump.review import BesidePage, Suspect, SuspectBeside, SuspectPage
from memoranda.service.ump.revise import Revised
from memoranda.service.verify import VerifyReport
from memoranda.standards.ump.capability import MAX_RECALL, exports_of
from memoranda.standards.ump.excerpt import read_passage
from memoranda.standards.ump.rehydrate import RehydratedBlock, frame_records
from memoranda.standards.ump.requests import (
    MAX_EXPORT_IDS,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
)
from memoranda.standards.ump.rules import drop_original
from memoranda.standards.ump.shapes import Record
from memoranda.standards.ump.signature import ChainReport

if TYPE_CHECKING:
    from memoranda.service.exchange.importing import ImportPart, Item
    from memoranda.standards.oams.namespace import Namespace

Progress = Callable[[int], None]
T = TypeVar("T")


class RemoteUmp(RemoteVerbs, rows=OPERATIONS):
    """UMP's verbs over a server."""

    # --- one memory --------------------------------------------------------------------------------------------------

    def with_defaults(self, draft: object, *, method: str, actor_kind: str | None = None) -> object:
        """Return a draft with its method; the server adds the fields that follow from the credential."""
        if not isinstance(draft, dict) or "integrity" in draft:
            return draft
        provenance = draft.get("provenance", {})
        if not isinstance(provenance, dict) or "actor" in provenance:
            return draft
        kind = {} if actor_kind is None else {"actor_kind": actor_kind}
        return {**draft, "provenance": {**kind, "method": method, **provenance}}

    def history(self, name: str) -> list[dict[str, object]]:
        """Return all versions of a memory, oldest first."""
        return list(_iterate_pages(lambda after: self.history_page(name, after=after)))

    def history_page(
        self, name: str, *, after: int = 0
    ) -> tuple[list[dict[str, object]], int | None]:
        """Return a page of the versions of a memory, after a number of them, and the position of the next page."""
        answer = self._document("history_page", name=name, after=after or None)
        return answer["versions"], cursor_position(answer.get("next_cursor"))

    def change(
        self,
        name: str,
        text: str | None = None,
        structured: Mapping[str, object] | None = None,
        patch: Mapping[str, object] | None = None,
    ) -> Revised:
        """Write the next version of a memory with another text or other fields; the rest stays."""
        changes = dict(patch or {})
        if text is not None or structured is not None:
            # UMP §3.5 replaces a body as one value, so a new text alone would lose the data.
            body: dict[str, object] = dict(drop_original(self.get(name))["body"])
            parts = {"text": text, "structured": None if structured is None else dict(structured)}
            changes["body"] = {
                **body,
                **{part: value for part, value in parts.items() if value is not None},
            }
        revised: Revised = self.revise(ReviseRequest.parse({"id": name, "patch": changes}))
        return revised

    # --- many --------------------------------------------------------------------------------------------------------

    def recall(self, request: RecallRequest) -> list[RankedRecord]:
        """Return the best memories for a query, each with its signals."""
        return _ranked(self._document("recall", request=request))

    def recall_bare(self, request: RecallRequest) -> list[RankedRecord]:
        """Return the best memories without the documents of other standards that records carry."""
        return _ranked(self._document("recall_bare", request=request))

    def for_prompt(self, request: RehydrateRequest) -> RehydratedBlock:
        """Return recalled memories as one framed, neutralised block for a model's context."""
        answer = self._document("for_prompt", request=request)
        dropped = tuple((memory["id"], memory["reason"]) for memory in answer.get("dropped", ()))
        return RehydratedBlock(
            text=answer["text"],
            injected=tuple(answer["injected"]),
            dropped=dropped,
            weak=answer.get("weak", False),
        )

    def framed(self, records: Sequence[Record], *, max_chars: int = 500) -> RehydratedBlock:
        """Return records as a framed block with short ids."""
        return frame_records(
            records, self.short_ids([record["id"] for record in records]), max_chars=max_chars
        )

    def list_records(
        self, *, after: int = 0, limit: int = 50, **where: object
    ) -> tuple[list[Record], int | None]:
        """Return current memories, last updated first, from as many pages of the server as `limit` needs."""
        records: list[Record] = []
        next_position: int | None = after
        while next_position is not None and len(records) < limit:
            size = min(limit - len(records), MAX_RECALL)
            answer = self._document(
                "list_records", **where, limit=size, after=next_position or None
            )
            records += answer["records"]
            next_position = cursor_position(answer["next_cursor"])
        return records, next_position

    def stats(self) -> Stats:
        """Return the number of current memories, by kind and project."""
        answer = self._document("stats")
        return Stats(**{name: value for name, value in answer.items() if name != "owner"})

    # --- likely secrets and orders -----------------------------------------------------------------------------------

    def suspects(self, *, progress: Progress | None = None) -> Iterator[Suspect]:
        """Yield every own version that looks as if it held a secret."""
        return _iterate_suspects(self.suspects_page, progress)

    def suspects_page(self, *, after: int = 0) -> SuspectPage:
        """Return a page of the versions that look as if they held a secret, after a version."""
        return self._suspect_page("suspects_page", after)

    def orders(self, *, progress: Progress | None = None) -> Iterator[Suspect]:
        """Yield every own memory that looks like prompt injection, unless it is allowed."""
        return _iterate_suspects(self.orders_page, progress)

    def orders_page(self, *, after: int = 0) -> SuspectPage:
        """Return a page of the memories that look like prompt injection, after a version."""
        return self._suspect_page("orders_page", after)

    def _suspect_page(self, verb: str, after: int) -> SuspectPage:
        answer = self._document(verb, after=after or None)
        return SuspectPage(
            suspects=read_result(answer["suspects"], list[Suspect]),
            next=cursor_position(answer["next_cursor"]),
        )

    def suspects_beside(self) -> Iterator[SuspectBeside]:
        """Yield files and logs that look as if they held a secret."""
        return _iterate_pages(lambda after: _parts(self.suspects_beside_page(after=after)))

    def suspects_beside_page(self, *, after: int = 0) -> BesidePage:
        """Return a page of the files, and after the last file of the logs, that look as if they held a secret."""
        answer = self._document("suspects_beside_page", after=after or None)
        return BesidePage(
            suspects=read_result(answer["suspects"], list[SuspectBeside]),
            next=cursor_position(answer["next_cursor"]),
        )

    # --- feed, audit, checks -----------------------------------------------------------------------------------------

    def feed_end(self, scope: Mapping[str, str]) -> int:
        """Return the position at which the feed of a scope ends."""
        return int(self._document("feed_end", **scope)["place"])

    def changes(self, scope: Mapping[str, str], after: int) -> FeedPage:
        """Return the next changes in a scope."""
        answer = self._document("changes", **scope, after=after)
        return FeedPage(
            **{**answer, "events": tuple(ChangeEvent(**event) for event in answer["events"])}
        )

    def audit_verify(self, owner: str | None = None) -> ChainReport:
        """Check the whole audit chain."""
        answer = self._document("audit_verify", owner=owner)
        return ChainReport(
            **{"broken_at" if name == "brokenAt" else name: value for name, value in answer.items()}
        )

    def verify(self, *, owner: str | None = None, progress: Progress | None = None) -> VerifyReport:
        """Check every signature, the audit chain and the database."""
        report = VerifyReport.of(self._document("verify", owner=owner))
        _report_progress(progress, report.records)
        return report

    def manifest(self, endpoint: str | None = None) -> dict[str, object]:
        """Return `/.well-known/ump.json`, with another endpoint or none."""
        answer = dict(self._document("manifest"))
        # The server names the address of the request.
        for name in ("endpoint", "exports"):
            answer.pop(name, None)
        if endpoint is None:
            return answer
        return {**answer, "endpoint": endpoint, "exports": exports_of(endpoint)}

    # --- in and out --------------------------------------------------------------------------------------------------

    def export(
        self, *, names: Sequence[str] | None = None, report: Report | None = None, **which: object
    ) -> Iterator[Record]:
        """Yield every record that may leave, in the order written; or only those with some ids."""
        if names is None:
            return read_pages(lambda after: self.export_page(after=after, **which), report)
        parts = [
            list(names[first : first + MAX_EXPORT_IDS])
            for first in range(0, len(names), MAX_EXPORT_IDS)
        ]
        return (record for part in parts for record in self._export_named(part, report, **which))

    def _export_named(
        self, names: list[str], report: Report | None, **which: object
    ) -> Iterator[Record]:
        return read_pages(lambda _: self._export(names=names, **which), report)

    def export_page(
        self, *, after: str | None = None, **which: object
    ) -> tuple[list[Record], str | None, Report]:
        """Return a page of an export, the position of the next one, and the report of the page."""
        return self._export(after=after, **which)

    def _export(self, **which: object) -> tuple[list[Record], str | None, Report]:
        answer = self._document("export_page", **which)
        return (
            answer["records"],
            answer["next_cursor"],
            Report.of(answer["report"]),
        )

    def import_items(
        self,
        items: Iterable[Item],
        *,
        progress: Progress | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> Report:
        """Import memories in any form, and report those refused; an import with a `label` can be undone."""
        from memoranda.library.remote_import import ImportOptions, RemoteImport

        remote_import = RemoteImport(
            self.import_part,
            self._own_tenant,
            ImportOptions(**options),
            progress=progress,
            report=report,
        )
        return remote_import.run(items)

    def _own_tenant(self) -> str:
        return str(self._document("stats")["owner"])

    def import_part(
        self, items: Iterable[Item], *, into: Namespace | None = None, **how: object
    ) -> ImportPart:
        """Import one part of a longer import."""
        from memoranda.library.remote_import import send_part

        return send_part(self, items, into, **how)

    def undo_import(
        self, name: str | None = None, *, progress: Progress | None = None
    ) -> UndoneImport:
        """Undo an import; by default the last."""
        answer = self._document("undo_import", name=name)
        undone = UndoneImport(id=answer.pop("import"), **answer)
        _report_progress(progress, undone.forgotten + undone.restored + undone.left)
        return undone


def _ranked(answer: Mapping[str, Any]) -> list[RankedRecord]:
    """Return the results of a recall, each with the parts of its score if the request asked for them."""
    results = []
    for result in answer["results"]:
        explanation = result.pop("explanation", None)
        # `weak` follows from the relevance.
        result.pop("weak", None)
        reasons = (
            None
            if explanation is None
            else {name: Reason(**part) for name, part in explanation.items()}
        )
        passage = read_passage(result.pop("passage", None))
        results.append(RankedRecord(**result, reasons=reasons, passage=passage))
    return results


def _iterate_pages(page_after: Callable[[int], tuple[Sequence[T], int | None]]) -> Iterator[T]:
    """Yield the items of all pages."""
    position = 0
    while True:
        items, next_position = page_after(position)
        yield from items
        if next_position is None:
            return
        _require_progress(position, next_position)
        position = next_position


def read_pages(
    page_after: Callable[[str | None], tuple[Sequence[T], str | None, Report]],
    report: Report | None,
) -> Iterator[T]:
    """Yield the items of all pages of an export, and add up their reports."""
    after: str | None = None
    while True:
        items, next_cursor, part = page_after(after)
        if report is not None:
            report.add(part)
        yield from items
        if next_cursor is None:
            return
        _require_progress(after, next_cursor)
        after = next_cursor


def _require_progress(cursor: object, next_cursor: object) -> None:
    """Raise StoreUnavailable if a server names the page again that it just sent."""
    if cursor == next_cursor:
        raise StoreUnavailable("the server repeats a page")


def _iterate_suspects(
    page_after: Callable[..., SuspectPage], progress: Progress | None
) -> Iterator[Suspect]:
    """Yield the items of all pages; progress counts the results, because a server does not tell how many it read."""
    count = 0

    def items_after(after: int) -> tuple[list[Suspect], int | None]:
        nonlocal count
        items, next_position = _parts(page_after(after=after))
        count += len(items)
        _report_progress(progress, count)
        return items, next_position

    return _iterate_pages(items_after)


def _parts(page: Any) -> tuple[list[Any], int | None]:
    return page.suspects, page.next


def _report_progress(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)


def cursor_position(cursor: str | None) -> int | None:
    """Return the position in a cursor of a server; None at the end."""
    return None if cursor is None else int(cursor)

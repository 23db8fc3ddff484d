"""A list of memories: the filters of the address, the latest memories or the results of a search, and their facets.

The pages, JSON and CSV show the same list. All filters are in the URL, so that every list can be bookmarked.

A page asks in this order: `parse_filters` reads the URL, `load_listing` finds the memories, `load_facets` counts the
values that further filters could choose. A list of the latest memories is paged with positions of the store; a search
returns its best results at once and has no next page.

Because every filter is in the URL, a list can be saved as a bookmark, sent, and opened again with the Back button. Keep
it so: a new filter needs a field in MemoryFilters, a line in `parse_filters`, one in `selection`, and one in `chips` if
the page can show it as set. Cells of CSV that a spreadsheet would take for a formula get a leading apostrophe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Set
from typing import Any, Final, cast, get_args

import msgspec
from markupsafe import Markup

from memoranda.bindings.console.looks import explain_result, mark_words, matched_words
from memoranda.bindings.console.visit import ROOT, Answer, File, Visit
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Standard
from memoranda.model.selection import Selection
from memoranda.retrieval.analysis import query_terms
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.ump.facets import Facets, count_facets, count_in_records, tags_of
from memoranda.standards.ump.excerpt import cut_excerpt, missing_title
from memoranda.standards.ump.requests import Hints, RecallFilter, RecallRequest, ScopeFilter
from memoranda.standards.ump.shapes import Kind, Record

# Memories per page, and results of a search: rating more takes longer than a person waits while typing.
PAGE_LIMIT: Final = 20
_RESULTS: Final = 30
KINDS: Final = get_args(Kind)
STANDARDS: Final = get_args(Standard)
# Characters of a text on a card; the page of the memory shows all of it.
CARD_CHARS: Final = 280
_DAY_MS: Final = 86_400_000
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
_SCOPE: Final = ("project", "user", "agent", "session")
_COLUMNS: Final = (
    *("id", "kind", "text", "project", "user", "agent", "tags"),
    *("created", "valid_from", "valid_to"),
)
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class MemoryFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a list or a search, from the URL."""

    scope: dict[str, str]
    kinds: tuple[Kind, ...] | None
    tag: str
    standard: Standard | None
    # The memories that were true, and known, at a moment.
    valid_at: Instant | None
    known_at: Instant | None

    @property
    def chips(self) -> dict[str, str]:
        """The filters by the name of their field in the URL."""
        chips = {**self.scope}
        if self.kinds and len(self.kinds) == 1:
            chips["kind"] = self.kinds[0]
        if self.tag:
            chips["tag"] = self.tag
        if self.standard:
            chips["standard"] = self.standard
        return chips

    @property
    def is_any(self) -> bool:
        """True if any filter is set."""
        return bool(self.chips or self.kinds or self.valid_at or self.known_at)

    @property
    def selection(self) -> Selection:
        """The filters as a selection of the store."""
        return Selection(
            at=self.valid_at,
            known_at=self.known_at,
            space=self.scope.get("project"),
            user=self.scope.get("user"),
            agent=self.scope.get("agent"),
            session=self.scope.get("session"),
            kinds=self.kinds,
            tags=(self.tag.lower(),) if self.tag else (),
            standard=self.standard,
        )


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A memory in a list; of a search result also the matched words, the sentence that explains it, and its figures."""

    record: Record
    marked: Markup | None = None
    why: Markup | None = None
    signals: Mapping[str, float] = {}
    score: float = 0.0

    @property
    def title(self) -> str:
        """The title of the memory, if its text does not begin with it."""
        return missing_title(self.record)

    @property
    def is_cut(self) -> bool:
        """True if the card shows only the beginning of the text."""
        return len(self.record["body"]["text"]) > CARD_CHARS


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list, and the numbers of memories before its page and before the next one."""

    filters: MemoryFilters
    question: str
    items: list[Item]
    after: int
    following: int | None
    # All results of a search; None for a list, whose facets the store counts.
    results: list[Record] | None = None


def parse_filters(visit: Visit) -> MemoryFilters:
    """Return the filters in the URL. Raises InvalidInput."""
    scope = {name: value for name in _SCOPE if (value := visit.query_value(name))}
    kinds = tuple(kind for kind in visit.query.get("kind", ()) if kind in KINDS)
    name = visit.query_value("standard")
    return MemoryFilters(
        scope=scope,
        kinds=cast("tuple[Kind, ...]", kinds) or None,
        tag=visit.query_value("tag"),
        standard=cast("Standard", name) if name in STANDARDS else None,
        valid_at=parse_moment(visit, "valid_at"),
        known_at=parse_moment(visit, "known_at"),
    )


def parse_moment(visit: Visit, name: str) -> Instant | None:
    """Return a moment from the URL; a day stands for its end. Raises InvalidInput."""
    text = visit.query_value(name)
    if not text:
        return None
    is_day = len(text) == _DAY_CHARS
    try:
        instant = parse_instant(f"{text}T00:00:00Z" if is_day else text)
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_day", text=ascii(text[:40]))) from None
    return Instant(instant + _DAY_MS - 1) if is_day else instant


def load_listing(visit: Visit) -> Listing:
    """Return the page of the list or of the search results that the URL asks for. Raises InvalidInput."""
    filters, question = parse_filters(visit), visit.query_value("q")
    after = visit.parse_number(visit.query_value("after"))
    if question:
        ranked, terms = recall(visit, question, filters), query_terms(question)
        ranked_page = ranked[after : after + PAGE_LIMIT]
        page = [_explain(result, terms, filters, visit) for result in ranked_page]
        following = after + PAGE_LIMIT if len(ranked) > after + PAGE_LIMIT else None
        results: list[Record] | None = [result.record for result in ranked]
    else:
        records, following = _load_page(visit, filters, after)
        page, results = [Item(record=record) for record in records], None
    return Listing(
        filters=filters,
        question=question,
        items=page,
        after=after,
        following=following,
        results=results,
    )


def load_facets(visit: Visit, memory_list: Listing) -> Facets:
    """Return the facets of a list."""
    if memory_list.results is not None:
        return count_in_records(memory_list.results)
    return count_facets(visit.service.context, visit.access, memory_list.filters.selection)


def recall(visit: Visit, question: str, filters: MemoryFilters) -> list[RankedRecord]:
    """Return the best results of a search with the reasons for each."""
    recall_filter = RecallFilter(
        kind=list(filters.kinds) if filters.kinds else None,
        valid_at=filters.valid_at,
        known_at=filters.known_at,
        tags=filters.tag or None,
        standard=filters.standard,
        scope="strict",
    )
    request = RecallRequest(
        query=question,
        scope_filter=ScopeFilter.parse(filters.scope) if filters.scope else None,
        filters=recall_filter,
        requested_limit=_RESULTS,
        ranking_hints=Hints(explain=True),
    )
    return visit.service.recall(visit.access, request)


def _explain(result: RankedRecord, terms: Set[str], filters: MemoryFilters, visit: Visit) -> Item:
    """Return a search result with its marked words and its explanation."""
    text = str(result.record["body"]["text"])
    words = matched_words(text, terms)
    excerpt, _ = cut_excerpt(text, CARD_CHARS, result.passage)
    parts = {name: reason.part for name, reason in (result.reasons or {}).items() if reason.part}
    return Item(
        record=result.record,
        marked=mark_words(excerpt, words),
        why=explain_result(result, words, filters.scope, visit.text),
        signals={**{name: float(value) for name, value in result.signals.items()}, **parts},
        score=result.score,
    )


def _load_page(visit: Visit, filters: MemoryFilters, after: int) -> tuple[list[Record], int | None]:
    """Return a page of the latest memories, and the position of the next page."""
    return visit.service.list_records(
        visit.access,
        project=filters.scope.get("project"),
        user=filters.scope.get("user"),
        agent=filters.scope.get("agent"),
        session=filters.scope.get("session"),
        kinds=filters.kinds,
        tags=(filters.tag,) if filters.tag else (),
        standard=filters.standard,
        valid_at=filters.valid_at,
        known_at=filters.known_at,
        after=after,
        limit=PAGE_LIMIT,
    )


# --- the list as data ----------------------------------------------------------------------------------------


def send_json(visit: Visit) -> Answer:
    """Return the page of the list as JSON, with the address of the next page."""
    memory_list = load_listing(visit)
    following = None
    if memory_list.following is not None:
        following = visit.with_query(after=str(memory_list.following))
    document = {
        "memories": [
            {**({"score": item.score} if memory_list.question else {}), "record": item.record}
            for item in memory_list.items
        ],
        "next": following,
    }
    return File(body=dump(document), name="", media_type="application/json")


def send_csv(visit: Visit) -> Answer:
    """Return the page of the list as CSV."""
    memory_list = load_listing(visit)
    target = io.StringIO(newline="")
    writer = csv.writer(target)
    writer.writerow(_COLUMNS)
    for item in memory_list.items:
        writer.writerow([_plain_cell(value) for value in _cells(item.record)])
    return File(
        body=target.getvalue().encode("utf-8", "replace"),
        name="memories.csv",
        media_type="text/csv; charset=utf-8",
    )


def _cells(record: Record) -> list[str]:
    """Return the values of a record in the order of the columns."""
    fields: Any = record
    scope, times = fields["scope"], fields["time"]
    return [
        fields["id"],
        fields["kind"],
        fields["body"]["text"],
        *(scope.get(name) or "" for name in ("project", "user", "agent")),
        " ".join(tags_of(record)),
        *(times.get(name) or "" for name in ("created", "valid_from", "valid_to")),
    ]


def _plain_cell(value: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if value.startswith(_FORMULA) else value


def list_path(visit: Visit) -> str:
    """Return the path and query of the list that a page shows, without the root, to come back to."""
    return visit.with_query(edit=None).removeprefix(ROOT)

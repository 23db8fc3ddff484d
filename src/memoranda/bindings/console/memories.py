"""The pages of memories: the list, search results, one memory with its history, the timeline, and the graph.

Forms that write a memory redirect to a page with a notice, so that reloading does not repeat them.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, cast, get_args

import msgspec

from memoranda.bindings.console.texts import compare_texts
from memoranda.bindings.console.visit import ROOT, Answer, File, Redirect, TemplatePage, Visit
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import CUT_KEY, Standard
from memoranda.service.core.ranking import RankedRecord
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.ump import rules
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.requests import (
    AuditRequest,
    Hints,
    RecallFilter,
    RecallRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Kind, Record

# Memories per page.
PAGE_LIMIT: Final = 20
KINDS: Final = get_args(Kind)
STANDARDS: Final = get_args(Standard)
# The reason in the audit log, in English like all of its entries.
REASON: Final = "asked for in the console"
# The page to return to after forgetting a likely prompt injection.
ORDERS: Final = "/review?orders=yes"
# The word that a person types to confirm an erasure.
ERASE_WORD: Final = "erase"
_DAY_MS: Final = 86_400_000
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
# Entries of the audit log on the page of readers, projects in a list, and memories on the timeline.
_READERS: Final = 20
_PROJECTS: Final = 200
_TIMELINE: Final = 60
_SCOPE: Final = ("project", "user", "agent", "session")
# Statements around one subject, and subjects to start with; more would overlap.
_AROUND: Final = 24
# Latest statements whose subjects are offered to start with.
_LATEST_STATEMENTS: Final = 100
# Size of the drawing in pixels.
_WIDTH, _HEIGHT = 760, 480
# Characters of a label in the drawing.
_LABEL_CHARS: Final = 28


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
        """The filters by name that the page shows as chips."""
        return {**self.scope, **({"tag": self.tag} if self.tag else {})}

    @property
    def is_any(self) -> bool:
        """True if any filter is set."""
        return bool(self.chips or self.kinds or self.standard or self.valid_at or self.known_at)


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


def show_list(visit: Visit) -> Answer:
    """Show the latest memories, or the results of a search. All filters are in the URL."""
    service, access = visit.service, visit.access
    filters, question = parse_filters(visit), visit.query_value("q")
    following: int | None = None
    if question:
        results = _search_results(visit, question, filters)
    else:
        results, following = _list_page(visit, filters)
    ids = [result["record"]["id"] for result in results]
    return TemplatePage(
        template="memories.html",
        context={
            "found": results,
            "short": service.short_ids(access, ids),
            "question": question,
            "narrowed": filters.chips,
            "kinds": filters.kinds or (),
            "all_kinds": KINDS,
            "standard": filters.standard or "",
            "standards": STANDARDS,
            "projects": service.projects(access)[:_PROJECTS],
            "is_narrowed": filters.is_any,
            "valid_at": visit.query_value("valid_at"),
            "known_at": visit.query_value("known_at"),
            "following": None if following is None else visit.with_query(after=str(following)),
            "first": visit.with_query(after=None) if visit.query_value("after") else None,
        },
    )


def show_feed_position(visit: Visit) -> Answer:
    """Return the position of the feed. The script polls it, and reloads the list when it changes."""
    return File(
        body=dump({"seq": visit.service.feed_position(visit.access)}),
        name="",
        media_type="application/json",
    )


def _search_results(visit: Visit, question: str, filters: MemoryFilters) -> list[dict[str, Any]]:
    """Return the best results with their signals, and their scores relative to the best one."""
    ranked = _recall(visit, question, filters)
    best = max((result.score for result in ranked), default=0.0)
    return [
        {
            "record": result.record,
            "signals": result.signals,
            "score": result.score,
            "share": result.score / best if best else 0,
        }
        for result in ranked
    ]


def _recall(
    visit: Visit, question: str, filters: MemoryFilters, *, explained: bool = False
) -> list[RankedRecord]:
    """Return the best results of a search; `explained` adds the reasons for each."""
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
        requested_limit=PAGE_LIMIT,
        ranking_hints=Hints(explain=True) if explained else None,
    )
    return visit.service.recall(visit.access, request)


def _list_page(visit: Visit, filters: MemoryFilters) -> tuple[list[dict[str, object]], int | None]:
    """Return a page of the latest memories, and the position of the next page."""
    after = visit.parse_number(visit.query_value("after"))
    records, following = visit.service.list_records(
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
    return [{"record": record} for record in records], following


def show_timeline(visit: Visit) -> Answer:
    """Show the latest memories by the day on which they became true, the last day first."""
    until = parse_moment(visit, "until")
    records, _ = visit.service.list_records(
        visit.access, project=visit.query_value("project") or None, valid_at=until, limit=_TIMELINE
    )
    days: dict[str, list[Record]] = {}
    for record in sorted(records, key=_valid_from, reverse=True):
        days.setdefault(_valid_from(record)[:_DAY_CHARS], []).append(record)
    return TemplatePage(
        template="timeline.html",
        context={
            "days": days,
            "most": max(map(len, days.values()), default=1),
            "until": visit.query_value("until"),
        },
    )


def _valid_from(record: Record) -> str:
    return record["time"]["valid_from"] or ""


def tags_of(record: Record) -> list[str]:
    """Return the tags of a memory."""
    relations = record.get("relations", ())
    about = (relation["target"] for relation in relations if relation["type"] == "about")
    return [target.removeprefix(TAG_PREFIX) for target in about if target.startswith(TAG_PREFIX)]


def show_memory(visit: Visit) -> Answer:
    """Show one memory with its history, its sources, and why a search found it."""
    service, access = visit.service, visit.access
    record = service.get(access, visit.names["id"])
    history, following = service.history_page(access, record["id"])
    versions: list[dict[str, object]] = []
    before = ""
    for version in history:
        text = str(version["record"]["body"]["text"])  # type: ignore[index]
        versions.append({**version, "pieces": compare_texts(before, text) if versions else None})
        before = text
    question = visit.query_value("q")
    ranked: list[RankedRecord] = []
    if question:
        ranked = _recall(visit, question, parse_filters(visit), explained=True)
    result = next((entry for entry in ranked if entry.record["id"] == record["id"]), None)
    structured = record["body"].get("structured") or {}
    subject = structured.get("subject")
    return TemplatePage(
        template="memory.html",
        context={
            "record": record,
            "too_large": structured.get(CUT_KEY, {}).get("body.text"),
            "question": question,
            "found": result,
            "origins": service.origins(access, record["id"]),
            "subject": subject if isinstance(subject, str) else record["scope"].get("user", ""),
            "tags": tags_of(record),
            "versions": versions[::-1],
            "is_cut": following is not None,
            "may_erase": access.may_erase(access.default_tenant),
        },
    )


def show_views(visit: Visit) -> Answer:
    """Show the memory in the form of each standard."""
    name = visit.names["id"]
    views = visit.service.seen_as(visit.access, name)
    documents = [(standard, dump_pretty(document)) for standard, document in views.items()]
    is_held = views["OMS"]["held"] if "OMS" in views else None
    return TemplatePage(
        template="views.html",
        context={"record": views["UMP"], "documents": documents, "held": is_held},
    )


def set_hold(visit: Visit) -> Answer:
    """Put a memory on hold, so that nobody can change or erase it, or remove the hold."""
    service, access = visit.service, visit.access
    views = service.seen_as(access, visit.names["id"])
    if "OMS" not in views:
        raise InvalidInput(visit.text("wrong.no_grain"))
    is_held = bool(visit.form_value("held"))
    service.grains.set_hold(access, views["OMS"]["address"], held=is_held, reason=REASON)
    notice = visit.text("said.held" if is_held else "said.released")
    return Redirect(f"{ROOT}/memory/{visit.names['id']}/views", notice)


def show_readers(visit: Visit) -> Answer:
    """Show who read, wrote or changed the memory."""
    service, access = visit.service, visit.access
    record = service.get(access, visit.names["id"])
    events = service.audit(access, AuditRequest(target=record["id"], requested_limit=_READERS))
    return TemplatePage(template="readers.html", context={"record": record, "events": events[::-1]})


def revise_memory(visit: Visit) -> Answer:
    """Write a new version of the memory on the page, with another text."""
    service, access = visit.service, visit.access
    name = visit.names["id"]
    text = visit.require_value("text", "wrong.missing_text").replace("\r\n", "\n")
    current = service.get(access, name)
    if current["id"] != visit.form_value("seen") and visit.form_value("seen"):
        raise InvalidInput(visit.text("wrong.changed_since"))
    rules.require_complete(current, ("body",))
    revised = service.change(access, current["id"], text)
    return Redirect(f"{ROOT}/memory/{revised.id}", visit.text("said.changed"))


def forget_memories(visit: Visit) -> Answer:
    """Forget the memory in the URL, or those selected in the form. Erase them for good if the word was typed."""
    names = [visit.names["id"]] if "id" in visit.names else visit.form_values("id")
    if not names:
        raise InvalidInput(visit.text("wrong.none_selected"))
    is_hard = bool(visit.form_value("hard"))
    if is_hard and not visit.is_typed(ERASE_WORD):
        raise InvalidInput(visit.text("wrong.not_erased", word=ERASE_WORD))
    reason = visit.form_value("reason").strip() or REASON
    result = visit.service.forget_many(visit.access, names, reason=reason, hard=is_hard)
    notice = visit.text("said.erased" if is_hard else "said.forgot", n=len(result.forgotten))
    if result.errors:
        notice += " " + visit.text("said.refused_too", n=len(result.errors), why=result.errors[0])
    # The form may name only this page to continue with.
    following = visit.form_value("next") if visit.form_value("next") == ORDERS else "/"
    return Redirect(ROOT + following, notice)


def undo_last(visit: Visit) -> Answer:
    """Undo the last change."""
    undone = visit.service.undo_last(visit.access)
    return Redirect(ROOT + "/", visit.text("said.undone", what=undone.summary))


def remember_memory(visit: Visit) -> Answer:
    """Write a new memory."""
    service, access = visit.service, visit.access
    text = visit.require_value("text", "wrong.missing_memory").replace("\r\n", "\n")
    project = visit.form_value("project").strip()
    draft = {
        "kind": visit.form_value("kind") or "semantic",
        "body": {"text": text},
        "scope": {"project": project} if project else {},
    }
    complete = service.with_defaults(access, draft, method="console")
    remembered = service.remember(access, complete)
    return Redirect(f"{ROOT}/memory/{remembered.id}", visit.text("said.remembered"))


def export_record(visit: Visit) -> Answer:
    """Return the UMP record as a file."""
    record = visit.service.get(visit.access, visit.names["id"])
    return File(
        body=dump_pretty(record).encode(), name="memory.json", media_type="application/json"
    )


# --- the graph ----------------------------------------------------------------------------------------------


class GraphEdge(NamedTuple):
    """A statement in the drawing, from the subject in the middle to a point around it."""

    subject: str
    relation: str
    object: str
    other: str
    address: str
    x: float
    y: float


def show_graph(visit: Visit) -> Answer:
    """Show the statements about one person or thing, as a drawing and as a list."""
    subject = visit.query_value("subject")
    context = {
        "subject": subject,
        "width": _WIDTH,
        "height": _HEIGHT,
        "short": _shorten_label,
        "edges": _find_edges(visit, subject) if subject else [],
        "begin": [] if subject else _latest_subjects(visit),
    }
    return TemplatePage(template="graph.html", context=context)


def _latest_subjects(visit: Visit) -> list[str]:
    """Return the subjects of the latest statements."""
    page = visit.service.grains.find(visit.access, FindRequest.parse({"limit": _LATEST_STATEMENTS}))
    names = (result.stored.grain.fields.get("subject") for result in page.results)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))[:_AROUND]


def _find_edges(visit: Visit, subject: str) -> list[GraphEdge]:
    """Return the statements that have this subject or object, each once."""
    addresses: dict[tuple[str, str, str], str] = {}
    for query in ({"subject": subject}, {"object": subject}):
        page = visit.service.grains.find(
            visit.access, FindRequest.parse({**query, "limit": _AROUND})
        )
        for result in page.results:
            fields: Any = result.stored.grain.fields
            triple = tuple(str(fields.get(name, "")) for name in ("subject", "relation", "object"))
            if all(triple):
                addresses.setdefault(triple, result.stored.address)  # type: ignore[arg-type]
    return [
        _place_edge(subject, triple, address, number, len(addresses))
        for number, (triple, address) in enumerate(addresses.items())
    ]


def _place_edge(
    subject: str, triple: tuple[str, str, str], address: str, number: int, count: int
) -> GraphEdge:
    """Return a statement with its point on an ellipse around the middle. The first one is at the top."""
    angle = 2 * math.pi * number / max(count, 1) - math.pi / 2
    other = triple[2] if triple[0] == subject else triple[0]
    x = _WIDTH / 2 + math.cos(angle) * (_WIDTH / 2 - 110)
    y = _HEIGHT / 2 + math.sin(angle) * (_HEIGHT / 2 - 50)
    return GraphEdge(*triple, other, address, round(x, 1), round(y, 1))


def _shorten_label(text: str) -> str:
    return text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS - 1]}…"

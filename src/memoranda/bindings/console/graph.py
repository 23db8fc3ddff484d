"""The graph of statements about a person or thing, and the timeline of memories.

Both drawings work without their script: the timeline as a list by days, the graph of one subject as an SVG made here.
With the script, `send_timeline`, `send_graph` and `send_named` return JSON for it. All of them cut at fixed numbers of
memories and points, because a drawing with more cannot be read, and building it would slow down other requests.

Every text is escaped by the template or written as JSON; a text must never be put into SVG or script by hand.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from memoranda.bindings.console.entities import EntityGraph, count_kinds
from memoranda.bindings.console.lists import parse_moment
from memoranda.bindings.console.looks import source_of
from memoranda.bindings.console.texts import Texts
from memoranda.bindings.console.visit import Answer, File, TemplatePage, Visit
from memoranda.encoding.json_text import dump
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import DAY_MS, Instant, format_instant
from memoranda.service.ump.browse import count_by_month, list_over_time
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.ump.shapes import Record

# Memories in the list of the timeline.
_TIMELINE: Final = 60
# Days before now at which the timeline looks for what was true, and the instants at which it looks within a period.
_AGES: Final = (
    7,
    30,
    60,
    90,
    180,
    270,
    365,
    545,
    730,
    1095,
    1460,
    1825,
    2555,
    3650,
    5475,
    7300,
    10950,
)
_SAMPLES: Final = 16
# Memories of each of these instants, and characters of their texts.
_AT_ONCE: Final = 160
_ITEM_CHARS: Final = 120
# The look of each kind of memory in the drawing.
_LOOKS: Final = {"episodic": "event", "procedural": "preference", "identity": "preference"}
# Memories that are read for the graph, in pages, and nodes of the drawing.
_GRAPH_MEMORIES: Final = 2_000
_GRAPH_PAGE: Final = 500
_GRAPH_NODES: Final = 2_000
# Memories of a node at a time, and characters of their texts.
_NAMED: Final = 8
_NAMED_CHARS: Final = 300
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
# Statements around one subject, and subjects to start with; more would overlap.
_AROUND: Final = 24
# Latest statements whose subjects are offered to start with.
_LATEST_STATEMENTS: Final = 100
# Size of the drawing in pixels.
_WIDTH, _HEIGHT = 760, 480
# Characters of a label in the drawing.
_LABEL_CHARS: Final = 28


def show_timeline(visit: Visit) -> Answer:
    """Show the timeline: a drawing that the script makes, and a list by days for browsers without it."""
    until = parse_moment(visit, "until")
    project = visit.query_value("project")
    records, _ = visit.service.list_records(
        visit.access, project=project or None, valid_at=until, limit=_TIMELINE
    )
    days: dict[str, list[Record]] = {}
    for record in sorted(records, key=_valid_from, reverse=True):
        days.setdefault(_valid_from(record)[:_DAY_CHARS], []).append(record)
    return TemplatePage(
        template="timeline.html",
        context={
            "days": days,
            "until": visit.query_value("until"),
            "texts": _drawing_texts(visit.text, "span."),
        },
    )


def _valid_from(record: Record) -> str:
    return record["time"]["valid_from"] or ""


def _drawing_texts(text: Texts, part: str) -> str:
    """Return the texts of a drawing as JSON for its script."""
    return dump({name: text.forms(part + name) for name in text.names_of(part)}).decode()


def send_timeline(visit: Visit) -> Answer:
    """Return the memories of a period for the drawing; without a period those of all time."""
    context, access = visit.service.context, visit.access
    now = context.clock()
    since, until = parse_moment(visit, "from"), parse_moment(visit, "to")
    if since is None or until is None or until <= since:
        # Close together near the present, where most memories are.
        instants = [now, *(Instant(now - days * DAY_MS) for days in _AGES)]
    else:
        step = (until - since) // _SAMPLES
        instants = [Instant(since + step * number) for number in range(1, _SAMPLES + 1)]
    project = visit.query_value("project") or None
    records = list_over_time(
        context, access, instants, project=project, with_ended=since is None, limit=_AT_ONCE
    )
    months = count_by_month(context, access, project=project)
    owner = access.default_tenant
    body = {
        "now": format_instant(now),
        "total": sum(months.values()),
        "months": {format_instant(month)[:_DAY_CHARS]: months[month] for month in sorted(months)},
        "items": [_describe_item(record, owner, visit.text) for record in records],
    }
    return File(body=dump(body), name="", media_type="application/json")


def _describe_item(record: Any, owner: str, text: Texts) -> dict[str, Any]:
    """Return a memory for the timeline. An event begins and ends at the same time."""
    times, scope = record["time"], record["scope"]
    begin = times.get("valid_from") or times["created"]
    end = begin if record["kind"] == "episodic" else times.get("valid_to")
    return {
        "id": record["id"],
        "project": scope.get("project") or "",
        "person": scope.get("user") or "",
        "from": begin,
        "to": end,
        "known": times["created"],
        "kind": _LOOKS.get(record["kind"], "fact"),
        "weight": record.get("lifecycle", {}).get("salience", 0.5),
        "agent": source_of(record, owner, text).name,
        "text": record["body"]["text"][:_ITEM_CHARS],
    }


def send_graph(visit: Visit) -> Answer:
    """Return the people, projects and things of the latest memories, and what connects them."""
    records: list[Record] = []
    after: int | None = 0
    while after is not None and len(records) < _GRAPH_MEMORIES:
        page, after = visit.service.list_records(
            visit.access,
            project=visit.query_value("project") or None,
            after=after,
            limit=_GRAPH_PAGE,
        )
        records += page
    text = visit.text
    graph = EntityGraph(text("looks.you"))
    verbs = text("graph.works_on"), text("graph.mentions"), text("graph.is_about")
    graph.read(records, verbs, _load_statements(visit))
    limit = visit.parse_number(visit.query_value("limit")) or _GRAPH_NODES
    document = graph.document(min(limit, _GRAPH_NODES))
    kinds = [
        {"id": kind, "name": text(f"entity.{kind}"), "count": count}
        for kind, count in count_kinds(document["nodes"])
    ]
    return File(body=dump({**document, "kinds": kinds}), name="", media_type="application/json")


def _load_statements(visit: Visit) -> dict[str, tuple[str, str, str]]:
    """Return the latest statements of grains: subject, relation and object, by the text of their records."""
    request = FindRequest.parse({"limit": _LATEST_STATEMENTS})
    statements: dict[str, tuple[str, str, str]] = {}
    for result in visit.service.grains.find(visit.access, request).results:
        fields: Any = result.stored.grain.fields
        triple = tuple(str(fields.get(name, "")) for name in ("subject", "relation", "object"))
        if all(triple):
            subject, relation, value = triple
            statements[f"{subject} {relation.replace('_', ' ')} {value}"] = subject, relation, value
            statements[f"{subject} {relation} {value}"] = subject, relation, value
    return statements


def send_named(visit: Visit) -> Answer:
    """Return the memories with these ids, for the side of the graph. Those that the caller may not see are left out."""
    service, access = visit.service, visit.access
    items = []
    for name in list(visit.query.get("id", ()))[:_NAMED]:
        try:
            record: Any = service.get(access, name)
        except (NotFound, InvalidInput, ForbiddenScope):
            continue
        source = source_of(record, access.default_tenant, visit.text)
        items.append(
            {
                "id": record["id"],
                "text": record["body"]["text"][:_NAMED_CHARS],
                "agent": source.name,
                "at": record["time"]["created"],
            }
        )
    return File(body=dump({"items": items}), name="", media_type="application/json")


# --- the graph without a script ------------------------------------------------------------------------------


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
        "texts": _drawing_texts(visit.text, "node."),
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

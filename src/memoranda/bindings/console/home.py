"""The first page: what the agents know about a person, by theme, and what happened lately.

A memory belongs to one theme (`theme_of`), decided by its kind and by words in it. The latest memories are read for
each visit. Older identity facts and preferences are found by searching, which is slow in a large store, so the ids that
it found are kept for some time: longer the longer the search took. Only ids are kept, never texts, and each visit reads
them again with the rights of its own session, so a forgotten or newly protected memory does not appear.
"""

from __future__ import annotations

import re
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from memoranda.bindings.console.looks import Source, actor_source, source_of
from memoranda.bindings.console.visit import ROOT, Answer, Redirect, TemplatePage, Visit
from memoranda.errors import ForbiddenScope, NotFound
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.service.ump.browse import list_current
from memoranda.standards.ump.requests import (
    AuditRequest,
    Hints,
    RecallRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Kind, Record

# The themes in the order of the page, and the part of the address of their list.
THEMES: Final = {
    "who": "kind=identity",
    "preferences": "q=prefers+likes+wants+favourite",
    "people": "q=colleague+friend+family+lead+manager",
    "projects": "",
    "how": "kind=procedural",
    "open": "q=todo+decide+ask+until",
    "more": "",
}
# Memories of a theme, those learnt lately, and projects to choose from.
_LINES: Final = 3
_LEARNT: Final = 3
_PROJECTS: Final = 8
# The latest memories that are sorted into themes, and the best of each search for a theme.
_LATEST: Final = 60
_SEARCHED: Final = 12
# The latest entries of the audit log that are counted, and the agents that are shown.
_EVENTS: Final = 500
_READERS: Final = 5
# Pages whose older memories are kept; seconds for which they are kept at most, and as a multiple of their search.
_KEPT_PAGES: Final = 64
_KEPT_SECONDS: Final = 300.0
_REST_FACTOR: Final = 200.0
_READING: Final = frozenset({"recall", "get", "list", "rehydrate"})
_WEEK_MS: Final = 7 * DAY_MS
# Words by which a memory belongs to a theme, in the languages of the console.
_PREFERENCE: Final = re.compile(
    r"\b(prefers?|likes?|loves?|hates?|dislikes?|wants?|favou?rites?|allergic|vegetarian|vegan|enjoys?|avoids?|"
    r"mag|liebt|hasst|bevorzugt|möchte|lieber|lieblings\w*|allergisch|vegetarisch)\b",
    re.IGNORECASE,
)
_PERSON: Final = re.compile(
    r"\b(manager|boss|colleagues?|team ?mates?|friends?|partner|husband|wife|daughters?|sons?|mother|father|sister|"
    r"brother|parents?|married|lives? (?:in|with)|works? (?:at|for|with)|leads?|met|birthday|"
    r"Chef(?:in)?|Kolleg\w+|Freund\w*|Partner\w*|Tochter|Sohn|Mutter|Vater|Schwester|Bruder|wohnt|arbeitet|leitet|Geburtstag)\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"\b(to-?do|ask|decide|find out|check whether|remind|follow up|waiting for|due|deadline|undecided|open question|"
    r"fragen|entscheiden|klären|erinnern|fällig|Frist|offen)\b",
    re.IGNORECASE,
)
# Queries that find the memories of a theme among all.
_SEARCHES: Final = {
    "preferences": "prefers likes wants favourite allergic avoids",
    "people": "manager colleague friend partner family leads works lives",
    "open": "todo ask decide remind deadline waiting",
}


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """A theme with its first memories, and the query of the list that has all."""

    name: str
    records: Sequence[Record]
    query: str


def show_home(visit: Visit) -> Answer:
    """Show what is known, by theme. An address with filters, as an earlier version had them, leads to the list."""
    if visit.query.keys() - {"project"}:
        query = urlencode({name: list(values) for name, values in visit.query.items()}, doseq=True)
        return Redirect(f"{ROOT}/memories?{query}")
    visit.inboxes.refresh(visit.service, visit.access)
    project = visit.query_value("project")
    return TemplatePage(
        template="home.html",
        is_streamed=True,
        context={
            "project": project,
            "projects": visit.service.projects(visit.access)[:_PROJECTS],
            "load_known": partial(_load_known, visit, project),
            "load_readers": partial(_count_readers, visit),
        },
    )


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The memories on the page: by theme, and those learnt lately; and the number of their sources."""

    themes: Sequence[Theme]
    learnt: Sequence[Record]
    sources: int


def _load_known(visit: Visit, project: str) -> Known:
    """Return the memories of the page. They are read after its head was sent."""
    latest = _load_latest(visit, project)
    return Known(
        themes=sort_into_themes(_gather(visit, project, latest)),
        learnt=_learnt_lately(visit, latest),
        sources=len(dict.fromkeys(_sources(visit, latest))),
    )


def _load_latest(
    visit: Visit, project: str, kind: Kind | None = None, limit: int = _LATEST
) -> list[Record]:
    """Return the latest memories, of one kind or of all."""
    return visit.service.list_records(
        visit.access,
        project=project or None,
        kinds=None if kind is None else (kind,),
        limit=limit,
    )[0]


def _gather(visit: Visit, project: str, latest: Sequence[Record]) -> list[Record]:
    """Return the memories that may be shown: the latest, the latest of two kinds, and those that a search finds."""
    gathered = {record["id"]: record for record in latest}
    if len(latest) >= _LATEST:
        for record in _find_older(visit, project):
            gathered.setdefault(record["id"], record)
    return list(gathered.values())


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the older memories of a page, and the time until which they are kept."""

    until: float
    names: Sequence[str]


# The older memories of the last pages, by the access that may see them and by project.
_older_cache: OrderedDict[Hashable, _Kept] = OrderedDict()


def _find_older(visit: Visit, project: str) -> Sequence[Record]:
    """Return the latest memories of two kinds, and those that a search finds for a theme.

    Finding them reads the whole store, so their ids are kept for a multiple of the time that it took.
    """
    service, access = visit.service, visit.access
    rights = (access.credential, access.key_id, tuple(sorted(access.limits.items())))
    key = (id(service.context), access.default_tenant, rights, project)
    now, entry = time.monotonic(), _older_cache.get(key)
    if entry is not None and now < entry.until:
        return list_current(service.context, access, entry.names)
    records = _search_older(visit, project)
    until = now + min(_KEPT_SECONDS, _REST_FACTOR * (time.monotonic() - now))
    _older_cache[key] = _Kept(until=until, names=[record["id"] for record in records])
    while len(_older_cache) > _KEPT_PAGES:
        _older_cache.popitem(last=False)
    return records


def _search_older(visit: Visit, project: str) -> list[Record]:
    """Return the latest memories of two kinds, and those that a search finds for a theme."""
    kinds: tuple[Kind, ...] = ("identity", "procedural")
    records = [record for kind in kinds for record in _load_latest(visit, project, kind, _SEARCHED)]
    for query in _SEARCHES.values():
        request = RecallRequest(
            query=query,
            scope_filter=ScopeFilter(project=project) if project else None,
            requested_limit=_SEARCHED,
            ranking_hints=Hints(words_only=True),
        )
        records += [result.record for result in visit.service.recall(visit.access, request)]
    return records


def theme_of(record: Record) -> str:
    """Return the theme that a memory belongs to."""
    text = str(record["body"]["text"])
    if _PREFERENCE.search(text):
        return "preferences"
    if record["kind"] == "procedural":
        return "how"
    if record["kind"] == "identity":
        return "who"
    if _OPEN.search(text):
        return "open"
    if _PERSON.search(text):
        return "people"
    return "projects" if record["scope"].get("project") else "more"


def sort_into_themes(records: Iterable[Record]) -> list[Theme]:
    """Return the themes that have memories, each with its first ones."""
    by_theme: dict[str, list[Record]] = {name: [] for name in THEMES}
    for record in records:
        by_theme[theme_of(record)].append(record)
    # One line for each project says more than three of the same.
    projects = by_theme["projects"]
    first_of_each = {record["scope"].get("project"): record for record in reversed(projects)}
    first_ids = {record["id"] for record in first_of_each.values()}
    by_theme["projects"] = sorted(projects, key=lambda record: record["id"] not in first_ids)
    return [
        Theme(name=name, records=members[:_LINES], query=THEMES[name])
        for name, members in by_theme.items()
        if members
    ]


def _sources(visit: Visit, records: Iterable[Record]) -> list[Source]:
    owner = visit.access.default_tenant
    return [source_of(record, owner, visit.text) for record in records]


def _learnt_lately(visit: Visit, latest: Sequence[Record]) -> list[Record]:
    """Return the memories of this week that did not come from the person."""
    since = Instant(visit.service.context.clock() - _WEEK_MS)
    return [
        record
        for record, source in zip(latest, _sources(visit, latest), strict=True)
        if source.look != "you" and parse_instant(record["time"]["created"]) >= since
    ][:_LEARNT]


def _count_readers(visit: Visit) -> list[tuple[Source, int]]:
    """Return who read memories lately, and how often; not the person at this console."""
    try:
        events: list[Any] = visit.service.audit(visit.access, AuditRequest(requested_limit=_EVENTS))
    except (ForbiddenScope, NotFound):
        return []
    counts = Counter(
        actor_source(event["actor"], visit.access.default_tenant, visit.text)
        for event in events
        if event["op"] in _READING
        and event.get("actor")
        and event["actor"].get("did") != visit.access.actor
    )
    return counts.most_common(_READERS)

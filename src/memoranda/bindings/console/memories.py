"""The memories: the latest, those that a question finds, and one of them with all that is known of it."""

from __future__ import annotations

from typing import Any, Final, cast, get_args

import msgspec

from memoranda.bindings.console.visit import ROOT, Answer, File, Page, Redirect, Visit
from memoranda.bindings.console.words import difference
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Standard
from memoranda.model.native import CUT_KEY
from memoranda.service.core.ranking import RankedRecord
from memoranda.standards.ump import rules
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.requests import (
    AuditRequest,
    ForgetRequest,
    Hints,
    RecallFilter,
    RecallRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Kind, Record

PAGE: Final = 20
KINDS: Final = get_args(Kind)
STANDARDS: Final = get_args(Standard)
# Why something was done, in the audit log: as in every other entry, in English.
REASON: Final = "asked for in the console"
# Where somebody goes on who forgets what gave orders.
ORDERS: Final = "/review?orders=yes"
# What has to be typed to erase something for good.
ERASE_WORD: Final = "erase"
_DAY_MS: Final = 86_400_000
_DAY_CHARS: Final = 10
_READERS: Final = 20
_PROJECTS: Final = 200
_TIMELINE: Final = 60
_SCOPE: Final = ("project", "user", "agent", "session")


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """What narrows a list or a question, as the address says it."""

    scope: dict[str, str]
    kinds: tuple[Kind, ...] | None
    tag: str
    standard: Standard | None
    # What was true at the end of a day, and known at its end.
    valid_at: Instant | None
    known_at: Instant | None

    @property
    def shown(self) -> dict[str, str]:
        return {**self.scope, **({"tag": self.tag} if self.tag else {})}

    @property
    def is_any(self) -> bool:
        return bool(self.shown or self.kinds or self.standard or self.valid_at or self.known_at)


def narrowed(visit: Visit) -> Narrowed:
    """Raises InvalidInput."""
    scope = {name: value for name in _SCOPE if (value := visit.asked(name))}
    kinds = tuple(kind for kind in visit.query.get("kind", ()) if kind in KINDS)
    standard = visit.asked("standard")
    return Narrowed(
        scope=scope,
        kinds=cast("tuple[Kind, ...]", kinds) or None,
        tag=visit.asked("tag"),
        standard=cast("Standard", standard) if standard in STANDARDS else None,
        valid_at=moment(visit, "valid_at"),
        known_at=moment(visit, "known_at"),
    )


def moment(visit: Visit, name: str) -> Instant | None:
    """A day or an instant from the address; of a day its end. Raises InvalidInput."""
    text = visit.asked(name)
    if not text:
        return None
    is_day = len(text) == _DAY_CHARS
    try:
        found = parse_instant(f"{text}T00:00:00Z" if is_day else text)
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_day", text=ascii(text[:40]))) from None
    return Instant(found + _DAY_MS - 1) if is_day else found


def listed(visit: Visit) -> Answer:
    """The memories that were written last, or that a question finds; all that narrows them is in the address."""
    only, question = narrowed(visit), visit.asked("q")
    found, following = (_found(visit, question, only), None) if question else _latest(visit, only)
    return Page(
        template="memories.html",
        told={
            "found": found,
            "short": visit.service.short_ids(
                visit.access, [each["record"]["id"] for each in found]
            ),
            "question": question,
            "narrowed": only.shown,
            "kinds": only.kinds or (),
            "all_kinds": KINDS,
            "standard": only.standard or "",
            "standards": STANDARDS,
            "projects": visit.service.projects(visit.access)[:_PROJECTS],
            "is_narrowed": only.is_any,
            "valid_at": visit.asked("valid_at"),
            "known_at": visit.asked("known_at"),
            "following": None if following is None else visit.with_query(after=str(following)),
            "first": visit.with_query(after=None) if visit.asked("after") else None,
        },
    )


def latest(visit: Visit) -> Answer:
    """How far the feed has come: what the script asks again and again, before it asks for a page."""
    return File(
        body=dump({"seq": visit.service.feed_position(visit.access)}),
        name="",
        media_type="application/json",
    )


def _found(visit: Visit, question: str, only: Narrowed) -> list[dict[str, Any]]:
    ranked = _recalled(visit, question, only)
    best = max((each.score for each in ranked), default=0.0)
    return [
        {
            "record": each.record,
            "signals": each.signals,
            "score": each.score,
            "share": each.score / best if best else 0,
        }
        for each in ranked
    ]


def _recalled(
    visit: Visit, question: str, only: Narrowed, *, explained: bool = False
) -> list[RankedRecord]:
    filters = RecallFilter(
        kind=list(only.kinds) if only.kinds else None,
        valid_at=only.valid_at,
        known_at=only.known_at,
        tags=only.tag or None,
        standard=only.standard,
        scope="strict",
    )
    request = RecallRequest(
        query=question,
        scope_filter=ScopeFilter.parse(only.scope) if only.scope else None,
        filters=filters,
        requested_limit=PAGE,
        ranking_hints=Hints(explain=True) if explained else None,
    )
    return visit.service.recall(visit.access, request)


def _latest(visit: Visit, only: Narrowed) -> tuple[list[dict[str, Any]], int | None]:
    after = visit.number(visit.asked("after"))
    records, following = visit.service.list_records(
        visit.access,
        project=only.scope.get("project"),
        user=only.scope.get("user"),
        agent=only.scope.get("agent"),
        session=only.scope.get("session"),
        kinds=only.kinds,
        tags=(only.tag,) if only.tag else (),
        standard=only.standard,
        valid_at=only.valid_at,
        known_at=only.known_at,
        after=after,
        limit=PAGE,
    )
    return [{"record": record} for record in records], following


def timeline(visit: Visit) -> Answer:
    """The latest by the day on which they became true, the last day first."""
    until = moment(visit, "until")
    records, _ = visit.service.list_records(
        visit.access, project=visit.asked("project") or None, valid_at=until, limit=_TIMELINE
    )
    days: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda each: each["time"]["valid_from"] or "", reverse=True):
        days.setdefault((record["time"]["valid_from"] or "")[:_DAY_CHARS], []).append(record)
    return Page(
        template="timeline.html",
        told={
            "days": days,
            "most": max(map(len, days.values()), default=1),
            "until": visit.asked("until"),
        },
    )


def tags_of(record: Record) -> list[str]:
    about = (each["target"] for each in record.get("relations", ()) if each["type"] == "about")
    return [target.removeprefix(TAG_PREFIX) for target in about if target.startswith(TAG_PREFIX)]


def shown(visit: Visit) -> Answer:
    """One memory: what it says, its history, who wrote and read it, and how each standard has it."""
    record = visit.service.get(visit.access, visit.names["id"])
    versions, following = visit.service.history_page(visit.access, record["id"])
    told: list[dict[str, Any]] = []
    before = ""
    for each in versions:
        text = str(each["record"]["body"]["text"])  # type: ignore[index]
        told.append({**each, "pieces": difference(before, text) if told else None})
        before = text
    question = visit.asked("q")
    ranked = _recalled(visit, question, narrowed(visit), explained=True) if question else ()
    subject = (record["body"].get("structured") or {}).get("subject")
    return Page(
        template="memory.html",
        told={
            "record": record,
            "too_large": (record["body"].get("structured") or {}).get(CUT_KEY, {}).get("body.text"),
            "question": question,
            "found": next((each for each in ranked if each.record["id"] == record["id"]), None),
            "origins": visit.service.origins(visit.access, record["id"]),
            "subject": subject if isinstance(subject, str) else record["scope"].get("user", ""),
            "tags": tags_of(record),
            "versions": told[::-1],
            "is_cut": following is not None,
            "may_erase": visit.access.may_erase(visit.access.default_tenant),
        },
    )


def views(visit: Visit) -> Answer:
    """The memory as each standard has it."""
    name = visit.names["id"]
    shown = visit.service.seen_as(visit.access, name)
    documents = [(standard, dump_pretty(document)) for standard, document in shown.items()]
    held = shown["OMS"]["held"] if "OMS" in shown else None
    return Page(
        template="views.html", told={"record": shown["UMP"], "documents": documents, "held": held}
    )


def hold(visit: Visit) -> Answer:
    """Keep a memory from being changed or erased, or release it."""
    shown = visit.service.seen_as(visit.access, visit.names["id"])
    if "OMS" not in shown:
        raise InvalidInput(visit.text("wrong.no_grain"))
    is_held = bool(visit.given("held"))
    visit.service.grains.set_hold(
        visit.access, shown["OMS"]["address"], held=is_held, reason=REASON
    )
    said = visit.text("said.held" if is_held else "said.released")
    return Redirect(f"{ROOT}/memory/{visit.names['id']}/views", said)


def readers(visit: Visit) -> Answer:
    """Who read, wrote or changed the memory."""
    record = visit.service.get(visit.access, visit.names["id"])
    events = visit.service.audit(
        visit.access, AuditRequest(target=record["id"], requested_limit=_READERS)
    )
    return Page(template="readers.html", told={"record": record, "events": events[::-1]})


def revise(visit: Visit) -> Answer:
    """Write a successor with another text, made from the one that the page shows."""
    name = visit.names["id"]
    text = visit.required("text", "wrong.missing_text").replace("\r\n", "\n")
    current = visit.service.get(visit.access, name)
    if current["id"] != visit.given("seen") and visit.given("seen"):
        raise InvalidInput(visit.text("wrong.changed_since"))
    rules.require_complete(current, ("body",))
    revised = visit.service.change(visit.access, current["id"], text)
    return Redirect(f"{ROOT}/memory/{revised.id}", visit.text("said.changed"))


def forget(visit: Visit) -> Answer:
    """Forget the memory of the address, or those that the form selects; for good if the word for that was typed."""
    names = [visit.names["id"]] if "id" in visit.names else visit.chosen("id")
    if not names:
        raise InvalidInput(visit.text("wrong.none_selected"))
    is_hard = bool(visit.given("hard"))
    if is_hard and not visit.is_typed(ERASE_WORD):
        raise InvalidInput(visit.text("wrong.not_erased", word=ERASE_WORD))
    reason = visit.given("reason").strip() or REASON
    done, refused = 0, []
    for name in names:
        try:
            visit.service.forget(visit.access, ForgetRequest(id=name, reason=reason, hard=is_hard))
            done += 1
        except MemorandaError as error:
            refused.append(error)
    if refused and not done:
        raise refused[0]
    said = visit.text("said.erased" if is_hard else "said.forgot", n=done)
    if refused:
        said += " " + visit.text("said.refused_too", n=len(refused), why=refused[0].message)
    # A page of ours, whatever the form says.
    following = visit.given("next") if visit.given("next") == ORDERS else "/"
    return Redirect(ROOT + following, said)


def undo(visit: Visit) -> Answer:
    """Take back the last change."""
    undone = visit.service.undo_last(visit.access)
    return Redirect(ROOT + "/", visit.text("said.undone", what=undone.said))


def remember(visit: Visit) -> Answer:
    """Write a new memory."""
    draft = {
        "kind": visit.given("kind") or "semantic",
        "body": {"text": visit.required("text", "wrong.missing_memory").replace("\r\n", "\n")},
        "scope": {"project": project} if (project := visit.given("project").strip()) else {},
    }
    whole = visit.service.with_defaults(visit.access, draft, method="console")
    remembered = visit.service.remember(visit.access, whole)
    return Redirect(f"{ROOT}/memory/{remembered.id}", visit.text("said.remembered"))


def export(visit: Visit) -> Answer:
    """The record as UMP writes it, to keep."""
    record = visit.service.get(visit.access, visit.names["id"])
    return File(
        body=dump_pretty(record).encode(), name="memory.json", media_type="application/json"
    )

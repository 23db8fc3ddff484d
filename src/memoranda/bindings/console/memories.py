"""The memories: the latest, those that a question finds, and one of them with all that is known of it."""

from __future__ import annotations

from typing import Any, Final, get_args

from memoranda.bindings.console.visit import ROOT, Answer, File, Page, Redirect, Visit
from memoranda.bindings.console.words import difference
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant, parse_instant
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.requests import (
    AuditRequest,
    ForgetRequest,
    RecallFilter,
    RecallRequest,
    ReviseRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Kind, Record

PAGE: Final = 20
KINDS: Final = get_args(Kind)
# What has to be typed to erase something for good.
ERASE_WORD: Final = "erase"
_DAY_MS: Final = 86_400_000
_DAY_CHARS: Final = 10
_READERS: Final = 20
_PROJECTS: Final = 200
_TIMELINE: Final = 60


def moment(text: str, *, is_end: bool = False) -> Instant | None:
    """A day or an instant from a form; of a day its beginning, or its end. Raises InvalidInput."""
    if not text:
        return None
    is_day = len(text) == _DAY_CHARS
    try:
        found = parse_instant(f"{text}T00:00:00Z" if is_day else text)
    except ValueError:
        raise InvalidInput(f"{text[:40]!a} is no day: write it as 2026-05-31") from None
    return Instant(found + _DAY_MS - 1) if is_day and is_end else found


def listed(visit: Visit) -> Answer:
    """The memories that were written last, or that a question finds; all that narrows them is in the address."""
    narrowed = {name: visit.asked(name) for name in ("project", "user", "agent", "session", "tag")}
    kinds: Any = tuple(kind for kind in visit.query.get("kind", ()) if kind in KINDS) or None
    # What was true at the end of a day, and known at its end.
    valid_at, known_at = (moment(visit.asked(name), is_end=True) for name in ("valid_at", "known_at"))
    question = visit.asked("q")
    if question:
        found, following = _found(visit, question, narrowed, kinds, valid_at, known_at), None
    else:
        found, following = _latest(visit, narrowed, kinds, valid_at, known_at)
    return Page(
        template="memories.html",
        told={
            "found": found,
            "short": visit.service.short_ids(visit.access, [each["record"]["id"] for each in found]),
            "question": question,
            "narrowed": {name: value for name, value in narrowed.items() if value},
            "kinds": kinds or (),
            "all_kinds": KINDS,
            "projects": visit.service.projects(visit.access)[:_PROJECTS],
            "is_narrowed": bool(kinds or valid_at or known_at or any(narrowed.values())),
            "valid_at": visit.asked("valid_at"),
            "known_at": visit.asked("known_at"),
            "following": None if following is None else visit.with_query(after=str(following)),
            "first": visit.with_query(after=None) if visit.asked("after") else None,
        },
    )


def latest(visit: Visit) -> Answer:
    """How far the feed has come: what the script asks again and again, before it asks for a page."""
    return File(body=dump({"seq": visit.service.feed_position(visit.access)}), name="", media_type="application/json")


def _found(
    visit: Visit,
    question: str,
    narrowed: dict[str, str],
    kinds: Any,
    valid_at: Instant | None,
    known_at: Instant | None,
) -> list[dict[str, Any]]:
    scope = {name: value for name, value in narrowed.items() if value and name != "tag"}
    request = RecallRequest(
        query=question,
        asked_scope=ScopeFilter.parse(scope) if scope else None,
        filters=RecallFilter(kind=kinds and list(kinds), valid_at=valid_at, known_at=known_at, scope="strict"),
        asked_limit=PAGE,
    )
    wanted = narrowed["tag"].lower()
    ranked = visit.service.recall(visit.access, request)
    kept = [each for each in ranked if not wanted or wanted in (tag.lower() for tag in tags_of(each.record))]
    best = max((each.score for each in kept), default=0.0)
    return [
        {"record": each.record, "signals": each.signals, "score": each.score, "share": each.score / best if best else 0}
        for each in kept
    ]


def _latest(
    visit: Visit, narrowed: dict[str, str], kinds: Any, valid_at: Instant | None, known_at: Instant | None
) -> tuple[list[dict[str, Any]], int | None]:
    after = visit.asked("after")
    if after and not after.isdecimal():
        raise InvalidInput("after: a whole number")
    records, following = visit.service.list_records(
        visit.access,
        project=narrowed["project"] or None,
        user=narrowed["user"] or None,
        agent=narrowed["agent"] or None,
        session=narrowed["session"] or None,
        kinds=kinds,
        tags=(narrowed["tag"],) if narrowed["tag"] else (),
        valid_at=valid_at,
        known_at=known_at,
        after=int(after or 0),
        limit=PAGE,
    )
    return [{"record": record} for record in records], following


def timeline(visit: Visit) -> Answer:
    """The latest by the day on which they became true, the last day first."""
    until = moment(visit.asked("until"), is_end=True)
    records, _ = visit.service.list_records(
        visit.access, project=visit.asked("project") or None, valid_at=until, limit=_TIMELINE
    )
    days: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda each: each["time"]["valid_from"] or "", reverse=True):
        days.setdefault((record["time"]["valid_from"] or "always")[:_DAY_CHARS], []).append(record)
    return Page(
        template="timeline.html",
        told={"days": days, "most": max(map(len, days.values()), default=1), "until": visit.asked("until")},
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
    return Page(
        template="memory.html",
        told={
            "record": record,
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
    return Page(template="views.html", told={"record": shown["UMP"], "documents": documents, "held": held})


def hold(visit: Visit) -> Answer:
    """Keep a memory from being changed or erased, or release it."""
    shown = visit.service.seen_as(visit.access, visit.names["id"])
    if "OMS" not in shown:
        raise InvalidInput("this memory is no grain, and only grains can be held")
    is_held = bool(visit.given("held"))
    reason = "asked for in the console"
    visit.service.grains.set_hold(visit.access, shown["OMS"]["address"], held=is_held, reason=reason)
    said = "Held: nobody can change or erase it." if is_held else "Released."
    return Redirect(f"{ROOT}/memory/{visit.names['id']}/views", said)


def readers(visit: Visit) -> Answer:
    """Who read, wrote or changed the memory."""
    record = visit.service.get(visit.access, visit.names["id"])
    events = visit.service.audit(visit.access, AuditRequest(target=record["id"], asked_limit=_READERS))
    return Page(template="readers.html", told={"record": record, "events": events[::-1]})


def revise(visit: Visit) -> Answer:
    """Write a successor with another text."""
    name = visit.names["id"]
    text = visit.required("text", "The new text").replace("\r\n", "\n")
    current = visit.service.get(visit.access, name)
    if current["id"] != visit.given("seen") and visit.given("seen"):
        raise InvalidInput("somebody changed this memory since you opened it; look at it again")
    revised = visit.service.revise(visit.access, ReviseRequest(id=current["id"], patch={"body": {"text": text}}))
    return Redirect(f"{ROOT}/memory/{revised.id}", "Changed. What it said before is in its history.")


def forget(visit: Visit) -> Answer:
    """Forget one memory or several; for good, if the word for that was typed."""
    names = list(visit.form.get("id", ())) or [visit.names["id"]]
    is_hard = bool(visit.given("hard"))
    if is_hard and visit.given("typed").strip().lower() != ERASE_WORD:
        raise InvalidInput(f"nothing was erased: type the word {ERASE_WORD} to say that you mean it")
    reason = visit.given("reason").strip() or "asked for in the console"
    done, refused = 0, []
    for name in names:
        try:
            visit.service.forget(visit.access, ForgetRequest(id=name, reason=reason, hard=is_hard))
            done += 1
        except MemorandaError as error:
            refused.append(error)
    if refused and not done:
        raise refused[0]
    what = "1 memory" if done == 1 else f"{done} memories"
    said = f"Erased {what} for good." if is_hard else f"Forgot {what}. Undo brings the last one back."
    return Redirect(ROOT + "/", said + (f" {len(refused)} could not be: {refused[0].message}" if refused else ""))


def undo(visit: Visit) -> Answer:
    """Take back the last change."""
    undone = visit.service.undo_last(visit.access)
    return Redirect(ROOT + "/", f"Taken back: {undone.said}.")


def remember(visit: Visit) -> Answer:
    """Write a new memory."""
    draft = {
        "kind": visit.given("kind") or "semantic",
        "body": {"text": visit.required("text", "What to remember").replace("\r\n", "\n")},
        "scope": {"project": project} if (project := visit.given("project").strip()) else {},
    }
    whole = visit.service.with_defaults(visit.access, draft, method="console")
    remembered = visit.service.remember(visit.access, whole)
    return Redirect(f"{ROOT}/memory/{remembered.id}", "Remembered.")


def export(visit: Visit) -> Answer:
    """The record as UMP writes it, to keep."""
    record = visit.service.get(visit.access, visit.names["id"])
    return File(body=dump_pretty(record).encode(), name="memory.json", media_type="application/json")

"""The page of one memory: its text, where it came from, how it changed, what it is related to, and its fields."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from memoranda.bindings.console.lists import parse_filters, recall
from memoranda.bindings.console.looks import explain_result, matched_words
from memoranda.bindings.console.memories import REASON
from memoranda.bindings.console.texts import compare_texts
from memoranda.bindings.console.visit import (
    ROOT,
    Answer,
    File,
    Redirect,
    TemplatePage,
    Visit,
    undoable,
)
from memoranda.encoding.json_text import dump_pretty
from memoranda.errors import Conflict, InvalidInput, NotFound
from memoranda.model.memory import CUT_KEY
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.ump.facets import tags_of
from memoranda.standards.ump import rules
from memoranda.standards.ump.excerpt import missing_title
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.requests import AuditRequest, RecallRequest
from memoranda.standards.ump.shapes import Record

# Entries of the audit log on the page of readers.
_READERS: Final = 20
# The latest entries of the audit log in which the uses of a memory are looked for, and the uses that are shown.
_LOOKED_THROUGH: Final = 500
_USES: Final = 5
_READING: Final = frozenset({"recall", "get", "list", "rehydrate"})
# Memories that resemble this one.
_ALIKE: Final = 3
# Characters of the text with which resembling memories are searched.
_QUERY_CHARS: Final = 400
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10


def show_memory(visit: Visit) -> Answer:
    """Show one memory with its history, its sources, and why a search found it."""
    record = visit.service.get(visit.access, visit.names["id"])
    return _memory_page(visit, record)


def _memory_page(
    visit: Visit, record: Record, *, typed: str | None = None, status: int = 200
) -> Answer:
    """Return the page of a memory; `typed` is a text that was not saved, because the memory changed meanwhile."""
    service, access = visit.service, visit.access
    history, following = service.history_page(access, record["id"])
    versions: list[dict[str, object]] = []
    before = ""
    for version in history:
        text = str(version["record"]["body"]["text"])  # type: ignore[index]
        versions.append({**version, "pieces": compare_texts(before, text) if versions else None})
        before = text
    structured = record["body"].get("structured") or {}
    subject = structured.get("subject")
    question = visit.query_value("q")
    return TemplatePage(
        template="memory.html",
        status=status,
        is_streamed=True,
        context={
            "record": record,
            "title": missing_title(record),
            "too_large": structured.get(CUT_KEY, {}).get("body.text"),
            "question": question,
            "load_reasons": partial(_load_reasons, visit, record, question),
            "origins": service.origins(access, record["id"]),
            "subject": subject if isinstance(subject, str) else record["scope"].get("user", ""),
            "tags": tags_of(record),
            "versions": versions[::-1],
            "is_cut": following is not None,
            "may_erase": access.may_erase(access.default_tenant),
            "typed": typed,
            "typed_pieces": None
            if typed is None
            else compare_texts(str(record["body"]["text"]), typed),
            "load_uses": partial(_load_uses, visit, record),
            "load_alike": partial(_load_alike, visit, record),
        },
    )


def _load_reasons(visit: Visit, record: Record, question: str) -> dict[str, Any]:
    """Return why a search finds this memory, or that it does not."""
    filters = parse_filters(visit)
    ranked: list[RankedRecord] = recall(visit, question, filters)
    result = next((entry for entry in ranked if entry.record["id"] == record["id"]), None)
    if result is None:
        return {"why": None}
    words = matched_words(str(record["body"]["text"]), question)
    parts = {name: reason.part for name, reason in (result.reasons or {}).items() if reason.part}
    return {
        "why": explain_result(result, words, filters.scope, visit.text),
        "signals": {**result.signals, **parts},
    }


def _load_uses(visit: Visit, record: Record) -> list[dict[str, Any]]:
    """Return the latest reads of a memory by others than this page, the newest first."""
    events = visit.service.audit(visit.access, AuditRequest(requested_limit=_LOOKED_THROUGH))
    uses = [
        event
        for event in reversed(events)
        if event["op"] in _READING
        and record["id"] in event.get("targets", ())
        and event.get("actor", {}).get("did") != visit.access.actor
    ]
    return uses[:_USES]


def _load_alike(visit: Visit, record: Record) -> list[Record]:
    """Return memories that resemble this one."""
    query = str(record["body"]["text"])[:_QUERY_CHARS].strip()
    if not query:
        return []
    request = RecallRequest(query=query, requested_limit=_ALIKE + 1)
    try:
        ranked = visit.service.recall(visit.access, request)
    except InvalidInput:
        return []
    return [result.record for result in ranked if result.record["id"] != record["id"]][:_ALIKE]


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


def export_record(visit: Visit) -> Answer:
    """Return the UMP record as a file."""
    record = visit.service.get(visit.access, visit.names["id"])
    return File(
        body=dump_pretty(record).encode(), name="memory.json", media_type="application/json"
    )


# --- changes --------------------------------------------------------------------------------------------------


def revise_memory(visit: Visit) -> Answer:
    """Write a new version of the memory on the page, with another text.

    If the memory changed since the page was opened, nothing is written and the page shows both texts. An unchanged
    text is not written either.
    """
    service, access = visit.service, visit.access
    text = visit.require_value("text", "wrong.missing_text").replace("\r\n", "\n")
    current = service.get(access, visit.names["id"])
    if visit.form_value("seen") and visit.form_value("seen") != current["id"]:
        return _show_both(visit, current, text)
    rules.require_complete(current, ("body",))
    # A browser sends the text of a form with other line ends.
    if text == current["body"]["text"].replace("\r\n", "\n"):
        return Redirect(_path_back(visit, current["id"]), visit.text("said.unchanged"))
    try:
        revised = service.change(access, current["id"], text)
    except Conflict:
        return _show_both(visit, service.get(access, visit.names["id"]), text)
    return Redirect(_path_back(visit, revised.id), undoable(visit.text("said.changed")))


def _path_back(visit: Visit, name: str) -> str:
    """Return the page from which a form came, or else the page of the memory."""
    return visit.next_path(f"/memory/{name}")


def _show_both(visit: Visit, version: Record, typed: str) -> Answer:
    """Return the page that shows the newest version and the text that was not saved."""
    newest = version
    while following := newest.get("superseded_by"):
        newest = visit.service.get(visit.access, following[0])
    return _memory_page(visit, newest, typed=typed, status=409)


def restore_version(visit: Visit) -> Answer:
    """Write the content of an earlier version again, as a new version."""
    service, access = visit.service, visit.access
    current = service.get(access, visit.names["id"])
    name = visit.require_value("version", "wrong.no_version")
    history, _ = service.history_page(access, current["id"])
    records: list[Any] = [version["record"] for version in history]
    target = next((record for record in records if record["id"] == name), None)
    if target is None:
        raise NotFound(visit.text("wrong.no_version"))
    rules.require_complete(current, ("body",))
    body = target["body"]
    if body == current["body"]:
        return Redirect(f"{ROOT}/memory/{current['id']}", visit.text("said.unchanged"))
    revised = service.change(access, current["id"], patch={"body": body})
    return Redirect(f"{ROOT}/memory/{revised.id}", undoable(visit.text("said.version_restored")))


def set_details(visit: Visit) -> Answer:
    """Change the tags, the validity and the consent of a memory. Fields without a change are not written."""
    service, access = visit.service, visit.access
    current: Any = service.get(access, visit.names["id"])
    version = visit.form_value("seen")
    if version and version != current["id"]:
        raise Conflict(visit.text("wrong.changed_since"))
    patch = _build_patch(visit, current)
    if not patch:
        return Redirect(f"{ROOT}/memory/{current['id']}", visit.text("said.unchanged"))
    revised = service.change(access, current["id"], patch=patch)
    return Redirect(f"{ROOT}/memory/{revised.id}", undoable(visit.text("said.details_changed")))


def _build_patch(visit: Visit, current: Any) -> dict[str, Any]:
    """Return the changed fields of a form as a patch."""
    patch: dict[str, Any] = {}
    tags = [tag.strip().lstrip("#") for tag in visit.form_value("tags").split(",")]
    tags_of_form = list(dict.fromkeys(tag for tag in tags if tag))
    if "tags" in visit.form and tags_of_form != tags_of(current):
        relations = [
            relation
            for relation in current.get("relations", ())
            if not (relation["type"] == "about" and relation["target"].startswith(TAG_PREFIX))
        ]
        added = [{"type": "about", "target": f"{TAG_PREFIX}{tag}"} for tag in tags_of_form]
        patch["relations"] = [*relations, *added]
    times: dict[str, str | None] = {}
    for name in ("valid_from", "valid_to"):
        before = str(current["time"].get(name) or "")[:_DAY_CHARS]
        day = visit.form_value(name).strip()
        if name in visit.form and day != before:
            if not day and name == "valid_from":
                continue
            times[name] = _parse_day(visit, day) if day else None
    if times:
        # Without a beginning, a new version would begin now.
        if "valid_from" not in times and current["time"].get("valid_from"):
            times["valid_from"] = current["time"]["valid_from"]
        patch["time"] = times
    is_exportable = (current.get("consent") or {}).get("exportable", True)
    if visit.form_value("export") == "never" and is_exportable:
        patch["consent"] = {"exportable": False}
    return patch


def _parse_day(visit: Visit, day: str) -> str:
    """Return a day of a form as an instant. Raises InvalidInput."""
    from memoranda.model.instant import parse_instant

    moment = f"{day}T00:00:00Z"
    try:
        parse_instant(moment)
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_day", text=ascii(day[:40]))) from None
    return moment

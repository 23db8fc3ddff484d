"""The page of one memory: its text, where it came from, how it changed, what it is related to, and its fields.

The page never overwrites what someone else wrote meanwhile. A form carries the id of the version that it showed; if
that is no longer the newest, nothing is written, and the page comes back (status 409) with the newest version next to
what was typed, for the person to decide. Functions that handle a form return a redirect, so a reload does not repeat
the action.

What a person may see or do is decided by the service, with the access of the session; nothing here checks rights.
Reading this page counts as a read of the owner in the audit log.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from memoranda.bindings.console.details import (
    KINDS,
    Details,
    carry_over,
    details_of,
    list_differences,
    parse_details,
    write_details,
)
from memoranda.bindings.console.inbox import may_review
from memoranda.bindings.console.lists import parse_filters, recall
from memoranda.bindings.console.looks import explain_result, matched_words
from memoranda.bindings.console.memories import FORM_PROJECTS, REASON
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
from memoranda.model.memory import CUT_KEY, VISIBILITIES
from memoranda.retrieval.analysis import query_terms
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.ump.facets import tags_of
from memoranda.standards.ump import rules
from memoranda.standards.ump.excerpt import missing_title
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


def show_memory(visit: Visit) -> Answer:
    """Show one memory with its history, its sources, and why a search found it."""
    record = visit.service.get(visit.access, visit.names["id"])
    return _memory_page(visit, record)


def _memory_page(
    visit: Visit,
    record: Record,
    *,
    typed: str | None = None,
    typed_details: Details | None = None,
    status: int = 200,
) -> Answer:
    """Return the page of a memory.

    `typed` and `typed_details` are a text and details that were not saved, because the memory changed meanwhile.
    """
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
            "details": typed_details or details_of(record),
            "typed_details": typed_details,
            "detail_differences": []
            if typed_details is None
            else list_differences(details_of(record), typed_details, visit.text),
            "kinds": KINDS,
            "visibilities": VISIBILITIES,
            "projects": service.projects(access)[:FORM_PROJECTS],
            "may_refile": may_review(access),
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
    words = matched_words(str(record["body"]["text"]), query_terms(question))
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
    return _memory_page(visit, _find_newest(visit, version), typed=typed, status=409)


def _find_newest(visit: Visit, version: Record) -> Record:
    """Return the newest version of a memory."""
    newest = version
    while following := newest.get("superseded_by"):
        newest = visit.service.get(visit.access, following[0])
    return newest


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
    """Change the details of a memory. Without a change nothing is written.

    If the memory changed since the page was opened, nothing is written either, and the page shows both.
    """
    service, access = visit.service, visit.access
    current = _find_newest(visit, service.get(access, visit.names["id"]))
    shown_record = service.get(access, visit.form_value("seen") or current["id"])
    typed = parse_details(visit, details_of(shown_record))
    if shown_record["id"] != current["id"]:
        return _show_both_details(visit, shown_record, typed)
    try:
        revised = write_details(visit, current, typed)
    except Conflict:
        return _show_both_details(visit, current, typed)
    if revised is None:
        return Redirect(f"{ROOT}/memory/{current['id']}", visit.text("said.unchanged"))
    return Redirect(f"{ROOT}/memory/{revised.id}", undoable(visit.text("said.details_changed")))


def _show_both_details(visit: Visit, shown_record: Record, typed: Details) -> Answer:
    """Return the page of the newest version, with the details that were not saved."""
    newest = _find_newest(visit, visit.service.get(visit.access, visit.names["id"]))
    unsaved = carry_over(details_of(shown_record), typed, details_of(newest))
    return _memory_page(visit, newest, typed_details=unsaved, status=409)

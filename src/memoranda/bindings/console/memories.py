"""The list of memories, and the forms that write, forget and restore memories.

Forms that write redirect to a page with a notice, so that reloading does not repeat them.

The script of the console calls some of these paths in the background (`show_feed_position`, `find_for_palette`); the
others must work without a script. Forgetting several memories is one action for Undo. Erasing cannot be undone, so it
needs the typed word.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from memoranda.bindings.console.inbox import may_review
from memoranda.bindings.console.lists import (
    KINDS,
    STANDARDS,
    list_path,
    load_facets,
    load_listing,
)
from memoranda.bindings.console.looks import source_of
from memoranda.bindings.console.visit import (
    ROOT,
    Answer,
    File,
    Redirect,
    TemplatePage,
    Visit,
    undoable,
)
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput

# The reason in the audit log, in English like all of its entries.
REASON: Final = "asked for in the console"
# The word that a person types to confirm an erasure.
ERASE_WORD: Final = "erase"
# Projects that a form offers.
FORM_PROJECTS: Final = 200
# Changes on the page of changes, and memories in the command palette.
_CHANGES: Final = 40
_FOUND: Final = 6


def show_list(visit: Visit) -> Answer:
    """Show the latest memories, or the results of a search. All filters are in the URL."""
    # Read before the list, so that the page is told of whatever is written after it.
    position = visit.service.feed_position(visit.access) if may_review(visit.access) else 0
    memory_list = load_listing(visit)
    return TemplatePage(
        template="memories.html",
        is_streamed=True,
        context={
            "listing": memory_list,
            "position": position,
            "filters": memory_list.filters,
            "question": memory_list.question,
            "load_facets": partial(load_facets, visit, memory_list),
            "all_kinds": KINDS,
            "standards": STANDARDS,
            "projects": visit.service.projects(visit.access)[:FORM_PROJECTS],
            "edited": visit.query_value("edit"),
            "valid_at": visit.query_value("valid_at"),
            "known_at": visit.query_value("known_at"),
            "came_from": list_path(visit),
            "following": None
            if memory_list.following is None
            else visit.with_query(after=str(memory_list.following), edit=None),
            "first": visit.with_query(after=None, edit=None) if memory_list.after else None,
        },
    )


def show_feed_position(visit: Visit) -> Answer:
    """Return the position of the feed, and the token that forms of this session need.

    The script asks before it sends a form: a page that was open while its session ended would otherwise lose what was
    typed.
    """
    position = visit.service.feed_position(visit.access)
    return File(
        body=dump({"seq": position, "token": visit.session.token}),
        name="",
        media_type="application/json",
    )


def forget_memories(visit: Visit) -> Answer:
    """Forget the memory in the URL, or those selected in the form. Erase them for good if the word was typed."""
    # The button of one card is in the form of the list, whose ticked boxes it does not mean.
    names = [visit.names["id"]] if "id" in visit.names else visit.form_values("only")
    names = names or visit.form_values("id")
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
    visit.inboxes.drop(visit.access, *names)
    is_undoable = not is_hard and bool(result.forgotten)
    return Redirect(visit.next_path("/memories"), undoable(notice) if is_undoable else notice)


def undo_last(visit: Visit) -> Answer:
    """Undo the last action."""
    undone = visit.service.undo_last(visit.access)
    path = visit.next_path("/memories")
    # The page of a memory leads to what it says now, which is a new version.
    if path.startswith(f"{ROOT}/memory/") and undone.text and undone.memories == 1:
        path = f"{ROOT}/memory/{undone.now}"
    return Redirect(path, visit.text("said.undone", what=undone.summary))


def redo_last(visit: Visit) -> Answer:
    """Do the action again that was undone last."""
    redone = visit.service.redo_last(visit.access)
    return Redirect(
        visit.next_path("/changes"), undoable(visit.text("said.redone", what=redone.summary))
    )


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
    return Redirect(f"{ROOT}/memory/{remembered.id}", undoable(visit.text("said.remembered")))


def show_changes(visit: Visit) -> Answer:
    """Show the latest changes, the newest first, and which of them Undo and Redo would act on."""
    service, access = visit.service, visit.access
    end = service.feed_position(access)
    page = service.changes(access, {}, max(0, end - _CHANGES))
    return TemplatePage(template="changes.html", context={"events": page.events[::-1]})


def find_for_palette(visit: Visit) -> Answer:
    """Return the memories that the command palette lists for what was typed."""
    memory_list = load_listing(visit)
    rows = [
        {
            "id": item.record["id"],
            "text": item.record["body"]["text"][:120],
            "look": source_of(item.record, visit.access.default_tenant, visit.text).look,
        }
        for item in memory_list.items[:_FOUND]
    ]
    return File(body=dump({"memories": rows}), name="", media_type="application/json")

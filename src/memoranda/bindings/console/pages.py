"""The pages and forms of the console, by path, and the page that shows every component of the design.

To add a page: write a function that takes the Visit and returns an Answer, name it in PAGES or FORMS, and add its path
to an area in `looks.py`, so that the navigation marks it. A function that reads all memories must be in SCANS. Paths in
PAGES only read; whatever changes something is a form, which is refused without the token of the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memoranda.bindings.console import (
    agents,
    ask,
    govern,
    graph,
    home,
    lists,
    memories,
    memory,
    prompt,
    review,
    transfer,
)
from memoranda.bindings.console.visit import Answer, PageHandler, TemplatePage, Visit

_COLOURS: Final = (
    *("paper", "surface", "sunken", "ink", "ink-2", "ink-3", "line"),
    *("accent", "accent-soft", "mark", "good-soft", "warn-soft", "bad-soft", "bad"),
)
_ICONS: Final = (
    *(
        "home",
        "memories",
        "review",
        "explore",
        "settings",
        "search",
        "edit",
        "forget",
        "undo",
        "check",
    ),
    *("copy", "clock", "project", "person", "key", "shield", "split", "bulb", "plus", "import"),
    *("export", "lock", "disk", "try", "time", "steps", "talk", "fact", "heart", "twins"),
    *("stale", "warning", "filter", "tag", "code", "right", "down", "more"),
)
_LOOKS: Final = ("claude", "cursor", "codex", "gemini", "import", "you", "person", "other")


def show_design(_visit: Visit) -> Answer:
    """Show all components."""
    return TemplatePage(
        template="design.html",
        context={"colours": _COLOURS, "icons": _ICONS, "looks": _LOOKS},
    )


# The functions that show pages, and those that handle forms, by path.
PAGES: Final[Mapping[str, PageHandler]] = {
    "/": home.show_home,
    "/latest": memories.show_feed_position,
    "/palette.json": memories.find_for_palette,
    "/memories": memories.show_list,
    "/memories.json": lists.send_json,
    "/memories.csv": lists.send_csv,
    "/changes": memories.show_changes,
    "/memory/{id}": memory.show_memory,
    "/memory/{id}/views": memory.show_views,
    "/memory/{id}/readers": memory.show_readers,
    "/memory/{id}/export": memory.export_record,
    "/try": prompt.show_prompt,
    "/ask": ask.show_editor,
    "/ask/check": ask.check_query,
    "/graph": graph.show_graph,
    "/graph.json": graph.send_graph,
    "/graph/memories.json": graph.send_named,
    "/timeline.json": graph.send_timeline,
    "/timeline": graph.show_timeline,
    "/review": review.show_review,
    "/agents": agents.show_agents,
    "/keys": govern.show_keys,
    "/audit": govern.show_audit,
    "/overview": govern.show_overview,
    "/rules": govern.show_rules,
    "/moving": transfer.show_transfer,
    "/design": show_design,
}
FORMS: Final[Mapping[str, PageHandler]] = {
    "/remember": memories.remember_memory,
    "/forget": memories.forget_memories,
    "/undo": memories.undo_last,
    "/redo": memories.redo_last,
    "/memory/{id}/revise": memory.revise_memory,
    "/memory/{id}/restore": memory.restore_version,
    "/memory/{id}/details": memory.set_details,
    "/memory/{id}/forget": memories.forget_memories,
    "/memory/{id}/hold": memory.set_hold,
    "/review/{id}/approve": review.approve_proposal,
    "/review/{id}/reject": review.reject_proposal,
    "/review/{id}/revise": review.revise_proposal,
    "/review/refuse": review.refuse_suggestion,
    "/review/right": review.keep_one_statement,
    "/review/keep": review.keep_one_duplicate,
    "/review/end": review.end_stale_fact,
    "/review/dismiss": review.dismiss,
    "/review/redact": review.redact_secret,
    "/review/allow": review.allow_memory,
    "/review/undo": review.undo_run,
    "/review": review.accept_suggestions,
    "/export": transfer.export_file,
    "/import": transfer.import_file,
    "/import/part": transfer.stage_part,
    "/import/undo": transfer.undo_import,
    "/rules": govern.set_rules,
    "/keys": govern.add_key,
    "/keys/{id}/revoke": govern.revoke_key,
    "/keys/{id}/rotate": govern.rotate_key,
    "/tokens": govern.mint_token,
    "/tokens/revoke": govern.revoke_token,
    "/sessions/{id}/end": govern.end_session,
}

# Functions that read all memories; each call takes a scan slot.
SCANS: Final = frozenset(
    (
        transfer.export_file,
        transfer.import_file,
        transfer.undo_import,
        review.show_review,
        review.accept_suggestions,
        review.refuse_suggestion,
        govern.show_overview,
    )
)

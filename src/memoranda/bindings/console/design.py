"""The page that shows every component of the design, with invented memories."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.console.visit import Answer, TemplatePage, Visit

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

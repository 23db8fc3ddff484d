"""The marks that delimit our passage in a file of instructions for agents, and the removal of such passages."""

from __future__ import annotations

from typing import Final

BEGIN: Final = "<!-- memoranda: begin -->"
END: Final = "<!-- memoranda: end -->"
# The first line of a request to an agent, by which it is recognised in a transcript: some hosts store it as typed text.
REQUEST_MARK: Final = "[memoranda: request]"


def remove_passages(text: str) -> str:
    """Return a text without all of our passages; there may be several, because hosts repeat the files they read."""
    parts: list[str] = []
    at = 0
    while (begin := text.find(BEGIN, at)) >= 0 and (end := text.find(END, begin)) >= 0:
        parts.append(text[at:begin])
        at = end + len(END)
    return "".join((*parts, text[at:]))

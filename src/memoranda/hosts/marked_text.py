"""Texts for agents, such as AGENTS.md, in which our passage is between two markers."""

from __future__ import annotations

from memoranda.hosts.document import Entry, EntrySlot, detect_newline

# Comments, which Markdown does not render.
_BEGIN = "<!-- memoranda: begin -->"
_END = "<!-- memoranda: end -->"


class MarkedText:
    """Text with our passage between the markers as its only entry, `{"text": …}`."""

    def parse(self, text: str) -> dict[str, object]:
        begin, end = _find_passage(text)
        if begin is None:
            return {"rest": _filled_lines(text)}
        passage = text[begin + len(_BEGIN) : end - len(_END)].replace("\r\n", "\n").strip("\n")
        return {
            "rest": _filled_lines(text[:begin]) + _filled_lines(text[end:]),
            "memoranda": {"text": passage},
        }

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:  # noqa: ARG002  a text has one place for it
        newline = detect_newline(text)
        passage = "\n".join((_BEGIN, str(value["text"]), _END)).replace("\n", newline)
        begin, end = _find_passage(text)
        if begin is not None:
            return text[:begin] + passage + text[end:]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + passage + newline

    def remove_entry(self, text: str, slot: EntrySlot) -> str:  # noqa: ARG002
        begin, end = _find_passage(text)
        if begin is None:
            return text
        tail = text[end:].lstrip("\r\n")
        return text[:begin].rstrip("\r\n") + (detect_newline(text) * (2 if tail else 1)) + tail


def remove_passages(text: str) -> str:
    """Return a text without all of our passages; there may be several, because hosts repeat the files they read."""
    parts: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0 and (end := text.find(_END, begin)) >= 0:
        parts.append(text[at:begin])
        at = end + len(_END)
    return "".join((*parts, text[at:]))


def _find_passage(text: str) -> tuple[int | None, int]:
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    return (None, 0) if begin < 0 or end < 0 else (begin, end + len(_END))


def _filled_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]

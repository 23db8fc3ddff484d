"""A text for agents, such as AGENTS.md, in which one passage stands between two marks."""

from __future__ import annotations

from memoranda.hosts.document import Entry, Slot, newline_of

# Markdown shows neither.
_BEGIN = "<!-- memoranda: begin -->"
_END = "<!-- memoranda: end -->"


class MarkedText:
    """Text whose passage between the marks is the entry, `{"text": …}`; the rest is its owner's."""

    def parse(self, text: str) -> dict[str, object]:
        begin, end = _passage(text)
        if begin is None:
            return {"rest": _lines(text)}
        passage = text[begin + len(_BEGIN) : end - len(_END)].replace("\r\n", "\n").strip("\n")
        return {"rest": _lines(text[:begin]) + _lines(text[end:]), "memoranda": {"text": passage}}

    def put(self, text: str, slot: Slot, value: Entry) -> str:  # noqa: ARG002  a text has one place for it
        newline = newline_of(text)
        passage = "\n".join((_BEGIN, str(value["text"]), _END)).replace("\n", newline)
        begin, end = _passage(text)
        if begin is not None:
            return text[:begin] + passage + text[end:]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + passage + newline

    def take(self, text: str, slot: Slot) -> str:  # noqa: ARG002
        begin, end = _passage(text)
        if begin is None:
            return text
        rest = text[end:].lstrip("\r\n")
        return text[:begin].rstrip("\r\n") + (newline_of(text) * (2 if rest else 1)) + rest


def without_passage(text: str) -> str:
    """Return a text without our passages, however many there are: hosts repeat the files that they read."""
    parts: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0 and (end := text.find(_END, begin)) >= 0:
        parts.append(text[at:begin])
        at = end + len(_END)
    return "".join((*parts, text[at:]))


def _passage(text: str) -> tuple[int | None, int]:
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    return (None, 0) if begin < 0 or end < 0 else (begin, end + len(_END))


def _lines(text: str) -> list[str]:
    return [each for each in text.splitlines() if each.strip()]

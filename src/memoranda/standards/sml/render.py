"""SML as text: flat elements named after grain types, in one envelope.

    <context intent="helping alice">

      <belief subject="alice" confidence="0.92">prefers dark mode</belief>

    </context>

SML is not XML and has no escapes, so only tags mark the end of stored text. Stored text is untrusted: one element is
one line, and no text can spell a tag (docs/standards/cal.md, *forged tags*).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from memoranda.encoding.untrusted import neutralize_tags

TAGS: Final = (
    "belief",
    "goal",
    "event",
    "action",
    "observation",
    "reasoning",
    "state",
    "workflow",
    "consensus",
    "consent",
)
ENVELOPE: Final = "context"
_KNOWN: Final = frozenset(TAGS)
_INDENT: Final = "  "

# Characters that a reader may take for the end of a line, and tabs.
_BREAKS: Final = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
# Bits of the largest integer in decimal. Python writes at most 4300 digits, and nobody reads that many.
_MAX_INTEGER_BITS: Final = 1024


def format_line(text: str) -> str:
    """Return the text as one line: breaks and tabs as a space, nothing invisible, no tags."""
    # Line breaks are not printable, and most text has only printable characters.
    return neutralize_tags(text if text.isprintable() else _BREAKS.sub(" ", text))


def format_number(value: float) -> str:
    """Return a number in its shortest decimal form, such as `0.92`, `1.0` or `3`, without an exponent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MAX_INTEGER_BITS else hex(value)
    text = repr(value)
    if "e" not in text or not math.isfinite(value):
        return text
    text = f"{Decimal(text):f}"
    return text if "." in text else f"{text}.0"


def render_element(tag: str, attributes: Iterable[tuple[str, str | int | float]], text: str) -> str:
    """Return one grain as one line. Raises ValueError for an unknown tag."""
    # SML 1.0, rule 1: the tag is the grain type, one of ten; there are no others.
    if tag not in _KNOWN:
        raise ValueError(f"SML has no tag {tag!r}")
    parts = [f"<{tag}"]
    for name, value in attributes:
        attribute = _attribute_text(value) if isinstance(value, str) else format_number(value)
        parts.append(f' {name}="{attribute}"')
    return f"{''.join(parts)}>{format_line(text)}</{tag}>"


def render_context(intent: str | None, groups: Iterable[Sequence[str]]) -> str:
    """Return the elements in the envelope: groups separated by blank lines, no wrappers (rules 2 and 5)."""
    lines = [
        f"<{ENVELOPE}>" if intent is None else f'<{ENVELOPE} intent="{_attribute_text(intent)}">',
        "",
    ]
    for group in groups:
        if group:
            lines += [_INDENT + element_text for element_text in group]
            lines.append("")
    lines.append(f"</{ENVELOPE}>")
    return "\n".join(lines)


def render_bare(groups: Iterable[Sequence[str]]) -> str:
    """Return the elements without envelope and indentation."""
    return "\n\n".join("\n".join(group) for group in groups if group)


def render_line(element_text: str) -> str:
    """Return an element as a line of the envelope."""
    return f"{_INDENT}{element_text}\n"


def _attribute_text(text: str) -> str:
    """Return the text for an attribute: on one line, without double quotes."""
    text = format_line(text)
    return text.replace('"', "'") if '"' in text else text

"""SML as text: flat elements named after grain types, in one envelope.

    <context intent="helping alice">

      <belief subject="alice" confidence="0.92">prefers dark mode</belief>

    </context>

It is not XML and has no escapes, so nothing marks where stored text ends but the tags themselves. Whatever is stored
was written by somebody: one element is one line, and no text can spell a tag (docs/standards/cal.md, *forged tags*).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from memoranda.encoding.untrusted import harmless

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

# Whatever a reader may take for the end of a line, and tabs.
_BREAKS: Final = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
# Python writes no more than 4300 digits; nobody reads more than these.
_MAX_INTEGER_BITS: Final = 1024


def one_line(text: str) -> str:
    """The text as it may stand in a line: breaks and tabs as one space, nothing hidden, spelling no tag."""
    # No line break is printable, and most text has nothing else that is not.
    return harmless(text if text.isprintable() else _BREAKS.sub(" ", text))


def plain_number(value: float) -> str:
    """A number in its shortest decimal form: `0.92`, `1.0`, `3`; never with an exponent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MAX_INTEGER_BITS else hex(value)
    text = repr(value)
    if "e" not in text or not math.isfinite(value):
        return text
    text = f"{Decimal(text):f}"
    return text if "." in text else f"{text}.0"


def element(tag: str, attributes: Iterable[tuple[str, str | int | float]], text: str) -> str:
    """One grain as one line."""
    # SML 1.0, rule 1: the tag is the grain type, one of ten; there are no others.
    if tag not in _KNOWN:
        raise ValueError(f"SML has no tag {tag!r}")
    parts = [f"<{tag}"]
    for name, value in attributes:
        parts.append(f' {name}="{_quoted(value) if isinstance(value, str) else plain_number(value)}"')
    return f"{''.join(parts)}>{one_line(text)}</{tag}>"


def context(intent: str | None, groups: Iterable[Sequence[str]]) -> str:
    """Elements in the envelope: groups apart by blank lines, no wrappers (rules 2 and 5)."""
    lines = [f"<{ENVELOPE}>" if intent is None else f'<{ENVELOPE} intent="{_quoted(intent)}">', ""]
    for group in groups:
        if group:
            lines += [_INDENT + each for each in group]
            lines.append("")
    lines.append(f"</{ENVELOPE}>")
    return "\n".join(lines)


def bare(groups: Iterable[Sequence[str]]) -> str:
    """Elements alone: no envelope, no indentation."""
    return "\n\n".join("\n".join(group) for group in groups if group)


def line(element_text: str) -> str:
    """An element as it stands in the envelope, with its line break."""
    return f"{_INDENT}{element_text}\n"


def _quoted(text: str) -> str:
    text = one_line(text)
    return text.replace('"', "'") if '"' in text else text

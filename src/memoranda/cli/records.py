"""Output of a record for people: a line about it, its title, its text or a passage of it, and its id."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from memoranda.cli.show import line, one_line, when
from memoranda.standards.ump.excerpt import cut_excerpt, missing_title, read_passage


def record_block(
    record: Mapping[str, Any],
    *,
    head: str = "",
    short: Mapping[str, str] | None = None,
    passage: object = None,
    max_chars: int | None = None,
) -> None:
    """Print a record: a line about it, its title and text, its id. `short` maps ids to short ids for a terminal.

    Of a text longer than `max_chars`, the part around the passage is printed that a result names.
    """
    scope, lifecycle = record["scope"], record.get("lifecycle", {})
    about = [head, record["kind"], scope.get("project", ""), scope.get("visibility", "private")]
    if sys.stdout.isatty():
        about.append(when(record["time"]["created"]))
    if lifecycle.get("status", "active") != "active":
        about.append(lifecycle["status"])
    line("  ".join(one_line(part) for part in about if part), "bold")
    if title := missing_title(record):
        line(f"  {one_line(title)}", "bold")
    text, name = record["body"]["text"], record["id"]
    displayed_name = short[name] if short and sys.stdout.isatty() else name
    if max_chars is not None and len(text) > max_chars:
        text, omitted = cut_excerpt(text, max_chars, read_passage(passage))
        text = f"{text} ({omitted:,} more characters: memoranda get {displayed_name})"
    for text_line in text.split("\n"):
        line(f"  {text_line}")
    line(f"  {displayed_name}", "dim")

"""Named queries, read from `.sql` files once."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_SQL = Path(__file__).parent.with_name("sql")
_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@cache
def load_queries(database: str) -> dict[str, str]:
    """All named queries of one database, fragments put in."""
    text = (_SQL / database / "queries.sql").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)]
        # What is said before a query stands at the end of the one before it.
        found[heading[1]][heading[2]] = _COMMENT.sub("", body).strip()
    return {name: _filled(body, found["fragment"]) for name, body in found["name"].items()}


def _filled(body: str, fragments: dict[str, str]) -> str:
    while _PLACE.search(body):
        body = _PLACE.sub(lambda place: fragments[place[1]], body)
    return body


@cache
def load_migrations(database: str) -> tuple[tuple[int, str], ...]:
    """Numbered migrations in order: (number, SQL)."""
    found = sorted((_SQL / database / "migrations").glob("*.sql"))
    return tuple((int(path.name[:4]), path.read_text(encoding="utf-8")) for path in found)


@cache
def layout(database: str) -> bytes:
    """What tells the tables of one build from those of another: a digest of the migrations but for their comments."""
    statements = "\n".join(sql for _, sql in load_migrations(database))
    return hashlib.sha256(" ".join(_COMMENT.sub("", statements).split()).encode()).digest()[:16]

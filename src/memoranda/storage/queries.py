"""Named queries, read from `.sql` files once."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@cache
def load_queries(database: str) -> dict[str, str]:
    """All named queries of one database, fragments put in."""
    text = files(__package__).joinpath("sql", database, "queries.sql").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)]
        found[heading[1]][heading[2]] = body.strip()
    fragments = found["fragment"]
    return {name: _PLACE.sub(lambda m: fragments[m[1]], body) for name, body in found["name"].items()}


@cache
def load_migrations(database: str) -> tuple[tuple[int, str], ...]:
    """Numbered migrations in order: (number, SQL)."""
    folder = files(__package__).joinpath("sql", database, "migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names)

"""What differs between databases in the SQL that is put together here: pieces of text, and nothing else.

Named queries are whole in `sql/<database>/queries.sql`. A selection has too many shapes for that; it is put together in
`selection.py` from clauses that every database knows, and from these pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """`{0}` stands for a parameter or a name, `{1}` for a second.

    Parameters are written `:name` in every text; a connection gives them to its database in the way that has.
    """

    # A JSON array as the right side of IN: texts and numbers, and fingerprints in hexadecimal.
    values: str
    keys: str
    # The same as rows with a column `value`.
    rows: str
    # A JSON array of [expression, weight] as rows with those columns, for a common table expression.
    weighted: str
    # Reads a table by this index and no other.
    hint: str
    # Joins two tables, the left one outside.
    join: str
    # The word index, whose rows have the column `version`; and what holds an expression.
    words: str
    version: str
    holds: str
    # Expressions of words: one, all, any, and not.
    word: str
    all_of: str
    any_of: str
    but_not: str

    def both(self, expressions: Sequence[str]) -> str:
        return self.all_of.join(expressions)

    def either(self, expressions: Sequence[str]) -> str:
        return f"({self.any_of.join(expressions)})"


SQLITE: Final = Dialect(
    values="(SELECT value FROM json_each({0}))",
    keys="(SELECT unhex(value) FROM json_each({0}))",
    rows="json_each({0}) {1}",
    weighted="SELECT value ->> 0 AS expression, value ->> 1 AS weight FROM json_each({0})",
    # SQLite has no statistics here and would guess.
    hint="{0} INDEXED BY {1}",
    join="{0} CROSS JOIN {1}",
    words="search c",
    version="c.rowid",
    holds="c.search MATCH {0}",
    word='"{0}"',
    all_of=" AND ",
    any_of=" OR ",
    but_not=" NOT ",
)

"""What differs between databases in the SQL that is put together here: pieces of text, and nothing else.

Named queries are whole in `sql/<database>/queries.sql`. A selection has too many shapes for that; it is put together in
`selection.py` from clauses that every database knows, and from these pieces.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """`{0}` stands for a parameter or a name, `{1}` for a second.

    Parameters are written `:name` in every text; a connection gives them to its database in the way that has.
    """

    # A JSON array as the right side of IN: texts, numbers, and fingerprints in hexadecimal.
    values: str
    numbers: str
    keys: str
    # One of numbers as rows with a column `value`.
    rows: str
    # Reads a table by this index and no other.
    hint: str
    # Looks up rows of `state s`, `{1}`, for each of what is on the left.
    join: str


SQLITE: Final = Dialect(
    values="(SELECT value FROM json_each({0}))",
    numbers="(SELECT value FROM json_each({0}))",
    keys="(SELECT unhex(value) FROM json_each({0}))",
    rows="json_each({0}) {1}",
    # SQLite has no statistics here and would guess.
    hint="{0} INDEXED BY {1}",
    join="{0} CROSS JOIN state s ON {1}",
)

POSTGRES: Final = Dialect(
    values="(SELECT value FROM listed({0}))",
    numbers="(SELECT value FROM listed_numbers({0}))",
    keys="(SELECT decode(value, 'hex') FROM listed({0}))",
    rows="listed_numbers({0}) {1}",
    # It has statistics, and no hints.
    hint="{0}",
    join="{0} CROSS JOIN LATERAL (SELECT * FROM state s WHERE {1} OFFSET 0) s",
)

"""The encryption of names of spaces in rows that were written before the store began with it (`crypto/names.py`).

Some rows at a time are read, encrypted and written back, table by table in the order of the key. The row STARTED of
`meta` holds the progress, so that another process continues where this one stopped.

Encryption of names began with a later version, and nodes of the version before it cannot read such names. So the work
starts only after an upgrade has inserted the row STARTED, which it does when no older node is connected. Each round is
one transaction: rows and progress change together, so a crash repeats at most one round, and encrypting twice does no
harm because the ciphertext of a name is always the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

from memoranda.storage.crypto.names import STARTED, NameCipher
from memoranda.storage.engine.database import Connection, Database

# Rows of one transaction: this bounds how long it holds the writer.
_CHUNK: Final = 500
# For each table, the query for its rows and the one that changes a row.
_QUERIES: Final = (
    ("seal_state_rows", "seal_state"),
    ("seal_tombstone_rows", "seal_tombstone"),
    ("seal_audit_rows", "seal_audit"),
)
_DONE: Final = b"done"
# Every audit entry and tombstone with a project contains this.
_NAMES_PROJECT: Final = b'"project":'


class _Position(NamedTuple):
    """The last row that was looked at: the index of its table, its tenant, and its number there."""

    table: int = 0
    tenant_id: int = -1
    number: int = -1


class NameSealing:
    """The work left to encrypt the names of spaces in one database."""

    def __init__(self, database: Database, names: NameCipher) -> None:
        self._database, self._names = database, names
        self._is_done = False

    def advance(self) -> bool:
        """Encrypt the names in some rows; return True if there are more.

        Called by a server's background thread until it returns False. A round holds the writer for _CHUNK rows.
        """
        if self._is_done:
            return False
        with self._database.open_snapshot() as connection:
            row = connection.query_one("meta_get", {"name": STARTED})
            if row is None:
                return False  # A node of an earlier version may be connected.
            progress = bytes(row[0])
            if progress == _DONE:
                self._is_done = True
                return False
            position = _Position(*orjson.loads(progress)) if progress else _Position()
            select, update = _QUERIES[position.table]
            params = {
                "tenant_id": position.tenant_id,
                "after": position.number,
                "limit": _CHUNK,
            }
            rows = connection.query(select, params)
        changes = [
            {"tenant_id": tenant_id, "number": number, "sealed": ciphertext}
            for tenant_id, number, value in rows
            if (ciphertext := self._seal(tenant_id, value)) != value
        ]
        if len(rows) == _CHUNK:
            next_position = orjson.dumps((position.table, *rows[-1][:2]))
        elif position.table + 1 < len(_QUERIES):
            next_position = orjson.dumps(tuple(_Position(position.table + 1)))
        else:
            next_position = _DONE

        def work(connection: Connection) -> None:
            if changes:
                connection.execute_many(update, changes)
            connection.execute("meta_put", {"name": STARTED, "value": next_position})

        self._database.write(work)
        return next_position != _DONE

    def _seal(self, tenant_id: int, value: str | bytes) -> str | bytes:
        """Return the stored value with its names encrypted; the same value if it has none."""
        if isinstance(value, str):
            return self._names.seal_space(tenant_id, value)
        return self._names.seal(tenant_id, value) if _NAMES_PROJECT in value else value

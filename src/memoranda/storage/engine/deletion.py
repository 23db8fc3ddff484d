"""The deletion of a tenant: all of its rows, credentials and data keys.

The first transaction takes the tenant's name away, and its credentials. From then on nobody can reach it, and a writer
under the same name begins with an empty tenant. Then its data keys are destroyed, and its rows are deleted in small
transactions, so that other writers get their turn. After a crash, `finish_deletions` continues.

The row of the tenant itself remains, without a name and with counters of zero: its number must never be given to
another tenant, because processes cache by number. `HIDDEN` begins the names of such rows, and no owner's name.

To add a table with rows of tenants: add it to `DELETED_TABLES`, to `moving.TABLES`, and write a query
`tenant_drop_<table>` for each database. `tests/storage` compares the lists with the schema.
"""

from __future__ import annotations

import os
import secrets
from functools import partial
from typing import Final, NamedTuple

from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import (
    SYSTEM_SLOT,
    ChainEnd,
    Connection,
    Database,
    without_nul,
)
from memoranda.storage.engine.unit import ERASURE_PENDING

# A control character, which no owner's name may have; the queries have it, too.
HIDDEN: Final = "\x1f"
_DELETING: Final = f"{HIDDEN}deleting:"
_DELETED: Final = f"{HIDDEN}deleted:"
# Rows that one transaction deletes at most from a table, give or take those with the same key.
_CHUNK: Final = 500
# Tables with rows of tenants. Names come first, because others may find memories by them.
DELETED_TABLES: Final = (
    "alias",
    "state",
    "facet",
    "measure",
    "item",
    "run_event",
    "run_write",
    "run",
    "commitment",
    "use",
    "feedback",
    "change",
    "audit",
    "segment_part",
    "segment",
    "unindexed",
    "vector",
    "tombstone",
    "version",
)


class _HiddenTenant(NamedTuple):
    tenant_id: int
    unit_seq: int
    append_seq: int


class TenantDeletion:
    """Deletes tenants from one database, and their data keys from its key ring."""

    def __init__(self, database: Database, cipher: Cipher) -> None:
        self._database, self._cipher = database, cipher

    def delete(self, tenant: str) -> bool:
        """Delete a tenant; return False if there is none of this name and it has no credentials.

        May take minutes for a large tenant; the name is free as soon as the first transaction is committed. Protection
        such as legal holds is the caller's duty (`service/core`).
        """
        is_present = self._database.write(lambda connection: self._hide(connection, tenant))
        self._cipher.destroy(tenant, "")
        self.finish()
        return is_present

    def finish(self) -> None:
        """Delete the rows of all tenants whose deletion was begun."""
        while (tenant := self._next()) is not None:
            with self._database.open_snapshot() as connection:
                rows = connection.query("tenant_data_keys", {"tenant_id": tenant.tenant_id})
            self._cipher.destroy_keys([key_id for (key_id,) in rows])
            for table in DELETED_TABLES:
                while self._delete_chunk(table, tenant.tenant_id):
                    pass
            self._database.write(partial(_clear, tenant))

    def _hide(self, connection: Connection, tenant: str) -> bool:
        """Take the name of a tenant away, and delete its credentials.

        The row gets a random hidden name. The end of the credentials' chain is counted again, because credentials were
        deleted.
        """
        name = without_nul(tenant)
        is_present = (
            connection.query_one(
                "tenant_hide", {"name": name, "hidden": _DELETING + secrets.token_hex(8)}
            )
            is not None
        )
        connection.memo.pop(tenant, None)
        connection.execute("tenant_drop_grants", {"name": name})
        keys = connection.query("tenant_drop_keys", {"name": name})
        connection.execute("tenant_drop_revocations", {"name": name})
        (count,) = connection.query_one("meta_count", {}) or (0,)
        connection.ends[SYSTEM_SLOT] = ChainEnd(count, 0, 0, None)
        return is_present or bool(keys)

    def _next(self) -> _HiddenTenant | None:
        with self._database.open_snapshot() as connection:
            row = connection.query_one("tenant_hidden", {"prefix": f"{_DELETING}%"})
        return None if row is None else _HiddenTenant(*row)

    def _delete_chunk(self, table: str, tenant_id: int) -> bool:
        """Delete some rows of a table, and return True if there were any."""
        params = {"tenant_id": tenant_id, "limit": _CHUNK}
        return self._database.write(
            lambda connection: bool(connection.query(f"tenant_drop_{table}", params))
        )


def _clear(tenant: _HiddenTenant, connection: Connection) -> None:
    """Set the counters of a deleted tenant to zero. The number of its units grows, as of any tenant that changes."""
    units = tenant.unit_seq + 1
    params = {
        "tenant_id": tenant.tenant_id,
        "name": _DELETED + secrets.token_hex(8),
        "unit_seq": units,
    }
    connection.execute("tenant_clear", params)
    connection.ends[tenant.tenant_id] = ChainEnd(units, tenant.append_seq, 0, None)
    # Part of the same transaction, so that a crash before the scrub does not lose the duty to do it.
    connection.execute("meta_put", {"name": ERASURE_PENDING, "value": os.urandom(8)})

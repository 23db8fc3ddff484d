"""The reads and writes that belong to the installation, not to a tenant: credentials, expiry, owners of names.

Every change of a credential is counted. The count is stored outside the database as well (sqlite/heads.py), so that a
database that lost its last changes is noticed.

These rows belong to no tenant, and PostgreSQL's row security hides them from transactions of a tenant; so every method
opens its own snapshot or transaction without one. Secrets are never stored: a key is found by its id and checked by its
hash. Times that the retention clock needs (`clock`) are stored here, too, because a clock that jumps affects all
owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from memoranda.model.instant import Instant
from memoranda.storage.engine.contract import (
    NO_KEY_LIMITS,
    ApiKey,
    KeyLimits,
    ProgramGrant,
    TenantUsage,
)
from memoranda.storage.engine.database import (
    SYSTEM_SLOT,
    ChainEnd,
    Connection,
    Database,
    Row,
    without_nul,
)
from memoranda.storage.engine.snapshot import as_json

T = TypeVar("T")

# The row of `meta` with the evidence of the retention clock.
_CLOCK: Final = "clock"


class SqlSystem:
    """`System` over any database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(self, query: str, /, **params: object) -> list[Row]:
        with self._database.open_snapshot() as connection:
            return connection.query(query, params)

    def _write(self, change: Callable[[Connection], T]) -> T:
        """Run a change of credentials in a transaction and count it."""

        def work(connection: Connection) -> T:
            result = change(connection)
            (count,) = connection.query_one("meta_count", {}) or (0,)
            connection.ends[SYSTEM_SLOT] = ChainEnd(count, 0, 0, None)
            return result

        return self._database.write(work)

    def measure_size(self) -> int:
        ((size,),) = self._rows("store_bytes")
        return int(size)

    def list_tenants(self) -> list[str]:
        return [name for (name,) in self._rows("tenant_list")]

    def measure_tenants(self) -> list[TenantUsage]:
        return [
            TenantUsage(tenant=name, memories=live, versions=versions, bytes=size)
            for name, live, versions, size in self._rows("tenant_usage")
        ]

    def count_holds(self, tenant: str) -> int:
        ((count,),) = self._rows("tenant_holds", name=tenant)
        return int(count)

    def has_key(self, tenant: str, now: Instant) -> bool:
        return bool(self._rows("tenant_has_key", name=tenant, now_ms=now))

    def find_tenants_with_name(self, standard: str, name: str) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_naming", standard=standard, name=name)]

    def find_tenants_with_public_name(self, standard: str, name: str) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_showing", standard=standard, name=name)]

    def list_tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        return [
            tenant for (tenant,) in self._rows("tenants_with_items", kinds=as_json(list(kinds)))
        ]

    def list_tenants_with_commitments(self, now: Instant) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_with_commitments", now_ms=now)]

    def find_next_due(self) -> Instant | None:
        ((due_at,),) = self._rows("next_due")
        return None if due_at is None else Instant(due_at)

    def list_expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        return [
            (tenant, version_id)
            for tenant, version_id in self._rows("expired", now_ms=now, limit=limit)
        ]

    def load_clock_evidence(self) -> bytes | None:
        rows = self._rows("meta_get", name=_CLOCK)
        return bytes(rows[0][0]) if rows else None

    def store_clock_evidence(self, evidence: bytes) -> None:
        params = {"name": _CLOCK, "value": evidence}
        self._database.write(lambda connection: connection.execute("meta_put", params))

    def find_next_expiry(self) -> Instant | None:
        ((expires,),) = self._rows("next_expiry")
        return None if expires is None else Instant(expires)

    def add_key(self, key: ApiKey) -> None:
        self._write(lambda connection: connection.execute("api_key_add", _key_params(key)))

    def load_key(self, key_id: str) -> ApiKey | None:
        rows = self._rows("api_key_get", key_id=key_id)
        return _api_key(rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        return [_api_key(row) for row in self._rows("api_key_list")]

    def revoke_key(self, key_id: str, now: Instant) -> bool:
        params = {"key_id": key_id, "revoked_ms": now}
        return (
            self._write(lambda connection: connection.query_one("api_key_revoke", params))
            is not None
        )

    def change_key(self, key_id: str, expires: Instant | None, limits: KeyLimits) -> bool:
        params = {"key_id": key_id, "expires_ms": expires, "limits": _encode_limits(limits)}
        return (
            self._write(lambda connection: connection.query_one("api_key_change", params))
            is not None
        )

    def replace_key(self, key: ApiKey, *, ends: Instant) -> None:
        """Add a key that replaces another, which ends at `ends`.

        In one transaction the new key is added, the old one gets an end, and the grants of programs move to the new
        key, so that nobody has to authorise them again.
        """

        def replace(connection: Connection) -> None:
            connection.execute("api_key_add", _key_params(key))
            connection.execute("api_key_end", {"key_id": key.replaces, "expires_ms": ends})
            connection.execute("grants_move", {"key_id": key.replaces, "new_key_id": key.key_id})

        self._write(replace)

    def record_key_uses(self, uses: Mapping[str, Instant]) -> None:
        def record(connection: Connection) -> None:
            for key_id, instant in uses.items():
                connection.execute("api_key_used", {"key_id": key_id, "used_ms": instant})

        # Not counted as a change of credentials: a use that is lost harms nobody.
        self._database.write(record)

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None:
        params = {"issuer": issuer, "jti": jti, "revoked_ms": now}
        self._write(lambda connection: connection.execute("token_revoke", params))

    def is_token_revoked(self, issuer: str, jti: str) -> bool:
        return bool(self._rows("token_revoked", issuer=issuer, jti=jti))

    def add_grant(self, grant: ProgramGrant, *, now: Instant, limit: int) -> None:
        params = {
            "grant_id": grant.grant_id,
            "key_id": grant.key_id,
            "verbs": ",".join(grant.verbs),
            "expires_ms": grant.expires,
        }

        def add(connection: Connection) -> None:
            connection.execute(
                "grants_trim", {"now_ms": now, "key_id": grant.key_id, "limit": limit - 1}
            )
            connection.execute("grant_add", params)

        self._write(add)

    def load_grant(self, grant_id: str, now: Instant) -> ProgramGrant | None:
        rows = self._rows("grant_get", grant_id=grant_id, now_ms=now)
        return _program_grant(grant_id, rows[0]) if rows else None

    def use_grant(
        self, grant_id: str, generation: int, *, now: Instant, expires: Instant
    ) -> ProgramGrant | None:
        """Advance the generation of a grant and return the grant; None if the generation is not the current one.

        A refresh token carries the generation of its grant. If it is not the current one, the token was used before,
        which means that it was copied: the grant is deleted, and both holders must authorise again.
        """
        params = {"grant_id": grant_id, "turn": generation, "now_ms": now, "expires_ms": expires}

        def use(connection: Connection) -> Row | None:
            row = connection.query_one("grant_turn", params)
            if row is None:
                connection.execute("grant_drop", {"grant_id": grant_id})
            return row

        row = self._write(use)
        return None if row is None else _program_grant(grant_id, row)

    def extend_grant(self, grant_id: str, expires: Instant) -> None:
        params = {"grant_id": grant_id, "expires_ms": expires}
        self._write(lambda connection: connection.execute("grant_extend", params))

    def list_grants(self, now: Instant) -> list[ProgramGrant]:
        return [_program_grant(row[0], row[1:]) for row in self._rows("grant_list", now_ms=now)]

    def delete_grant(self, grant_id: str) -> None:
        self._write(lambda connection: connection.execute("grant_drop", {"grant_id": grant_id}))


def _program_grant(grant_id: str, row: Row) -> ProgramGrant:
    key_id, verbs, expires = row
    return ProgramGrant(
        grant_id=grant_id, key_id=key_id, verbs=tuple(verbs.split(",")), expires=Instant(expires)
    )


def last_recorded(database: Database) -> Instant:
    """Return when the last version of all tenants was recorded, by the clock of then; 0 if there is none."""
    with database.open_snapshot() as connection:
        ((recorded,),) = connection.query("version_last_recorded", {})
    return Instant(recorded)


def _key_params(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "key_hash": key.key_hash,
        "name": key.name,
        "tenant": without_nul(key.tenant),
        "scopes": ",".join(key.scopes),
        "created_ms": key.created,
        "expires_ms": key.expires,
        "replaces": key.replaces,
        "limits": _encode_limits(key.limits),
    }


def _encode_limits(limits: KeyLimits) -> bytes | None:
    """Return limits as stored; None for no limits."""
    return None if limits == NO_KEY_LIMITS else msgspec.json.encode(limits)


def _instant(value: int | None) -> Instant | None:
    return None if value is None else Instant(value)


def _api_key(row: Row) -> ApiKey:
    key_id, key_hash, name, tenant, scopes, created, revoked, expires, used_ms, replaces, limits = (
        row
    )
    return ApiKey(
        key_id=key_id,
        key_hash=key_hash,
        name=name,
        tenant=tenant,
        scopes=tuple(filter(None, scopes.split(","))),
        created=Instant(created),
        revoked=_instant(revoked),
        expires=_instant(expires),
        last_use=_instant(used_ms),
        replaces=replaces,
        limits=msgspec.json.decode(limits, type=KeyLimits) if limits else NO_KEY_LIMITS,
    )

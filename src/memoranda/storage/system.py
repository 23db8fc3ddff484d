"""What belongs to the installation and to no tenant: credentials, expiry, and whose a name is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoranda.model.instant import Instant
from memoranda.storage.database import Database, Row
from memoranda.storage.engine import ApiKey
from memoranda.storage.snapshot import as_json


class SqlSystem:
    """Credentials, expiry, and whose a name is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(self, query: str, /, **params: Any) -> list[Row]:
        with self._database.reading() as connection:
            return connection.rows(query, params)

    def tenants(self) -> list[str]:
        return [name for (name,) in self._rows("tenant_list")]

    def has_key(self, tenant: str) -> bool:
        return bool(self._rows("tenant_has_key", name=tenant))

    def tenants_naming(self, standard: str, name: str) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_naming", standard=standard, name=name)]

    def tenants_showing(self, standard: str, name: str) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_showing", standard=standard, name=name)]

    def tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_with_items", kinds=as_json(list(kinds)))]

    def tenants_with_commitments(self, now: Instant) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_with_commitments", now_ms=now)]

    def next_due(self) -> Instant | None:
        ((found,),) = self._rows("next_due")
        return None if found is None else Instant(found)

    def expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        return [(tenant, version_id) for tenant, version_id in self._rows("expired", now_ms=now, limit=limit)]

    def next_expiry(self) -> Instant | None:
        ((found,),) = self._rows("next_expiry")
        return None if found is None else Instant(found)

    def add_key(self, key: ApiKey) -> None:
        params = {
            "key_id": key.key_id,
            "key_hash": key.key_hash,
            "name": key.name,
            "tenant": key.tenant,
            "scopes": ",".join(key.scopes),
            "created_ms": key.created,
        }
        self._database.write(lambda connection: connection.run("api_key_add", params))

    def key(self, key_id: str) -> ApiKey | None:
        found = self._rows("api_key_get", key_id=key_id)
        return _api_key(found[0]) if found else None

    def all_keys(self) -> list[ApiKey]:
        return [_api_key(row) for row in self._rows("api_key_list")]

    def revoke_key(self, key_id: str, now: Instant) -> bool:
        params = {"key_id": key_id, "revoked_ms": now}
        return self._database.write(lambda connection: connection.row("api_key_revoke", params)) is not None

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None:
        params = {"issuer": issuer, "jti": jti, "revoked_ms": now}
        self._database.write(lambda connection: connection.run("token_revoke", params))

    def is_token_revoked(self, issuer: str, jti: str) -> bool:
        return bool(self._rows("token_revoked", issuer=issuer, jti=jti))


def _api_key(row: Row) -> ApiKey:
    key_id, key_hash, name, tenant, scopes, created, revoked = row
    return ApiKey(
        key_id=key_id,
        key_hash=key_hash,
        name=name,
        tenant=tenant,
        scopes=tuple(filter(None, scopes.split(","))),
        created=Instant(created),
        revoked=None if revoked is None else Instant(revoked),
    )

"""What a store holds that is no tenant's: credentials, expiry, and finding whose a name is. Part of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from memoranda.model.instant import Instant


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as stored: the secret itself is not."""

    key_id: str
    key_hash: bytes
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created: Instant
    revoked: Instant | None = None


class ProgramGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a person let a program do, with which API key."""

    grant_id: str
    key_id: str
    verbs: tuple[str, ...]
    expires: Instant


class System(Protocol):
    """What belongs to the installation, not to a tenant."""

    def size_bytes(self) -> int:
        """How large the database is."""
        ...

    def tenants(self) -> list[str]: ...

    def has_key(self, tenant: str) -> bool:
        """Whether an owner has an API key that is not revoked."""
        ...

    def tenants_naming(self, standard: str, name: str) -> list[str]:
        """Which tenants hold this name. Only for the operator."""
        ...

    def tenants_showing(self, standard: str, name: str) -> list[str]:
        """Which tenants have, or once had, something public of this name."""
        ...

    def tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        """Which tenants keep notes of these kinds. For background work only."""
        ...

    def tenants_with_commitments(self, now: Instant) -> list[str]:
        """Which tenants have commitments that are due, or wait for something. For background work only."""
        ...

    def next_due(self) -> Instant | None:
        """When the next commitment of anybody is due."""
        ...

    def expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        """(tenant, version_id) of what is past its retention and not yet forgotten."""
        ...

    def next_expiry(self) -> Instant | None: ...

    def add_key(self, key: ApiKey) -> None: ...

    def key(self, key_id: str) -> ApiKey | None: ...

    def all_keys(self) -> list[ApiKey]: ...

    def revoke_key(self, key_id: str, now: Instant) -> bool: ...

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None: ...

    def is_token_revoked(self, issuer: str, jti: str) -> bool: ...

    def add_grant(self, grant: ProgramGrant, *, now: Instant, limit: int) -> None:
        """Keep a new grant; of the same key at most `limit`, those used last."""
        ...

    def grant(self, grant_id: str, now: Instant) -> ProgramGrant | None: ...

    def take_turn(
        self, grant_id: str, turn: int, *, now: Instant, expires: Instant
    ) -> ProgramGrant | None:
        """The grant, if this is its turn; then the next is. Whoever comes with another turn ends it."""
        ...

    def extend_grant(self, grant_id: str, expires: Instant) -> None:
        """Let it last longer."""
        ...

    def grants(self, now: Instant) -> list[ProgramGrant]:
        """All that have not ended."""
        ...

    def drop_grant(self, grant_id: str) -> None: ...

"""Access control: a `Gate` turns credentials into an `Access`, and the `Access` answers what its caller may do.

The tenant comes from the credential, never from the payload. A request for something that the caller may not see is
answered "not found", so that a refusal reveals nothing. An action that the caller may not take is answered "forbidden".

    credential            reaches           sees                                   redacted
    local, API key        its own tenant    everything                             no
    token by the owner    that owner        everything its scope allows            unless scope.owner is the owner
    … with another `aud`  that owner        shared and public                      yes
    token by the operator every owner       everything its scope allows            unless scope.owner is the owner
    a person's account    the owner of the rule  as an API key, at the console alone (people.py)  no
    … of a program        as the key with which somebody let it in, at the MCP endpoint alone (sign_in.py)
    any                   any other owner   public                                 yes

Only the owner may erase for good (UMP §3.6): the person at the machine, an API key with the scope `erase`, or a token
with the verb `write` that the owner signed, for himself (`aud` is the owner) or for nobody else and without limits. The
operator's token for all owners has one verb for legal requests, the erasure of a person (`erase_user`), which is
recorded with its reason.

A request goes through three checks. `Verb` (verbs.py) checks the verbs that the credential grants. The verb's function
checks the tenant and the scope with the methods of `Access`. Reads are narrowed by `restrict_selection` (retrieve.py),
or one by one with `can_see` (lookup.py).

To add a kind of credential: write a method like `_from_key` that returns an `Access` with as few rights as possible,
call it from `authenticate`, and add its row to the table above. To add a scope: add it to SCOPES, decide if a token can
grant it (TOKEN_VERBS), and name it in the verbs that need it.

Fields of `Access` are facts about the caller, never about a request. A method named `require_…` or `refuse_…` raises;
the others answer. Both are cheap and touch no store, so they may be called as often as needed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import Literal

import msgspec

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound, Unauthorized
from memoranda.model.instant import DAY_MS, Instant, format_instant, parse_instant
from memoranda.model.memory import VISIBILITIES, Visibility
from memoranda.service.core.key_use import ExpiringKey, KeyUses, find_expiring
from memoranda.standards.ump import token as ump_token
from memoranda.storage.engine.contract import NO_KEY_LIMITS, ApiKey, KeyLimits, System

# The scopes of API keys. The first four are the verbs of UMP.
SCOPES: Mapping[str, str] = {
    "read": "recall, get, history, subscribe, rehydrate, audit",
    "write": "remember, revise, forget, import",
    "derive": "feedback, and producing new memories from these",
    "export": "take whole collections out",
    "activate": "install what an agent proposes to learn",
    "erase": "erase for good: hard forget, grains, a person",
}
ALL_VERBS = frozenset(SCOPES)
# The verbs of UMP, which a capability token can grant.
TOKEN_VERBS = ALL_VERBS - {"activate", "erase"}
KEY_PREFIX = "mk_"
# Prefix of the ids of tokens for OAuth programs, and the one path where these tokens are valid.
GRANT_PREFIX = "program:"
GRANT_AUDIENCE = "/mcp"
NAME_CHARS_LIMIT = 200
# Seconds for which a key that was looked up is not read again: a key revoked by another process is good for as long.
# Keys in that cache; a full one is emptied.
KEY_CACHE_SECONDS = 0.05
KEY_CACHE_LIMIT = 1_024
# Largest limit of a key, in requests per minute or writes per day: each write of a day has a row.
KEY_LIMIT = 100_000
# Milliseconds for which a key may remain valid after it was replaced.
OVERLAP_LIMIT_MS = 90 * DAY_MS
# Reason why revoking a key may lock a person out: it is the key in use, or the last one with all scopes.
LockOut = Literal["in use", "last"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one caller. `Gate` creates it; every verb takes it.

    `tenant` is what the credential reaches, `default_tenant` the owner that a request is about if it names none. They
    differ for the operator, who reaches every tenant and is an owner, too. `limits` has the restrictions of a
    capability token by name (owner, project, agent, visibility); a memory must meet all of them.
    """

    credential: str
    actor: str
    actor_kind: str = "user"
    # The tenant it reaches; None means every tenant, which only the operator can grant.
    tenant: str | None
    verbs: frozenset[str] = ALL_VERBS
    # The restrictions of a token: owner, project, agent, visibility.
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    # True if somebody other than the owner uses a grant of the owner.
    is_peer: bool = False
    # True if the owner was admitted by open registration alone.
    is_stranger: bool = False
    default_tenant: str
    # The only path where it is valid; None means every path.
    audience: str | None = None
    # The API key behind it, and the memories that this key may write per day; 0 means no limit.
    key_id: str = ""
    writes_per_day: int = 0
    # Project of new memories whose draft names none; an agent is started for one project.
    default_project: str | None = None
    # Agent of new memories whose draft names none; empty if the caller is not known as an agent.
    default_agent: str = ""

    def require(self, verb: str) -> None:
        """Raise ForbiddenScope unless the credential grants the verb."""
        if verb not in self.verbs:
            raise ForbiddenScope(f"this credential does not grant '{verb}'", scope=verb)

    def require_audience(self, path: str) -> None:
        """Raise Unauthorized if the token is for another resource (RFC 8707)."""
        if self.audience not in (None, path):
            raise Unauthorized(f"audience: this token is for {self.audience} alone")

    def require_whole_owner(self) -> None:
        """Raise ForbiddenScope if the credential reaches only a part of its owner's memory.

        Called for data that belongs to an owner and to no project, such as the logs of runs: no part of it can be
        granted.
        """
        if self.is_peer or self.is_narrowed:
            raise ForbiddenScope("this credential is limited to a part of its owner's memory")

    def refuse_token(self) -> None:
        """Raise ForbiddenScope if a token was presented: it may erase (UMP §3.6), but it administers nothing."""
        if self.is_token:
            raise ForbiddenScope("a token cannot do this; use an API key")

    def may_erase(self, tenant: str) -> bool:
        """Return True if the caller is the owner of a tenant, acting with the right to erase for good."""
        return not self.is_peer and self.tenant == tenant and "erase" in self.verbs

    def require_erase(self, tenant: str) -> None:
        """Raise ForbiddenScope unless the caller may erase: a right to write does not include it (UMP §3.6)."""
        if not self.may_erase(tenant):
            raise ForbiddenScope(
                "only the owner may erase; this credential does not grant 'erase'", scope="erase"
            )

    def tenant_for(self, owner: str | None) -> str:
        """Return the tenant that a request is about: the owner it names, else the caller's own."""
        return owner or self.default_tenant

    def reaches(self, tenant: str) -> bool:
        """Return True if the caller may see more of a tenant than its public memories."""
        return self.tenant is None or self.tenant == tenant

    def require_reach(self, tenant: str) -> None:
        """Raise ForbiddenScope if the caller sees no more than public memories of a tenant."""
        if not self.reaches(tenant):
            raise ForbiddenScope("this credential belongs to another owner")

    def require_scope(self, scope: Mapping[str, str | None]) -> None:
        """Raise ForbiddenScope unless a scope states every restriction of the token exactly (UMP §5.2: verbs × scope ×
        time).

        A request must name the restriction itself. Filling it in silently would let a client believe that it searched
        everything; `narrow_scope` does that where it is wanted.
        """
        for name, value in self.limits.items():
            if scope.get(name) != value:
                raise ForbiddenScope(f"this token is limited to another {name}")

    def narrow_scope(self, scope: Mapping[str, str]) -> dict[str, str]:
        """Return a scope with the restrictions of the token added where the scope leaves them open."""
        return {**{name: value for name, value in self.limits.items() if name != "owner"}, **scope}

    def allows_scope(self, scope: Mapping[str, str | None]) -> bool:
        """Return True if a scope meets all restrictions of the token."""
        return all(scope.get(name) == value for name, value in self.limits.items())

    def visibilities(self, tenant: str) -> tuple[Visibility, ...]:
        """Return the visibilities whose memories the caller may see in a tenant."""
        if not self.reaches(tenant):
            return ("public",)
        return ("shared", "public") if self.is_peer else VISIBILITIES

    def sees_unredacted(self, tenant: str) -> bool:
        """Return True if the caller is on the owner's side of the visibility boundary (UMP §2.7).

        Redacted fields are hidden from everybody but the owner's own credentials.
        """
        if self.is_peer or not self.reaches(tenant):
            return False
        return self.tenant == tenant and (not self.is_token or self.limits.get("owner") == tenant)

    def sees_whole_space(self, tenant: str) -> bool:
        """Return True if nothing in a space of a tenant is hidden from the caller: a consolidation run reads, and may
        replace, all of it.
        """
        return self.sees_unredacted(tenant) and not set(self.limits) - {"owner", "project"}

    @property
    def is_narrowed(self) -> bool:
        """True if the credential is limited to a part of an owner's memory."""
        return any(name != "owner" for name in self.limits)

    @property
    def is_operator(self) -> bool:
        """True if this is the operator's credential for all owners."""
        return self.tenant is None and not self.is_peer

    @property
    def is_token(self) -> bool:
        """True if the caller presented a capability token."""
        return self.credential.startswith("token:")


class Gate:
    """The checkpoint that turns credentials into `Access`, and that creates and revokes keys and tokens.

    One instance serves a process. Its caches live for fractions of a second, so a key that another process revokes is
    refused almost at once; a key revoked here is refused immediately.
    """

    def __init__(
        self,
        system: System,
        operator: SigningKey,
        clock: Callable[[], Instant],
        version: str,
        *,
        open_registration: bool = False,
        allowed_owners: Collection[str] = (),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember the settings. `clock` returns dates and may be set back; `seconds` returns a monotonic time."""
        self._is_open = open_registration
        self._allowed_owners = frozenset(allowed_owners)
        self._system = system
        self._operator = operator
        self._clock = clock
        self._version = version
        # A token's signature is verified once; its times and its revocation are checked on every request.
        self._claims = lru_cache(maxsize=1024)(ump_token.verify_token)
        self._owner_fingerprint = lru_cache(maxsize=1024)(
            partial(_fingerprint, operator.derive(b"access log"))
        )
        self._seconds = seconds
        self.key_uses = KeyUses(system, seconds)
        # Valid keys by id, each with the monotonic second until which it is not read again.
        self._key_cache: dict[str, tuple[ApiKey, float]] = {}

    def local(self, owner: str | None = None, *, actor_kind: str = "user") -> Access:
        """Return the access of the person at this machine, who can read the files anyway."""
        tenant = owner or self._operator.did
        return Access(
            credential="local",
            actor=tenant,
            actor_kind=actor_kind,
            tenant=tenant,
            default_tenant=tenant,
        )

    def fingerprint_owner(self, owner: str) -> str:
        """Return 16 characters that stand for an owner in logs; only this installation can tell whom they mean."""
        return self._owner_fingerprint(owner)

    def authenticate(self, bearer: str, *, is_request: bool = False) -> Access:
        """Return the access that a bearer credential gives. Raises Unauthorized.

        `is_request` counts a request with an API key. Raises RateLimited if there are more than the key allows.

        The messages say which kind of credential was refused and why, but not if an owner or key exists. `is_request`
        is False where a credential is only inspected.
        """
        if bearer.startswith("umpcap."):
            return self._from_token(bearer, is_request=is_request)
        if bearer.startswith(KEY_PREFIX):
            return self._from_key(bearer, is_request=is_request)
        raise Unauthorized("the credential is neither an API key nor a capability token")

    def _from_token(self, text: str, *, is_request: bool = False) -> Access:
        claims = self._claims(text)
        ump_token.check_time(claims, now=self._clock())
        if self._system.is_token_revoked(claims.iss, claims.jti):
            raise Unauthorized("revoked: this token was revoked")
        if claims.iss == self._operator.did and claims.jti.startswith(GRANT_PREFIX):
            return self._from_grant(claims, is_request=is_request)
        owner = claims.scope.get("owner")
        # UMP §5.2: tokens are signed by the owner. The operator, who runs the store, may sign for anyone.
        by_operator = claims.iss == self._operator.did
        if not by_operator and owner not in (None, claims.iss):
            raise Unauthorized(
                "issuer: a token must be signed by the owner it speaks for, or by the operator"
            )
        tenant = owner if by_operator else claims.iss
        # A fresh signing key belongs to no tenant: it needs the operator's permission, or open registration.
        is_stranger = not (
            by_operator
            or claims.iss in self._allowed_owners
            or self._system.has_key(claims.iss, self._clock())
        )
        if is_stranger and not self._is_open:
            raise Unauthorized("owner: not known here; this server is closed to new owners")
        # UMP §3.6: erasing is the owner's. A token for himself may erase; so may one for no one else in particular, if
        # it reaches everything that he owns.
        is_for_owner = claims.aud == tenant or (
            claims.aud is None and not claims.scope.keys() - {"owner"}
        )
        is_own = claims.iss == tenant and is_for_owner and "write" in claims.verbs
        return Access(
            credential=f"token:{claims.jti}",
            actor=claims.aud or claims.iss,
            actor_kind="agent",
            tenant=tenant,
            verbs=frozenset((*claims.verbs, "erase") if is_own else claims.verbs),
            limits=dict(claims.scope),
            is_peer=claims.aud is not None and claims.aud not in (tenant, claims.iss),
            is_stranger=is_stranger,
            default_tenant=tenant or self._operator.did,
        )

    def _from_grant(self, claims: ump_token.Claims, *, is_request: bool) -> Access:
        """Return the access of an OAuth program: never more than the API key with which it was let in has now."""
        key = self._find_key_of_grant(claims.jti)
        if is_request:
            self.key_uses.admit(key, self._clock())
        return Access(
            credential=f"token:{claims.jti}",
            actor=f"key:{key.name}",
            actor_kind="agent",
            tenant=key.tenant,
            verbs=frozenset(claims.verbs) & frozenset(key.scopes),
            limits={"owner": key.tenant},
            audience=GRANT_AUDIENCE,
            default_tenant=key.tenant,
            key_id=key.key_id,
            writes_per_day=key.limits.writes_per_day,
        )

    def _find_key_of_grant(self, jti: str) -> ApiKey:
        grant = self._system.load_grant(jti.removeprefix(GRANT_PREFIX), self._clock())
        key = None if grant is None else self._find_key_by_id(grant.key_id)
        if key is None or not key.is_open(self._clock()):
            raise Unauthorized("revoked: this program has no access any more")
        return key

    def owner_of_grant(self, jti: str) -> str:
        """Return the tenant whose memory a program was let into. Raises Unauthorized."""
        return self._find_key_of_grant(jti).tenant

    def _from_key(self, text: str, *, is_request: bool) -> Access:
        key_id, secret = key_parts(text)
        key = self._find_key_by_id(key_id) if key_id.isalnum() and len(key_id) <= 32 else None
        # Compare even if the key is unknown, so that both cases take the same time.
        expected = key.key_hash if key else bytes(32)
        matches = hmac.compare_digest(_hash(secret), expected)
        if key is None or not matches:
            raise Unauthorized("unknown API key")
        if key.revoked is not None:
            raise Unauthorized("this API key was revoked")
        now = self._clock()
        if not key.is_open(now):
            raise Unauthorized("this API key has expired; ask the operator for a new one")
        if is_request:
            self.key_uses.admit(key, now)
        return _access_of(key, f"key:{key.key_id}", "agent")

    def for_person(self, key_id: str, credential: str) -> Access:
        """Return the access of a person signed in with a key: what the key may do now. Raises Unauthorized."""
        key = self._find_key_by_id(key_id)
        if key is None or not key.is_open(self._clock()):
            raise Unauthorized("the key that this session was opened with was revoked or expired")
        self.key_uses.note(key, self._clock())
        return _access_of(key, credential, "user")

    def _find_key_by_id(self, key_id: str) -> ApiKey | None:
        """Return the key of an id, from the cache if it was read moments ago, as one client may ask many times a
        second.
        """
        # Read before the look-up, which may wait.
        now = self._seconds()
        cached = self._key_cache.get(key_id)
        if cached is not None and now < cached[1]:
            return cached[0]
        if len(self._key_cache) >= KEY_CACHE_LIMIT:
            self._key_cache.clear()
        key = self._system.load_key(key_id)
        if key is not None:
            self._key_cache[key_id] = key, now + KEY_CACHE_SECONDS
        return key

    def add_key(
        self,
        name: str,
        *,
        tenant: str,
        scopes: tuple[str, ...],
        expires: Instant | None = None,
        limits: KeyLimits = NO_KEY_LIMITS,
    ) -> str:
        """Create an API key and return its text, which is never shown again. Raises InvalidInput.

        `scopes` are kept in the given order without duplicates. The text has the form `mk_<id>_<secret>`; only a hash
        of the secret is stored.
        """
        unknown = sorted(set(scopes) - ALL_VERBS)
        if unknown:
            raise InvalidInput(f"unknown scope {unknown[0]!r}; there are {', '.join(SCOPES)}")
        if not scopes:
            raise InvalidInput(f"a key needs at least one scope of {', '.join(SCOPES)}")
        if not name.strip() or len(name) > NAME_CHARS_LIMIT or not name.isprintable():
            raise InvalidInput(
                f"a key needs a printable name of at most {NAME_CHARS_LIMIT} characters"
            )
        if not tenant:
            raise InvalidInput("a key needs a tenant")
        self._check_terms(expires, limits)
        key_id, secret = _new_key_parts()
        self._system.add_key(
            ApiKey(
                key_id=key_id,
                key_hash=_hash(secret),
                name=name,
                tenant=tenant,
                scopes=tuple(dict.fromkeys(scopes)),
                created=self._clock(),
                expires=expires,
                limits=limits,
            )
        )
        return f"{KEY_PREFIX}{key_id}_{secret}"

    def _check_terms(self, expires: Instant | None, limits: KeyLimits) -> None:
        """Raise InvalidInput for an expiry in the past, or a limit out of range."""
        if expires is not None and expires <= self._clock():
            raise InvalidInput("expires: a key must expire in the future")
        for name in ("requests_per_minute", "writes_per_day"):
            if not 0 <= getattr(limits, name) <= KEY_LIMIT:
                raise InvalidInput(f"{name} must be a whole number from 0 to {KEY_LIMIT}")

    def rotate_key(
        self, id_or_name: str, *, overlap_ms: int, expires: Instant | None = None
    ) -> tuple[ApiKey, str]:
        """Create a key in place of another, and return the earlier key and the new key's text.

        The new one has its name, owner, scopes and limits, and is valid for as long as the earlier one was meant to be,
        unless `expires` is given. The earlier one remains valid for `overlap_ms`, in which programs get the new one.
        Raises InvalidInput.
        """
        predecessor, now = self.find_key(id_or_name), self._clock()
        if not 0 <= overlap_ms <= OVERLAP_LIMIT_MS:
            raise InvalidInput(f"an overlap has at most {OVERLAP_LIMIT_MS // DAY_MS} days")
        if expires is None and predecessor.expires is not None:
            expires = Instant(now + predecessor.expires - predecessor.created)
        self._check_terms(expires, predecessor.limits)
        key_id, secret = _new_key_parts()
        ends = Instant(min(now + overlap_ms, predecessor.expires or now + overlap_ms))
        self._system.replace_key(
            msgspec.structs.replace(
                predecessor,
                key_id=key_id,
                key_hash=_hash(secret),
                created=now,
                expires=expires,
                last_use=None,
                replaces=predecessor.key_id,
            ),
            ends=ends,
        )
        self._key_cache.clear()
        ended_key = msgspec.structs.replace(predecessor, expires=ends)
        return ended_key, f"{KEY_PREFIX}{key_id}_{secret}"

    def change_key(self, id_or_name: str, *, expires: Instant | None, limits: KeyLimits) -> ApiKey:
        """Set the expiry and the limits of an open key, and return it. Raises NotFound and InvalidInput."""
        key = self.find_key(id_or_name)
        if expires != key.expires:
            self._check_terms(expires, limits)
        self._check_terms(None, limits)
        self._system.change_key(key.key_id, expires, limits)
        self._key_cache.clear()
        return msgspec.structs.replace(key, expires=expires, limits=limits)

    def expiring_keys(self, tenant: str | None = None) -> list[ExpiringKey]:
        """Return the keys of an owner, or of all, that expire soon or expired recently, and have no successor."""
        keys = self.keys() if tenant is None else self.keys_of(tenant)
        return find_expiring(keys, self._clock())

    def forget_cached_keys(self) -> None:
        """Read every key again: some were deleted."""
        self._key_cache.clear()

    def keys(self) -> list[ApiKey]:
        """Return all keys, revoked ones included."""
        return self._system.list_keys()

    def keys_of(self, tenant: str) -> list[ApiKey]:
        """Return the keys of one owner, revoked ones included."""
        return [key for key in self._system.list_keys() if key.tenant == tenant]

    def find_key(self, id_or_name: str) -> ApiKey:
        """Return the open key of this id, or the only open one of this name. Raises NotFound and InvalidInput."""
        keys = [
            key
            for key in self._system.list_keys()
            if key.is_open(self._clock()) and id_or_name in (key.key_id, key.name)
        ]
        # While a key is being replaced, its name means the new one.
        replaced = {key.replaces for key in keys}
        if id_or_name not in (key.key_id for key in keys):
            keys = [key for key in keys if key.key_id not in replaced]
        if not keys:
            raise NotFound(f"no open API key has the id or name {id_or_name!r}")
        if len(keys) > 1:
            raise InvalidInput(f"{len(keys)} open keys are named {id_or_name!r}; give the id")
        return keys[0]

    def lock_out_reason(self, key: ApiKey, *, caller_key_id: str | None) -> LockOut | None:
        """Return why revoking a key may lock its owner out, if it may. `caller_key_id` is the id of the caller's own
        key.

        None means that revoking it is harmless. Only keys with all scopes can open the administration again, so the
        last of them is protected.
        """
        if key.key_id == caller_key_id:
            return "in use"
        full = [
            other.key_id
            for other in self.keys_of(key.tenant)
            if other.is_open(self._clock()) and _is_full(other)
        ]
        return "last" if full == [key.key_id] else None

    def revoke_key(
        self, id_or_name: str, *, caller_key_id: str | None = None, is_confirmed: bool = False
    ) -> ApiKey:
        """Revoke the open key of this id, or the only one of this name.

        A key that locks its owner out is revoked only if the caller confirmed it. Raises Conflict.
        """
        key = self.find_key(id_or_name)
        reason = None if is_confirmed else self.lock_out_reason(key, caller_key_id=caller_key_id)
        if reason is not None:
            raise Conflict(f"the key {key.name} was not revoked: {_LOCK_OUT_MESSAGES[reason]}")
        self._system.revoke_key(key.key_id, self._clock())
        self._key_cache.clear()
        return key

    def mint_token(
        self,
        *,
        verbs: tuple[str, ...],
        scope: Mapping[str, str],
        ttl_ms: int,
        audience: str | None = None,
        jti: str | None = None,
    ) -> str:
        """Return a capability token signed by the operator. Raises InvalidInput.

        `ttl_ms` is the time to live in milliseconds from now. `audience` is the DID of somebody else who may use the
        token; without it, the bearer acts as the owner. `jti` is the id by which the token can be revoked.
        """
        unknown = sorted(set(verbs) - TOKEN_VERBS)
        if unknown or not verbs:
            raise InvalidInput(
                f"verbs must be some of {', '.join(name for name in SCOPES if name in TOKEN_VERBS)}"
            )
        if ttl_ms <= 0:
            raise InvalidInput("a token needs a positive time to live")
        now = self._clock()
        claims = ump_token.Claims(
            v=f"ump-cap/{self._version}",
            iss=self._operator.did,
            aud=audience,
            verbs=tuple(dict.fromkeys(verbs)),
            scope=dict(scope),
            nbf=None,
            exp=format_instant(now + ttl_ms),
            jti=jti or base32_encode(secrets.token_bytes(16)),
        )
        return ump_token.mint(claims, self._operator)

    def inspect_token(self, text: str) -> dict[str, object]:
        """Return a token's claims, and whether it would be accepted now. Raises Unauthorized if its signature is
        invalid.
        """
        claims = self._claims(text)
        try:
            self._from_token(text)
            verdict = "valid"
        except Unauthorized as error:
            verdict = error.message
        return {
            "claims": ump_token.claims_to_json(claims),
            "verdict": verdict,
            "expires_in_seconds": (parse_instant(claims.exp) - self._clock()) // 1000,
        }

    def revoke_token(self, token_or_jti: str, *, issuer: str | None = None) -> str:
        """Revoke a token and return its jti. A bare jti is taken for the operator's token unless an issuer is given.

        Revoking is remembered for ever, because a token may be valid for years; revoking an unknown jti is allowed.
        """
        if token_or_jti.startswith("umpcap."):
            claims = self._claims(token_or_jti)
            issuer, jti = claims.iss, claims.jti
        else:
            issuer, jti = issuer or self._operator.did, token_or_jti
        self._system.revoke_token(issuer, jti, self._clock())
        return jti


_LOCK_OUT_MESSAGES: Mapping[LockOut, str] = {
    "in use": "it is the key in use here, and programs that use it would be refused",
    "last": "it is the last key of its owner that may do everything",
}


def _new_key_parts() -> tuple[str, str]:
    """Return a random id and a random secret."""
    return base32_encode(secrets.token_bytes(8)), base32_encode(secrets.token_bytes(32))


def key_parts(text: str) -> tuple[str, str]:
    """Return the id and the secret of an API key as it was printed."""
    key_id, _, secret = text.removeprefix(KEY_PREFIX).partition("_")
    return key_id, secret


def _is_full(key: ApiKey) -> bool:
    """Return True if a key may do everything."""
    return ALL_VERBS.issubset(key.scopes)


def _access_of(key: ApiKey, credential: str, actor_kind: str) -> Access:
    """Return the access that an API key gives."""
    return Access(
        credential=credential,
        actor=f"key:{key.name}",
        actor_kind=actor_kind,
        tenant=key.tenant,
        verbs=frozenset(key.scopes),
        default_tenant=key.tenant,
        key_id=key.key_id,
        writes_per_day=key.limits.writes_per_day,
    )


def _fingerprint(key: bytes, owner: str) -> str:
    return hashlib.blake2b(
        owner.encode("utf-8", "surrogatepass"), digest_size=8, key=key
    ).hexdigest()


def _hash(secret: str) -> bytes:
    # The secret has 256 random bits, so a plain hash cannot be searched. A slow hash would only cost time.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()

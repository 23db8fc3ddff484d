"""Namespaces `<owner-hash>:<scope>` (section 4), and their mapping to the spaces of a tenant.

Under the tenant's own owner hash, scope `default` is the unnamed space. Every other scope is the space of that name;
characters that a scope must not contain are percent-encoded. A namespace of another owner, which the tenant's
credential claims, is the space named by the complete namespace. The mapping is a bijection.

Section 2 asks only for a string, and section 4 is a convention. A name without a colon, or with other characters in its
owner, such as `default` or `acme/eng team:legal`, is a scope of the tenant's own (`adapt_namespace`). The memory keeps
the spelling as metadata.

The mapping between namespaces and (tenant, space) must be reversible, or exports would move memories. Foreign spellings
are adapted to the convention and kept beside the memory.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import is_unicode
from memoranda.errors import InvalidInput

# Characters of a hash, a user name or a DID without colons; four SHA-256 hashes in hexadecimal fit.
MAX_OWNER_CHARS: Final = 256
# Characters of the longest UMP project name, 1024, each percent-encoded with at most six characters.
MAX_SCOPE_CHARS: Final = 6144
DEFAULT_SCOPE: Final = "default"
# Characters of a name outside of the convention. Encoded, it fits into a scope.
MAX_NAME_CHARS: Final = 512

# Characters, 100 bits: nobody can find a second tenant with the same hash, and it fits into a line of a log.
_HASH_CHARS: Final = 20
_OWNER_HASH: Final = re.compile(rf"o-[a-z2-7]{{{_HASH_CHARS}}}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHITESPACE: Final = re.compile(r"\s")
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/:%]")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-F]{2})")


class Namespace(NamedTuple):
    """The owner and the scope of memories. Without an owner, `scope` is a name outside of the convention."""

    owner: str
    scope: str

    def __str__(self) -> str:
        return f"{self.owner}:{self.scope}" if self.owner else self.scope

    def to_json(self) -> str:
        """Return the namespace as text."""
        return str(self)


def parse_namespace(text: object) -> Namespace:
    """Parse a namespace. Raises InvalidInput with the reason."""
    if not isinstance(text, str):
        raise InvalidInput("namespace must be a string such as user-x123ab:personal")
    return _parse_cached(text)


# Entries. Memories read together are in few namespaces.
@lru_cache(maxsize=1024)
def _parse_cached(text: str) -> Namespace:
    """Parse a namespace. Raises InvalidInput with the reason."""
    owner, colon, scope = text.partition(":")
    reason = _find_problem(owner, colon, scope)
    if reason:
        raise InvalidInput(f"namespace {reason}")
    return Namespace(owner, scope)


def read_namespace(text: object) -> Namespace:
    """Return any namespace of section 2; outside of the convention, one without an owner. Raises InvalidInput."""
    if not isinstance(text, str):
        raise InvalidInput("namespace must be a string such as user-x123ab:personal")
    try:
        return _parse_cached(text)
    except InvalidInput:
        owner, colon, scope = text.partition(":")
        # Section 4 forbids slashes and colons in a scope; it only advises what an owner is.
        has_bad_scope = bool(colon) and bool(_find_problem("o", colon, scope))
        if has_bad_scope or not owner.strip() or len(text) > MAX_NAME_CHARS:
            raise
        if _CONTROL.search(text) or not is_unicode(text):
            raise
        return Namespace("", text)


def adapt_namespace(namespace: Namespace, tenant: str) -> Namespace:
    """Return a namespace of the convention: for a name outside of it, the tenant's own scope of that name."""
    if namespace.owner:
        return namespace
    is_default = namespace.scope == DEFAULT_SCOPE
    scope = DEFAULT_SCOPE if is_default else _encode_scope(namespace.scope)
    return Namespace(owner_hash(tenant), scope)


def _find_problem(owner: str, colon: str, scope: str) -> str:
    """Return the reason why a namespace is invalid, or an empty string."""
    if not colon:
        return "must have the form <owner-hash>:<scope>, with one colon"
    if not owner:
        return "must name an owner before the colon"
    if not scope:
        return "must name a scope after the colon"
    if len(owner) > MAX_OWNER_CHARS:
        return f"must have an owner of at most {MAX_OWNER_CHARS} characters"
    if len(scope) > MAX_SCOPE_CHARS:
        return f"must have a scope of at most {MAX_SCOPE_CHARS} characters"
    # Section 4: slashes and colons are not permitted in scope; in an owner they would make a path ambiguous.
    if ":" in scope:
        return "must have no colon in its scope"
    for name, part in (("owner", owner), ("scope", scope)):
        if "/" in part:
            return f"must have no slash in its {name}"
        if _CONTROL.search(part):
            return f"must have no control character in its {name}"
        if not is_unicode(part):
            return f"must have no lone surrogate in its {name}"
    if _WHITESPACE.search(owner):
        return "must have no whitespace in its owner"
    return ""


# Entries. A process serves few tenants, and every memory needs the hash.
@lru_cache(maxsize=1024)
def owner_hash(tenant: str) -> str:
    """Return the owner hash of a tenant: `o-` and 20 base32 characters of SHA-256("memoranda owner" NUL tenant).

    Section 4: implementations SHOULD use a hash so namespaces don't leak identifiers in logs.
    """
    digest = hashlib.sha256(
        b"memoranda owner\x00" + tenant.encode("utf-8", "surrogatepass")
    ).digest()
    return "o-" + base32_encode(digest)[:_HASH_CHARS]


def is_foreign_namespace(namespace: Namespace, tenant: str) -> bool:
    """Return True if the owner is the hash of another tenant. This does not reveal if that tenant exists."""
    return (
        namespace.owner != owner_hash(tenant) and _OWNER_HASH.fullmatch(namespace.owner) is not None
    )


def is_foreign_space(space: str, tenant: str) -> bool:
    """Return True if a space is named by the owner hash of another tenant, in any standard."""
    owner, colon, _ = space.partition(":")
    return bool(colon) and owner != owner_hash(tenant) and _OWNER_HASH.fullmatch(owner) is not None


def space_of(namespace: Namespace, tenant: str) -> str:
    """Return the space of a namespace. The caller checks access to a foreign owner."""
    own_hash = owner_hash(tenant)
    if namespace.owner == own_hash:
        space = _decode_scope(namespace.scope, own_hash)
        if space is not None:
            return space
    return str(namespace)


def namespace_of(space: str, tenant: str) -> str:
    """Return the namespace of a space.

    If the name of a space is too long for a scope, the scope is a digest of it, which cannot be mapped back.
    """
    own_hash = owner_hash(tenant)
    if _is_full_namespace(space, own_hash):
        return space
    scope = _encode_scope(space)
    if len(scope) > MAX_SCOPE_CHARS:
        # No encoding begins like this, so it cannot collide with another space.
        scope = "%~" + base32_encode(hashlib.sha256(space.encode("utf-8")).digest())
    return f"{own_hash}:{scope}"


def _is_full_namespace(space: str, own_hash: str) -> bool:
    """Return True if the space has the name of a complete namespace that no other space maps to."""
    if ":" not in space:
        return False
    owner, colon, scope = space.partition(":")
    if _find_problem(owner, colon, scope):
        return False
    return owner != own_hash or _decode_scope(scope, own_hash) is None


def _encode_scope(space: str) -> str:
    """Encode the name of a space as a scope, with percent-encoding."""
    if space == "":
        return DEFAULT_SCOPE
    if space == DEFAULT_SCOPE:
        return "%64efault"
    return _ESCAPED.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8")), space
    )


def _decode_scope(scope: str, own_hash: str) -> str | None:
    """Return the space of a scope under the tenant's own hash; None if `namespace_of` never returns this scope."""
    if scope == DEFAULT_SCOPE:
        return ""
    if "%" not in scope:
        return scope
    if _STRAY_PERCENT.search(scope):
        return None
    try:
        space = unquote_to_bytes(scope).decode("utf-8")
    except UnicodeDecodeError:
        return None
    is_canonical = _encode_scope(space) == scope and not _is_full_namespace(space, own_hash)
    return space if is_canonical else None

"""Namespaces `<owner-hash>:<scope>` (section 4), and how they are the spaces of a tenant.

Under the tenant's own owner hash, scope `default` is the space without a name, and every other scope is the space of
that name; what a scope may not hold is percent-encoded. A namespace of another owner, which the tenant's credential
claims, is the space that is called like the whole namespace. Both directions together are a bijection.
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

# A hash, a user name or a DID without its colons; 256 characters are four SHA-256 hashes in hex.
MAX_OWNER_CHARS: Final = 256
# The longest name that UMP gives a project, 1024 characters, each of them percent-encoded (at most six characters).
MAX_SCOPE_CHARS: Final = 6144
DEFAULT_SCOPE: Final = "default"

# 100 bits: nobody finds a second tenant with the same hash, and it still fits into a line of a log.
_HASH_CHARS: Final = 20
_OWNER_HASH: Final = re.compile(rf"o-[a-z2-7]{{{_HASH_CHARS}}}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHITESPACE: Final = re.compile(r"\s")
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/:%]")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-F]{2})")


class Namespace(NamedTuple):
    """Whose memories, and which of them."""

    owner: str
    scope: str

    def __str__(self) -> str:
        return f"{self.owner}:{self.scope}"

    def to_json(self) -> str:
        """As a request says it."""
        return str(self)


def parse_namespace(text: object) -> Namespace:
    """Read a namespace. Raises InvalidInput that says what is wrong with it."""
    if not isinstance(text, str):
        raise InvalidInput("namespace must be a string such as user-x123ab:personal")
    return _parsed(text)


# Many memories of few namespaces are read together.
@lru_cache(maxsize=1024)
def _parsed(text: str) -> Namespace:
    owner, colon, scope = text.partition(":")
    reason = _problem(owner, colon, scope)
    if reason:
        raise InvalidInput(f"namespace {reason}")
    return Namespace(owner, scope)


def _problem(owner: str, colon: str, scope: str) -> str:
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


# A process serves few tenants, and every memory asks.
@lru_cache(maxsize=1024)
def owner_hash(tenant: str) -> str:
    """The owner hash of a tenant: `o-` and 20 base32 characters of SHA-256("memoranda owner" NUL tenant).

    Section 4: implementations SHOULD use a hash so namespaces don't leak identifiers in logs.
    """
    digest = hashlib.sha256(b"memoranda owner\x00" + tenant.encode("utf-8", "surrogatepass")).digest()
    return "o-" + base32_encode(digest)[:_HASH_CHARS]


def is_of_another(namespace: Namespace, tenant: str) -> bool:
    """Whether a namespace is under the owner hash of another tenant. Which of these exist is not told by that."""
    return namespace.owner != owner_hash(tenant) and _OWNER_HASH.fullmatch(namespace.owner) is not None


def is_space_of_another(space: str, tenant: str) -> bool:
    """The same of a space, whichever standard names it."""
    owner, colon, _ = space.partition(":")
    return bool(colon) and owner != owner_hash(tenant) and _OWNER_HASH.fullmatch(owner) is not None


def space_of(namespace: Namespace, tenant: str) -> str:
    """The space of the tenant that a namespace names. Whether the tenant may use a foreign owner is not asked here."""
    own = owner_hash(tenant)
    if namespace.owner == own:
        space = _decoded(namespace.scope, own)
        if space is not None:
            return space
    return str(namespace)


def namespace_of(space: str, tenant: str) -> str:
    """The namespace of a space of the tenant.

    A space whose name is too long for a scope is shown under a digest of its name; that alone leads nowhere back.
    """
    own = owner_hash(tenant)
    if _stands_for_itself(space, own):
        return space
    scope = _encoded(space)
    if len(scope) > MAX_SCOPE_CHARS:
        # No encoding begins like that, so it can be taken for no other space.
        scope = "%~" + base32_encode(hashlib.sha256(space.encode("utf-8")).digest())
    return f"{own}:{scope}"


def _stands_for_itself(space: str, own: str) -> bool:
    """Whether the space is called like a whole namespace that no other space has."""
    if ":" not in space:
        return False
    owner, colon, scope = space.partition(":")
    if _problem(owner, colon, scope):
        return False
    return owner != own or _decoded(scope, own) is None


def _encoded(space: str) -> str:
    if space == "":
        return DEFAULT_SCOPE
    if space == DEFAULT_SCOPE:
        return "%64efault"
    return _ESCAPED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8")), space)


def _decoded(scope: str, own: str) -> str | None:
    """The space that is written so under the tenant's own hash; None for a spelling that `namespace_of` never gives."""
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
    is_spelt_so = _encoded(space) == scope and not _stands_for_itself(space, own)
    return space if is_spelt_so else None

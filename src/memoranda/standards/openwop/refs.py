"""memoryRef: the form of refs, and their mapping to the spaces of a tenant.

A ref has 1 to 256 characters of any script. It has no control character (such as NUL), no line or paragraph separator,
no backslash, no lone surrogate, and no `.` or `..` between slashes. We never use a ref as a path, but a ref that
resembles a traversal is not worth a lookup. `agent-1`, `mem://customer-support/agent-1` and
`workspaces/tenant-A/agents/agent-1/memories` are refs.

The credential determines the tenant whose memory a ref reaches: the same ref in two tenants is two memories (CTI-1).
The only form that names a tenant is `memoranda://<mark>/<ref>`; `resolve_ref` returns None for the mark of another
tenant.

Ref `default` is the unnamed space; every other ref is the space of the same name. Characters that a ref must not
contain are percent-encoded, and so is a percent sign that would look like such an escape; other percent signs are
literal. Well-formed refs map one-to-one to spaces. If the name of a space is too long for a ref, the ref is a digest of
it, which cannot be mapped back.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import is_unicode
from memoranda.errors import InvalidInput

# Characters; agent-ref.schema.json#memoryRef.
MAX_REF_CHARS: Final = 256
DEFAULT_REF: Final = "default"
SCHEME: Final = "memoranda://"

# Characters, 100 bits: nobody can find a second tenant with the same mark, and it fits into a line of a log.
_MARK_CHARS: Final = 20
_DIGEST_PREFIX: Final = "%~"
_ESCAPE: Final = r"%(?:25|5C|2E|64|6D|C2%[89][0-9A-F]|E2%80%A[89])"
_ESCAPES: Final = re.compile(f"(?:{_ESCAPE})+")
_ENCODED: Final = re.compile(rf"(?={_ESCAPE})%|\A%(?=~)|[\\\x80-\x9f\u2028\u2029]")
_DOTS: Final = re.compile(r"(?:\A|(?<=/))\.(?=\.?(?:/|\Z))")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\]|\A%~|(?:\A|/)\.{1,2}(?:/|\Z)")


def is_ref(text: object) -> bool:
    """Return True if a ref is well-formed. For others the adapter returns `[]` or `null`, never an error (CTI-1)."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_REF_CHARS:
        return False
    if _FORBIDDEN.search(text) or text.startswith(SCHEME) or not is_unicode(text):
        return False
    # An unnecessary escape would be a second spelling of the same space.
    return "%" not in text or ref_of(_decode_ref(text)) == text


def space_of(ref: str) -> str:
    """Return the space of a well-formed ref. Raises InvalidInput for any other."""
    if not is_ref(ref):
        raise InvalidInput("not a memoryRef of this host")
    return _decode_ref(ref)


def ref_of(space: str) -> str:
    """Return the ref of a space of a tenant."""
    if space == "":
        return DEFAULT_REF
    if not is_unicode(space) or _CONTROL.search(space):
        return _digest_ref(space)
    ref = _ENCODED.sub(_percent_encode, space)
    ref = _DOTS.sub("%2E", ref)
    if ref == DEFAULT_REF or ref.startswith(SCHEME):
        ref = f"%{ord(ref[0]):02X}{ref[1:]}"
    return ref if len(ref) <= MAX_REF_CHARS else _digest_ref(space)


def mark_of(tenant: str) -> str:
    """Return the mark of a tenant in a ref: `t-` and 20 base32 characters of SHA-256("memoranda tenant" NUL tenant)."""
    digest = hashlib.sha256(
        b"memoranda tenant\x00" + tenant.encode("utf-8", "surrogatepass")
    ).digest()
    return "t-" + base32_encode(digest)[:_MARK_CHARS]


def qualify_ref(ref: str, tenant: str) -> str:
    """Return the ref with its tenant's mark: it resolves for that tenant only."""
    return f"{SCHEME}{mark_of(tenant)}/{ref}"


def resolve_ref(text: object, tenant: str) -> str | None:
    """Return the space of this tenant that a ref names; None if it is malformed or names another tenant.

    CTI-1: each adapter gates by inspecting the ref's shape, not by trusting the store.
    """
    if isinstance(text, str) and text.startswith(SCHEME):
        mark, _, text = text.removeprefix(SCHEME).partition("/")
        if mark != mark_of(tenant):
            return None
    return _decode_ref(text) if isinstance(text, str) and is_ref(text) else None


def _decode_ref(ref: str) -> str:
    """Return the space of a ref without its escapes."""
    if ref == DEFAULT_REF:
        return ""
    if "%" not in ref:
        return ref
    return _ESCAPES.sub(_percent_decode, ref)


def _percent_decode(match: re.Match[str]) -> str:
    """Return the characters of the matched escapes."""
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8")


def _percent_encode(match: re.Match[str]) -> str:
    """Return the matched characters percent-encoded."""
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8"))


def _digest_ref(space: str) -> str:
    """Return the digest that stands for a name too long for a ref."""
    # No encoding begins like this, so it cannot collide with another space.
    return _DIGEST_PREFIX + base32_encode(
        hashlib.sha256(space.encode("utf-8", "surrogatepass")).digest()
    )

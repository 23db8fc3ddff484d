"""memoryRef: which refs are well-formed, and how they are the spaces of a tenant.

A ref is 1 to 256 characters of any script. It has no control character (NUL among them), no line or paragraph
separator, no backslash, no lone surrogate, and no `.` or `..` between slashes; a ref is never a path of ours, but what
looks like a traversal is not worth a lookup. `agent-1`, `mem://customer-support/agent-1` and
`workspaces/tenant-A/agents/agent-1/memories` are refs.

Whose memory a ref reaches is decided by the credential: the same ref in two tenants is two memories (CTI-1). The one
form that names a tenant is `memoranda://<mark>/<ref>`; `resolve` answers None for the mark of anybody else.

Ref `default` is the space without a name; every other ref is the space of the same name. What a ref may not hold is
percent-encoded in it, and so is a percent sign that would otherwise be read as such an escape; other percent signs
stand for themselves. Well-formed refs and the spaces they name are a bijection. A space whose name is too long for a
ref is called by a digest of its name, which leads nowhere back (`names` tells whether it is a given space).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import is_unicode
from memoranda.errors import InvalidInput

# agent-ref.schema.json#memoryRef.
MAX_REF_CHARS: Final = 256
DEFAULT_REF: Final = "default"
SCHEME: Final = "memoranda://"

# 100 bits: nobody finds a second tenant with the same mark, and it still fits into a line of a log.
_MARK_CHARS: Final = 20
_DIGEST_PREFIX: Final = "%~"
_ESCAPE: Final = r"%(?:25|5C|2E|64|6D|C2%[89][0-9A-F]|E2%80%A[89])"
_ESCAPES: Final = re.compile(f"(?:{_ESCAPE})+")
_UNBEARABLE: Final = re.compile(rf"(?={_ESCAPE})%|\A%(?=~)|[\\\x80-\x9f\u2028\u2029]")
_DOTS: Final = re.compile(r"(?:\A|(?<=/))\.(?=\.?(?:/|\Z))")
_NEVER: Final = re.compile(r"[\x00-\x1f\x7f]")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\]|\A%~|(?:\A|/)\.{1,2}(?:/|\Z)")


def is_ref(text: object) -> bool:
    """Whether a ref is well-formed. If it is not, the adapter answers `[]` or `null`, never an error (CTI-1)."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_REF_CHARS:
        return False
    if _FORBIDDEN.search(text) or text.startswith(SCHEME) or not is_unicode(text):
        return False
    # An escape of what needs none would be a second spelling of the same space.
    return "%" not in text or ref_of(_decoded(text)) == text


def space_of(ref: str) -> str:
    """The space that a well-formed ref names. Raises InvalidInput for any other."""
    if not is_ref(ref):
        raise InvalidInput("not a memoryRef of this host")
    return _decoded(ref)


def ref_of(space: str) -> str:
    """The ref of a space of a tenant."""
    if space == "":
        return DEFAULT_REF
    if not is_unicode(space) or _NEVER.search(space):
        return _digest(space)
    ref = _UNBEARABLE.sub(_encoded, space)
    ref = _DOTS.sub("%2E", ref)
    if ref == DEFAULT_REF or ref.startswith(SCHEME):
        ref = f"%{ord(ref[0]):02X}{ref[1:]}"
    return ref if len(ref) <= MAX_REF_CHARS else _digest(space)


def mark_of(tenant: str) -> str:
    """What stands for a tenant in a ref: `t-` and 20 base32 characters of SHA-256("memoranda tenant" NUL tenant)."""
    digest = hashlib.sha256(b"memoranda tenant\x00" + tenant.encode("utf-8", "surrogatepass")).digest()
    return "t-" + base32_encode(digest)[:_MARK_CHARS]


def qualified(ref: str, tenant: str) -> str:
    """The ref with its tenant's mark: it resolves there and nowhere else."""
    return f"{SCHEME}{mark_of(tenant)}/{ref}"


def resolve(text: object, tenant: str) -> str | None:
    """The space of this tenant that a ref names; None for one that is malformed or has another tenant's shape.

    CTI-1: each adapter gates by inspecting the ref's shape, not by trusting the store.
    """
    if isinstance(text, str) and text.startswith(SCHEME):
        mark, _, text = text.removeprefix(SCHEME).partition("/")
        if mark != mark_of(tenant):
            return None
    return _decoded(text) if isinstance(text, str) and is_ref(text) else None


def _decoded(ref: str) -> str:
    if ref == DEFAULT_REF:
        return ""
    if "%" not in ref:
        return ref
    return _ESCAPES.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8"), ref)


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8"))


def _digest(space: str) -> str:
    # No encoding begins like that, so it can be taken for no other space.
    return _DIGEST_PREFIX + base32_encode(hashlib.sha256(space.encode("utf-8", "surrogatepass")).digest())

"""Content addresses and the error code of a refused change: small, for callers that need OMS without its codec."""

from __future__ import annotations

import re
from typing import Final

from memoranda.errors import GrainError

# Characters of an address: SHA-256 in hexadecimal.
ADDRESS_CHARS: Final = 64
# Some writers put this prefix in front of an address.
ADDRESS_PREFIX: Final = "sha256:"
# An invalidation policy, a legal hold or a delegation forbids the change.
DENIED: Final = "ERR_INVALIDATION_DENIED"
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")


def check_address(text: str) -> str:
    """Return the text if it has the form of a content address. Raises GrainError."""
    if len(text) != ADDRESS_CHARS:
        raise GrainError(
            f"a content address has {ADDRESS_CHARS} characters, not {len(text)}",
            oms_code="ERR_HASH_LENGTH",
        )
    if _ADDRESS.fullmatch(text) is None:
        # Section 5: upper case MUST be rejected.
        raise GrainError("a content address is lower-case hexadecimal", oms_code="ERR_HASH_FORMAT")
    return text

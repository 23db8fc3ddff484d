"""Checks of the names of owners: a DID, or any other name without spaces."""

from __future__ import annotations

import re
from typing import Final

from memoranda.errors import InvalidInput

# DID Core 3.1, without paths and fragments.
_DID: Final = re.compile(r"did:[a-z0-9]+:[A-Za-z0-9._:%-]+", re.ASCII)
# Placeholders in examples. A name copied with one would become a new owner with an empty memory.
_NO_NAME: Final = re.compile(r"…|\.\.\.|[<>]|\s")


def check_owner(name: str, location: str) -> None:
    """Raise InvalidInput for a placeholder copied from an example, and for a malformed DID."""
    if _NO_NAME.search(name) or not name.isprintable():
        raise InvalidInput(
            f"{location}: {name!r} is a placeholder or has spaces; give the full name of the owner"
        )
    if name.startswith("did:") and _DID.fullmatch(name) is None:
        raise InvalidInput(f"{location}: {name!r} is not a DID such as did:key:z6Mk…")


def check_did(name: str, location: str) -> None:
    """Raise InvalidInput unless a name is a DID."""
    check_owner(name, location)
    if not name.startswith("did:"):
        raise InvalidInput(f"{location}: {name!r} is not a DID such as did:key:z6Mk…")

"""Embedding of an original document in a document of another standard, under one reserved key.

Unwrapping restores the original byte for byte (DESIGN, decision 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.model.memory import Document

NATIVE_KEY: Final = "memoranda:native"
# In exported records: state of the document for which a record has no field.
STATE_KEY: Final = "memoranda:state"
# Next to it in a view that is shorter than the original: the path of each part that is cut, and the limit it exceeded.
CUT_KEY: Final = "memoranda:cut"
# In a body, or the metadata of a memory: the author named by the writer, without verification.
CLAIMED_KEY: Final = "memoranda:claimed"
_FIELDS: Final = ("standard", "name", "media_type", "data")


def wrap(document: Document) -> dict[str, str]:
    """Return the value to store under NATIVE_KEY."""
    return {
        "standard": document.standard,
        "name": document.name,
        "media_type": document.media_type,
        "data": base64_encode(document.native),
    }


def unwrap(holder: object) -> Document | None:
    """Return the original that a map contains under NATIVE_KEY, unchecked; None if there is none."""
    # Most are plain dicts, for which this test is faster than `isinstance` with an abstract class.
    native = holder.get(NATIVE_KEY) if type(holder) is dict or isinstance(holder, Mapping) else None
    if native is None or not isinstance(native, Mapping):
        return None
    if not all(isinstance(native.get(name), str) for name in _FIELDS):
        return None
    try:
        data = base64_decode(native["data"])
    except ValueError:
        return None
    return Document(
        standard=native["standard"],
        name=native["name"],
        media_type=native["media_type"],
        native=data,
    )

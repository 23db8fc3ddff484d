"""How an original document travels inside a document of another standard, under one reserved key.

Taking it out again restores the original byte for byte (DESIGN, decision 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.model.memory import Document

NATIVE_KEY: Final = "memoranda:native"
# Beside it in a record that leaves: what the store knows of the document and a record has no word for.
STATE_KEY: Final = "memoranda:state"
# Beside it in a view that shows less than the original: the path of each part that is cut, and the limit it met.
CUT_KEY: Final = "memoranda:cut"
# In a body, or the metadata of a memory: whom its writer named as the author, though that was not verified.
CLAIMED_KEY: Final = "memoranda:claimed"
_FIELDS: Final = ("standard", "name", "media_type", "data")


def wrap(original: Document) -> dict[str, str]:
    """The value to put under NATIVE_KEY."""
    return {
        "standard": original.standard,
        "name": original.name,
        "media_type": original.media_type,
        "data": base64_encode(original.native),
    }


def unwrap(holder: object) -> Document | None:
    """The original that a map holds under NATIVE_KEY, if there is one. Nothing about it was checked."""
    # Most are a plain dictionary, which is sooner told than any mapping, and hold none.
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

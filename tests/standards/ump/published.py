"""The published vectors, and what several tests build from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from memoranda.encoding.didkey import SigningKey
from memoranda.model.instant import parse_instant

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "ump" / "ump-vectors-0.1.json").read_text("utf-8")
)
KEY: Final = SigningKey(bytes.fromhex(VECTORS["keys"]["fill7"]["seed_hex"]))
# The reference's clock when the vectors were made.
NOW_TEXT: Final = "2026-06-04T10:00:00.000Z"
NOW: Final = parse_instant(NOW_TEXT)
PROVENANCE: Final = {"actor": KEY.did, "actor_kind": "user", "method": "user_correction"}


def draft(text: str = "run pnpm gate before handoff", **fields: Any) -> Any:
    """The draft that the vectors' scenarios send, with other fields."""
    scope = {"owner": KEY.did, "project": "p", "visibility": "private"}
    return {"kind": "procedural", "body": {"text": text}, "scope": scope, "provenance": PROVENANCE, **fields}


def full_record() -> Any:
    """A fresh copy of the vectors' record that has every field."""
    record: dict[str, Any] = json.loads(json.dumps(VECTORS["record"]["record"]))
    return record


JSON_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
JSON_OBJECTS = st.dictionaries(st.text(max_size=10), JSON_VALUES, max_size=4)

"""Values and grains for property tests."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from hypothesis import strategies as st
from tests.standards.oms.published import TYPE_NAMES, of_type

# Text in normal form: NFC, no byte order mark; surrogates are no text.
TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=40).map(
    lambda text: unicodedata.normalize("NFC", text)
)
_LEAVES: Final = (
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
NORMAL_VALUES: Final = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner | st.none(), max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
# Not normal: to be normalised, with nulls in maps and decomposed texts.
ROUGH_VALUES: Final = st.recursive(
    _LEAVES | st.none() | st.just("e\u0301"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
ADDRESSES: Final = st.binary(min_size=32, max_size=32).map(bytes.hex)

_LINKS: Final = st.lists(
    st.fixed_dictionaries(
        {"hash": ADDRESSES, "relation_type": st.sampled_from(["similar", "causal", "replaces"])},
        optional={"weight": st.floats(0, 1), "x-note": TEXTS},
    ),
    max_size=3,
)
_OPTIONAL: Final = {
    "importance": st.floats(0, 1),
    "user_id": TEXTS,
    "namespace": TEXTS,
    "structural_tags": st.lists(st.sampled_from(["phi:name", "pii:email", "reg:x", "plain", "legal:x"]), max_size=3),
    "context": st.dictionaries(TEXTS, NORMAL_VALUES, max_size=3),
    "related_to": _LINKS,
    "derived_from": st.lists(ADDRESSES, max_size=2),
    "valid_from": st.integers(-(2**63), 2**63 - 1),
    "trusted_timestamp": st.fixed_dictionaries({"tsp_response": st.binary(max_size=20)}),
    "content_refs": st.just([{"uri": "u", "modality": "image", "metadata": {"uri": "inner"}}]),
    "embedding_refs": st.just([{"vector_id": "v", "model": "m", "dimensions": 3}]),
}


@st.composite
def grain_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a valid grain of any type, in normal form."""
    base = of_type(draw(st.sampled_from(TYPE_NAMES)), namespace=None)
    base["created_at"] = draw(st.integers(0, 2**32 * 1000 - 1))
    extra = draw(st.fixed_dictionaries({}, optional=_OPTIONAL))
    unknown = draw(st.dictionaries(TEXTS.map("x-{}".format), NORMAL_VALUES, max_size=2))
    return {**unknown, **extra, **base}


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from 1.0 from True and 0.0 from -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left.hex() == float(right).hex()
    return bool(left == right)


# No namespace of a store has a NUL in its name: PostgreSQL has no room for one.
STORABLE: Final = grain_fields().filter(lambda fields: "\0" not in fields.get("namespace", ""))

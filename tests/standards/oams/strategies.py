"""Memories for property tests: every optional field, and text that breaks things."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from memoranda.model.instant import format_instant
from memoranda.standards.oams.memory import STRATEGIES

TENANT: Final = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"

# What has a meaning in Markdown, JSON, lines or URLs.
HOSTILE: Final = (
    "---",
    "\n---\n",
    "\n\n---\n\n## key: other\n\n**namespace:** `a:b`\n",
    "## key: x",
    "\\---",
    "\\\\## key: y",
    "# heading",
    "`",
    "``` ` ```",
    "`a`, `b`",
    "-->",
    "<!-- oams: {} -->",
    "**tags:** `t`",
    "\r",
    "\r\n",
    "\n",
    "\n\n",
    " ",
    "  \n",
    "\t",
    "",
    "\x00",
    "\x1f\x7f\x85",
    "\u2028\u2029",
    "\u202eevil\u202c",
    "e\u0301",
    "İIıi",
    "ΑΣ",
    "ﬃ",
    "👩‍👩‍👧",
    "\ufeff",
    "\U0010ffff",
    "%2F",
    "../..",
    '"',
    "\\",
    "{}",
)
TEXTS: Final = st.text(st.characters(codec="utf-8"), max_size=30) | st.lists(
    st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=5), max_size=5
).map("".join)
# One line: what keys and scopes are made of.
_PLAIN: Final = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
KEYS: Final = st.text(_PLAIN, min_size=1, max_size=40) | st.sampled_from(
    [" ", "a ", " a", "`", "..", ".", "a/b", "a:b", "%2F", "?x=1#y", "\u2028", '"', "## key: x", "é", "👩‍👩‍👧"]
)
SCOPES: Final = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="/:"), min_size=1, max_size=20
)
OWNERS: Final = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"], exclude_characters="/:"), min_size=1, max_size=12
)
NAMESPACES: Final = st.sampled_from(["user-x123ab:personal", "org-acme:legal-archive"]) | st.tuples(OWNERS, SCOPES).map(
    ":".join
)
INSTANTS: Final = st.integers(0, 4_102_444_800_000)
TIMES: Final = (
    INSTANTS.map(format_instant)
    | INSTANTS.map(lambda moment: format_instant(moment)[:-5] + "Z")
    | INSTANTS.map(lambda moment: format_instant(moment)[:-1] + "123456+00:00")
)
_LEAVES: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.just(2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON: Final = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
VECTORS: Final = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8)

_METADATA: Final[dict[str, st.SearchStrategy[Any]]] = {
    "value_type": st.sampled_from(["markdown", "plain", "code"]),
    "confidence": st.floats(0, 1) | st.sampled_from([0, 1]),
    "last_used_at": TIMES,
    "decay_score": st.floats(-10, 10),
    "language": st.sampled_from(["en", "de-CH"]),
    "pii": st.booleans(),
    "dream_strategy": st.sampled_from([*STRATEGIES, "vendor:own", "unheard-of"]),
    "dream_inputs": st.lists(st.tuples(NAMESPACES, KEYS).map(list), max_size=3),
    "dream_run_id": st.uuids().map(str),
    "mem0_role": TEXTS,
    "nested": JSON,
}
_TAGS: Final = st.lists(TEXTS.map(lambda text: text[:200]), max_size=4)


@st.composite
def memories(draw: st.DrawFn, *, complete: bool = True) -> Any:
    """A valid memory with any of the optional fields, in any order."""
    optional: dict[str, st.SearchStrategy[Any]] = {
        "tags": _TAGS,
        "metadata": st.fixed_dictionaries({}, optional=_METADATA),
        "parent_id": st.none() | KEYS | st.tuples(NAMESPACES, KEYS).map("/".join),
        "source_id": st.none() | TEXTS | st.just("https://example.com/article"),
        "embedding_model": st.just("text-embedding-3-small"),
        "x-vendor": JSON,
    }
    times = {"created_at": TIMES, "updated_at": TIMES}
    required = {"key": KEYS, "namespace": NAMESPACES, "value": TEXTS, **(times if complete else {})}
    fields = draw(st.fixed_dictionaries(required, optional={**optional, **({} if complete else times)}))
    if draw(st.booleans()):
        fields |= {"embedding": draw(VECTORS), "embedding_model": "voyage-3"}
    return dict(draw(st.permutations(list(fields.items()))))


def memory(**fields: Any) -> Any:
    """A small valid memory with some fields changed; None takes one out."""
    base = {
        "key": "01HX",
        "namespace": "user-x123ab:personal",
        "value": "Ada likes tea.",
        "created_at": "2026-04-27T12:00:00Z",
        "updated_at": "2026-04-27T12:00:00Z",
    }
    return {name: member for name, member in {**base, **fields}.items() if member is not None}

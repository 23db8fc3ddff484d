"""Values that hypothesis draws for the tests of openwop."""

from __future__ import annotations

from hypothesis import strategies as st

from memoranda.model.instant import Instant
from memoranda.standards.openwop.entry import MAX_TAG_CHARS

# What text can be: anything that can be written as UTF-8.
texts = st.text(st.characters(codec="utf-8"), max_size=60)
tags = st.lists(st.text(st.characters(codec="utf-8"), max_size=MAX_TAG_CHARS // 8), max_size=6)
# The years 1970 to 2200, to the millisecond.
instants = st.integers(0, 7_258_118_400_000).map(Instant)
ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40)
# A space is any text without control characters; these are the ones that are hard to write in a ref.
spaces = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters=[chr(n) for n in (*range(32), 127)]), max_size=80),
    st.text(st.sampled_from("%25CE68.~/\\:d-faultm\u0085\u2028é語"), max_size=24),
    st.sampled_from(
        ["", "default", "%64efault", "..", ".", "a/../b", "a/./b", "%2E./x", "%~abc", "memoranda://x/y", "%6Demoranda:"]
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

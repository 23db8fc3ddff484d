"""Fixed words of the language (sections 2.1 to 2.4, appendix D).

No table of keywords holds a word that removes data, so no grammar rule can require one.
`tests/standards/cal/test_safety.py` proves it.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    """Split a list of words, written as one string, into a set."""
    return frozenset(text.split())


READ_KEYWORDS: Final = _words(
    """RECALL ASSEMBLE WHERE AND OR NOT IN BETWEEN LIMIT OFFSET ORDER BY ASC DESC WITH EXPLAIN SCOPE UNION INTERSECT
    EXCEPT SELECT COUNT FIRST GROUP SUBJECTS OBJECTS HASHES PROJECT INCLUDE EXCLUDE IS NULL TRUE FALSE EXISTS HISTORY
    DESCRIBE BATCH COALESCE ABOUT RECENT SINCE LIKE MY CONTRADICTIONS AS FOR FROM BUDGET PRIORITY FORMAT LET THREAD
    STREAM TEMPLATE DEFINE EXTENDS HEADER ELEMENT ELEMENT_SUMMARY ELEMENT_OMIT SOURCE_BREAK FOOTER DIFF CAL OF
    UNDEFINE"""
)
EVOLVE_KEYWORDS: Final = _words("ADD SUPERSEDE REVERT SET REASON")
KEYWORDS: Final = READ_KEYWORDS | EVOLVE_KEYWORDS

# Section 7.2: the relations that `relation IS <category>` stands for.
CATEGORIES: Final = {
    name: tuple(f"mg:{relation}" for relation in relations.split())
    for name, relations in {
        "PREFERENCE": "prefers avoids requires",
        "KNOWLEDGE": "knows infers",
        "PERMISSION": "permits revokes prohibits",
        "INTERACTION": "said did handed_off_to",
        "AGENCY": "delegates_to has_capability assigned_to",
        "LIFECYCLE": "intends depends_on",
        "OBSERVATION": "perceives state_at",
    }.items()
}

# Reserved for later versions of the specification; no grammar rule uses them.
FUTURE_KEYWORDS: Final = _words(
    """FIND RELATE TIMELINE TRACE GRAPH ANNOTATE MATCHING SIMILAR NEAR TAGGED USER VIA DEPTH TOP UNTIL LAST HAVING
    DIVERSITY MMR THRESHOLD RERANK PROVENANCE SUPERSEDED EXPLANATION SCORE_BREAKDOWN CONSISTENCY EVENTUAL BOUNDED
    LINEARIZABLE CACHE PIN UNPIN MERGE LANG CHUNK PAUSE RESUME CANCEL"""
)
# No context and no template may have one of these names.
RESERVED_WORDS: Final = KEYWORDS | CATEGORIES.keys() | FUTURE_KEYWORDS

FORMATS: Final = ("markdown", "json", "yaml", "text", "sml", "triples", "toon")
# Other names of four formats (section 10.1), and the only parents of a template.
PRESETS: Final = ("structured", "readable", "compact", "data")
FORMAT_NAMES: Final = frozenset((*FORMATS, *PRESETS))

SECTIONS: Final = ("HEADER", "ELEMENT", "ELEMENT_SUMMARY", "ELEMENT_OMIT", "SOURCE_BREAK", "FOOTER")
DESCRIBE_TARGETS: Final = (
    "grain_types",
    "fields",
    "capabilities",
    "server",
    "templates",
    "grammar",
)
BUDGET_UNITS: Final = ("tokens", "grains")
STREAM_OPTIONS: Final = ("progress", "budget", "chunks", "all")
SET_OPERATORS: Final = ("UNION", "INTERSECT", "EXCEPT")
COMPARATORS: Final = frozenset(("=", "!=", ">=", "<=", ">", "<"))
OPERATORS: Final = COMPARATORS | {"IN", "BETWEEN", "INCLUDE", "EXCLUDE", "IS"}
EXTENSION_PREFIX: Final = "x_"
# The parameter that the server binds to the authenticated user; a caller cannot set it.
CURRENT_USER: Final = "current_user_id"

# Section 2.4: words that are refused wherever a name or a keyword may stand. The grammar has no token for them.
REFUSED_WORDS: Final = _words(
    "DELETE DROP FORGET ERASE DESTROY PURGE TRUNCATE INSERT CREATE WRITE STORE"
)

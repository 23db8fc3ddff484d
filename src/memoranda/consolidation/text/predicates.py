"""Table of the English verbs that make a claim.

Each row has a predicate and the regular expressions of its present and past forms. A verb with `is_single` has one
value at a time (a person lives in one city), so another value is a change; the other verbs may have several values.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec


class ClaimPredicate(msgspec.Struct, frozen=True):
    """The verb of a claim, and its properties."""

    name: str
    plural: str
    # At most one value holds at a time.
    is_single: bool = False
    # "X uses Y" and "Y requires Z" make "X depends on Z".
    is_dependency: bool = False
    # The predicate that this one denies: "dislikes" denies "prefers".
    denies: str = ""
    # The active form of a passive: "Y is used by X" means "X uses Y".
    inverse_of: str = ""


IS: Final = ClaimPredicate("is", "are")

_TABLE: Final = (
    (ClaimPredicate("uses", "use", is_dependency=True), "use|uses", "used(?! to\\b)"),
    (
        ClaimPredicate("depends on", "depend on", is_dependency=True),
        "depends? on|rel(?:y|ies) on",
        "depended on|relied on",
    ),
    (
        ClaimPredicate("requires", "require", is_dependency=True),
        "requires?|needs?(?! to\\b)",
        "required|needed(?! to\\b)",
    ),
    (
        ClaimPredicate("runs on", "run on", is_dependency=True),
        "runs? on|(?:is|are) hosted on",
        "ran on|(?:was|were) hosted on",
    ),
    (
        ClaimPredicate("is built with", "are built with", is_dependency=True),
        "(?:is|are) (?:built|made|implemented) (?:with|on|in)|(?:is|are) written in",
        "(?:was|were) (?:built|made|implemented) (?:with|on|in)|(?:was|were) written in",
    ),
    (ClaimPredicate("is used by", "are used by", inverse_of="uses"), "(?:is|are) used by", "(?:was|were) used by"),
    (
        ClaimPredicate("is required by", "are required by", inverse_of="requires"),
        "(?:is|are) (?:required|needed) by",
        "(?:was|were) (?:required|needed) by",
    ),
    (ClaimPredicate("prefers", "prefer"), "prefers?|likes?|favou?rs?", "preferred|liked|favou?red"),
    (ClaimPredicate("dislikes", "dislike", denies="prefers"), "dislikes?|hates?", "disliked|hated"),
    (ClaimPredicate("avoids", "avoid", denies="uses"), "avoids?", "avoided"),
    (
        ClaimPredicate("lives in", "live in", is_single=True),
        "lives? in|resides? in|(?:has |have )?(?:moved|relocated) to",
        "lived in|resided in",
    ),
    (ClaimPredicate("works at", "work at", is_single=True), "works? (?:at|for)", "worked (?:at|for)"),
    (ClaimPredicate("reports to", "report to", is_single=True), "reports? to", "reported to"),
    (ClaimPredicate("belongs to", "belong to", is_single=True), "belongs? to|(?:is|are) (?:owned|maintained) by",
     "belonged to|(?:was|were) (?:owned|maintained) by"),
    (
        ClaimPredicate("is in", "are in", is_single=True),
        "(?:is|are) (?:located |based |situated )?in",
        "(?:was|were) (?:located |based |situated )?in",
    ),
    (ClaimPredicate("costs", "cost"), "costs?", "(?:had cost)"),
    (
        ClaimPredicate("is called", "are called", is_single=True),
        "(?:is|are) (?:called|named)",
        "(?:was|were) (?:called|named)",
    ),
    (ClaimPredicate("has", "have"), "has(?! (?:been|to)\\b)|have(?! (?:been|to)\\b)", "had(?! (?:been|to)\\b)"),
    (ClaimPredicate("owns", "own"), "owns?", "owned"),
    (ClaimPredicate("supports", "support"), "supports?", "supported"),
    (ClaimPredicate("contains", "contain"), "contains?|includes?", "contained|included"),
    (ClaimPredicate("speaks", "speak"), "speaks?", "spoke"),
    (ClaimPredicate("wants", "want"), "wants?(?! to\\b)", "wanted(?! to\\b)"),
    (IS, "is|are|am", "was|were|used to be"),
)  # fmt: skip

BY_NAME: Final = {row[0].name: row[0] for row in _TABLE}

_NOT = (
    r"(?:(?:do|does|did|has|have|had|can|could|will|would|should)(?: not|n['’]t)|cannot|can['’]t|won['’]t|never"
    r"|no longer)"
)
# "Is not in" hides the verb "is in", so the negation is moved before the verb.
_IS_NOT = re.compile(r"\b(is|are|am|was|were)(?: (?:not|never)\b|n['’]t\b)", re.IGNORECASE)
_IS_NO_LONGER = re.compile(r"\b(is|are|am) no longer\b", re.IGNORECASE)
# One pattern for all verbs: an optional negation, then the first verb of the table that matches.
VERB: Final = re.compile(
    r"(?<![\w'’-])(?:(?P<not>"
    + _NOT
    + r"|stopped|quit) )?(?:"
    + "|".join(
        f"(?P<p{row}>{present})|(?P<q{row}>{past})" for row, (_, present, past) in enumerate(_TABLE)
    )
    + r"|(?P<ing>using|preferring))(?=\s)",
    re.IGNORECASE,
)
# "Switched from A to B" states a present and a former value.
SWITCH: Final = re.compile(
    r"^(?P<subject>.{1,80}?) (?:has |have )?(?P<how>switched|migrated|moved|changed|upgraded|relocated)"
    r" from (?P<old>.{1,80}?) to (?P<new>.{1,80})$",
    re.IGNORECASE,
)
REPLACE: Final = re.compile(
    r"^(?P<subject>.{1,80}?) (?:has |have )?replaced (?P<old>.{1,80}?) (?:with|by) (?P<new>.{1,80})$",
    re.IGNORECASE,
)


def move_denial_first(sentence: str) -> str:
    """Replace "is not in" by "never is in"."""
    return _IS_NO_LONGER.sub(r"no longer \1", _IS_NOT.sub(r"never \1", sentence))


def find_predicate(match: re.Match[str]) -> tuple[ClaimPredicate, bool]:
    """Return the predicate of a match of `VERB`, and True if it is in the past tense."""
    for row, (predicate, _, _) in enumerate(_TABLE):
        if match[f"p{row}"]:
            return predicate, False
        if match[f"q{row}"]:
            return predicate, True
    return BY_NAME["uses" if match["ing"].lower() == "using" else "prefers"], False


# Subjects that have one value at a time, by their last word: "the port is 8080", "my favourite colour is blue".
ATTRIBUTES: Final = frozenset(
    """address age birthday budget capital code color colour currency date day deadline duration edition email estimate
    format goal height hostname hour id key latency length level license licence limit location maximum minimum mode
    month name number password path phone port position preference price priority quota rate region role schedule score
    season size speed stage state status style target temperature term theme threshold time timeout timezone title total
    type unit url username value version weight width year zone""".split()
)
# Nouns with a name as their value: "the package manager is pnpm", "the owner is Bob"; but not "the server is slow".
ROLES: Final = frozenset(
    """assignee branch browser ceo channel city company contact country database default department director dish domain
    drink editor endpoint environment food framework host job language lead leader maintainer manager model office os
    owner platform provider release repository room runtime server shell shop store system team tool vendor""".split()
)
# Adjectives and adverbs: qualities of a thing, not values.
QUALITIES: Final = frozenset(
    """bad better best big broken buggy busy cheap clean clear complex correct critical different difficult dirty
    early easy empty expensive fast fine flaky free full good great happy hard heavy high huge important late large
    light long low missing new nice obsolete ok okay old outdated perfect poor ready right sad safe secure short sick
    simple slow small solid special strange strong thin tired tough unclear unknown useful useless weak well worse
    worst wrong young very too quite really so rather pretty extremely much more less a bit""".split()
)
# States that exclude one another.
OPPOSITES: Final = (
    "enabled/disabled", "on/off", "up/down", "open/closed", "true/false", "yes/no", "active/inactive", "alive/dead",
    "public/private", "online/offline", "available/unavailable", "healthy/unhealthy", "finished/unfinished",
    "allowed/forbidden", "required/optional", "valid/invalid", "stable/unstable", "paid/unpaid", "safe/unsafe",
    "single/married", "dark/light", "tabs/spaces", "dark mode/light mode", "working/broken", "supported/unsupported",
    "deprecated/recommended", "synchronous/asynchronous",
)  # fmt: skip

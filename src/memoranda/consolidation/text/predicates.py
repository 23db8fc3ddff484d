"""The English verbs that claims are read by, as data.

Each row: the name shown, how it reads of several subjects, its kind, and its forms: present, past. `single` verbs have
one value at a time (one lives in one city), so another value is news; the others may have many.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec


class Predicate(msgspec.Struct, frozen=True):
    """What a statement says of its subject."""

    name: str
    plural: str
    # At most one value holds at a time.
    is_single: bool = False
    # "X uses Y" and "Y requires Z" make "X depends on Z".
    is_dependency: bool = False
    # The statement denies another predicate: to dislike is not to prefer.
    denies: str = ""
    # "Y is used by X" says "X uses Y".
    inverse_of: str = ""


IS: Final = Predicate("is", "are")

_TABLE: Final = (
    (Predicate("uses", "use", is_dependency=True), "use|uses", "used(?! to\\b)"),
    (Predicate("depends on", "depend on", is_dependency=True), "depends? on|rel(?:y|ies) on", "depended on|relied on"),
    (Predicate("requires", "require", is_dependency=True), "requires?|needs?(?! to\\b)", "required|needed(?! to\\b)"),
    (
        Predicate("runs on", "run on", is_dependency=True),
        "runs? on|(?:is|are) hosted on",
        "ran on|(?:was|were) hosted on",
    ),
    (
        Predicate("is built with", "are built with", is_dependency=True),
        "(?:is|are) (?:built|made|implemented) (?:with|on|in)|(?:is|are) written in",
        "(?:was|were) (?:built|made|implemented) (?:with|on|in)|(?:was|were) written in",
    ),
    (Predicate("is used by", "are used by", inverse_of="uses"), "(?:is|are) used by", "(?:was|were) used by"),
    (
        Predicate("is required by", "are required by", inverse_of="requires"),
        "(?:is|are) (?:required|needed) by",
        "(?:was|were) (?:required|needed) by",
    ),
    (Predicate("prefers", "prefer"), "prefers?|likes?|favou?rs?", "preferred|liked|favou?red"),
    (Predicate("dislikes", "dislike", denies="prefers"), "dislikes?|hates?", "disliked|hated"),
    (Predicate("avoids", "avoid", denies="uses"), "avoids?", "avoided"),
    (
        Predicate("lives in", "live in", is_single=True),
        "lives? in|resides? in|(?:has |have )?(?:moved|relocated) to",
        "lived in|resided in",
    ),
    (Predicate("works at", "work at", is_single=True), "works? (?:at|for)", "worked (?:at|for)"),
    (Predicate("reports to", "report to", is_single=True), "reports? to", "reported to"),
    (Predicate("belongs to", "belong to", is_single=True), "belongs? to|(?:is|are) (?:owned|maintained) by",
     "belonged to|(?:was|were) (?:owned|maintained) by"),
    (
        Predicate("is in", "are in", is_single=True),
        "(?:is|are) (?:located |based |situated )?in",
        "(?:was|were) (?:located |based |situated )?in",
    ),
    (Predicate("costs", "cost"), "costs?", "(?:had cost)"),
    (
        Predicate("is called", "are called", is_single=True),
        "(?:is|are) (?:called|named)",
        "(?:was|were) (?:called|named)",
    ),
    (Predicate("has", "have"), "has(?! (?:been|to)\\b)|have(?! (?:been|to)\\b)", "had(?! (?:been|to)\\b)"),
    (Predicate("owns", "own"), "owns?", "owned"),
    (Predicate("supports", "support"), "supports?", "supported"),
    (Predicate("contains", "contain"), "contains?|includes?", "contained|included"),
    (Predicate("speaks", "speak"), "speaks?", "spoke"),
    (Predicate("wants", "want"), "wants?(?! to\\b)", "wanted(?! to\\b)"),
    (IS, "is|are|am", "was|were|used to be"),
)  # fmt: skip

BY_NAME: Final = {row[0].name: row[0] for row in _TABLE}

_NOT = (
    r"(?:(?:do|does|did|has|have|had|can|could|will|would|should)(?: not|n['’]t)|cannot|can['’]t|won['’]t|never"
    r"|no longer)"
)
# "Is not in" would hide the verb "is in": the denial goes before the verb, where all others stand.
_IS_NOT = re.compile(r"\b(is|are|am|was|were)(?: (?:not|never)\b|n['’]t\b)", re.IGNORECASE)
_IS_NO_LONGER = re.compile(r"\b(is|are|am) no longer\b", re.IGNORECASE)
# One pattern for all verbs: an optional denial, then the first verb of the table that fits at that place.
VERB: Final = re.compile(
    r"(?<![\w'’-])(?:(?P<not>"
    + _NOT
    + r"|stopped|quit) )?(?:"
    + "|".join(
        f"(?P<p{place}>{present})|(?P<q{place}>{past})"
        for place, (_, present, past) in enumerate(_TABLE)
    )
    + r"|(?P<ing>using|preferring))(?=\s)",
    re.IGNORECASE,
)
# "Switched from A to B" says what holds now and what does not any more.
SWITCH: Final = re.compile(
    r"^(?P<subject>.{1,80}?) (?:has |have )?(?P<how>switched|migrated|moved|changed|upgraded|relocated)"
    r" from (?P<old>.{1,80}?) to (?P<new>.{1,80})$",
    re.IGNORECASE,
)
REPLACE: Final = re.compile(
    r"^(?P<subject>.{1,80}?) (?:has |have )?replaced (?P<old>.{1,80}?) (?:with|by) (?P<new>.{1,80})$",
    re.IGNORECASE,
)


def denial_first(sentence: str) -> str:
    """ "Is not in" as "never is in"."""
    return _IS_NO_LONGER.sub(r"no longer \1", _IS_NOT.sub(r"never \1", sentence))


def predicate_of(match: re.Match[str]) -> tuple[Predicate, bool]:
    """The predicate a match of VERB found, and whether it stands in the past."""
    for place, (predicate, _, _) in enumerate(_TABLE):
        if match[f"p{place}"]:
            return predicate, False
        if match[f"q{place}"]:
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
# Things that are someone or something: "the package manager is pnpm", "the owner is Bob"; but "the server is slow".
ROLES: Final = frozenset(
    """assignee branch browser ceo channel city company contact country database default department director dish domain
    drink editor endpoint environment food framework host job language lead leader maintainer manager model office os
    owner platform provider release repository room runtime server shell shop store system team tool vendor""".split()
)
# What is said of a thing, and not what it is.
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

"""Regular expressions for the English words that open or withdraw an intention; data for `commitments`.

A rule matches at the beginning of a clause, and the words after the match are the intention. Verbs that are also nouns
("call", "review", "return") match only before a word that makes them verbs: "call Ann", but not "call with Ann".
"""

from __future__ import annotations

import re
from typing import Final, Literal

from memoranda.time_words.vocabulary import ZONE_AREA

Kind = Literal[
    "remind", "forget", "need", "should", "will", "todo", "notify", "tell", "follow", "act", "lets"
]

# Confidence of each rule with a time, with a condition, and with neither; 0 means that the match is dropped.
CONFIDENCE: Final[dict[Kind, tuple[float, float, float]]] = {
    "remind": (0.95, 0.9, 0.5),
    "forget": (0.9, 0.85, 0.45),
    "need": (0.8, 0.75, 0.0),
    "should": (0.65, 0.6, 0.0),
    "will": (0.75, 0.7, 0.0),
    "todo": (0.85, 0.8, 0.0),
    "notify": (0.85, 0.85, 0.0),
    "tell": (0.85, 0.85, 0.0),
    "follow": (0.85, 0.8, 0.45),
    "act": (0.7, 0.65, 0.0),
    "lets": (0.6, 0.6, 0.0),
}
# Weak rules match only at the beginning of a sentence or an independent clause.
WEAK: Final = frozenset(("act", "lets"))
# Verbs that ask for a message, such as "remind me when …". For these, any condition makes a commitment.
TELLING: Final = frozenset(("remind", "notify", "tell", "forget"))

_ACTIONS = (
    "send|pay|buy|sell|submit|renew|publish|deploy|cancel|notify|merge|invite|remove|delete|forward|pick up"
    "|drop off|prepare|finish|reply|respond|write|rewrite|refactor|migrate|upgrade|rotate|back up|fix|sign|unsubscribe"
    "|deliver|hand in|hand over|rebook|reschedule|confirm|verify|rerun|restart|reboot|roll back|roll out|turn on"
    "|turn off|switch off|switch on|enable|disable|re-?check|double-check|contact|feed|take out|put out|bring|tell|ask"
    "|apply for"
)
_NOUNS_TOO = (
    "call|phone|email|mail|text|message|ping|book|order|check|review|release|update|report|start|stop|run|ship|post"
    "|water|invoice|share|schedule|close|open|test|plan|archive|announce|draft|print|visit|meet|audit|mow|wash|charge"
    "|return|complete|clean|clear|file|transfer|refund|register|wire|let"
)
_CONTACTS = "call|phone|email|mail|text|message|ping|ask|tell|invite|contact|remind|meet|visit"
_DETERMINED = (
    r"(?:the|a|an|my|our|your|his|her|their|its|this|that|these|those|all|every|each|any|both|me|us|you|him|them|it"
    r"|everyone|everybody|someone|in on|up on|for|whether|if|how|out|mom|mum|mother|dad|father|grandma|grandpa"
    r"|plants)\b"
)
_NO_DAY = (
    r"(?!(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:january|february|march|april|may|june|july|august|september"
    r"|october|november|december)\b)"
)
# At the end of the sentence the verb alone is enough: "once QA signs off, deploy".
_ACT = (
    rf"(?:(?:{_ACTIONS})(?:(?=\W*$)|\s(?!(?:is|are|was|were|has|will|by|of|from|and|for|not|access|attention|day)\b))"
    rf"|(?:{_NOUNS_TOO})\s(?={_DETERMINED})"
    rf"|(?:{_CONTACTS})\s(?={_NO_DAY}(?-i:[A-Z][\w'’-]+))"
    rf"|(?:{_NOUNS_TOO})\s(?={_NO_DAY}(?-i:[A-Z][\w-]+['’]s\s)))"
)
FOLLOW: Final = (
    r"(?:follow(?:[- ]?up|ing up)|check back|check in|circle back|get back|reach out|touch base|come back|report back"
    r"|re-?visit)"
)
_NOTIFY = r"(?:notify|ping|alert|wake|call|text|nudge|warn) (?:me|us)(?: up)?"
# "Tell me about Friday" is a request for now, "tell me on Friday" for later.
_TELL = r"(?:let me know|(?:tell|email|message|update) (?:me|us))"
ASKING: Final = (
    r"(?:(?:can|could|would|will) you (?:please )?(?:also )?|(?:i|we)(?:['’]d| would) like you to "
    r"|(?:i|we) (?:want|need) you to |you (?:should|must|need to|have to) |(?:be|make) sure (?:to |you |that you )"
    r"|remember to )"
)
_WHO = r"(?:me|us|him|her|them|you|everyone|the team|the user)"
# "Remind me what we decided" is a question for now.
_NOT_ASKED = r"(?! (?:what|why|how|who|whom|whose|which|where)\b)"
_USER = r"(?:the )?user"
_ADVERB = r"(?:(?:really|also|still|just|definitely|absolutely|then|now) )?"
_NOT_DOING = r"(?!not\b|have\b|never\b|(?:be able|say|admit|agree|disagree|confess|wonder|laugh|know|wait|think)\b)"
_WILL = (
    r"(?:(?:i|we)(?:['’]ll| will| shall|['’]m going to| am going to|['’]re going to| are going to| plan to"
    r"| intend to)|will)"
)
_OBLIGATION = r"(?:needs? to|ha(?:ve|s) to|must|(?:have )?got to|gotta)"

_PATTERNS: Final[tuple[tuple[Kind, str], ...]] = (
    ("remind", rf"(?:please )?{ASKING}?remind {_WHO}\b(?: again)?{_NOT_ASKED}"),
    (
        "remind",
        rf"(?:please )?{ASKING}?(?:set(?: up)?|create|add|schedule|give me) (?:me )?a reminder\b",
    ),
    ("remind", r"(?:i|we)(?: need| want|['’]d like| would like) (?:to be reminded|a reminder)\b"),
    (
        "remind",
        rf"{_USER} (?:wants?|asked|asks|requested|needs|would like|wishes)(?: (?:me|us|the (?:agent|assistant)))? "  # noqa: ISC004
        r"(?:to be reminded|a reminder|to remind (?:him|her|them))\b",
    ),
    ("remind", r"(?:i|we)(?:['’]ll| will) remind (?:you|him|her|them|the user|the team)\b"),
    (
        "forget",
        r"(?:please )?(?:don['’]t|do not|never|let['’]s not"  # noqa: ISC004
        r"|(?:i|we) (?:must not|mustn['’]t|can['’]t|should not|shouldn['’]t)) forget"
        r"(?::| (?=(?:to|about|the|my|our|your|that)\b))",
    ),
    ("need", rf"(?:i|we) {_ADVERB}(?:need|have|must) (?:to )?remember (?=to\b)"),
    ("need", rf"(?:(?:i|we)(?:['’]ve)? |{_USER} ){_ADVERB}{_OBLIGATION} {_NOT_DOING}"),
    ("need", rf"{_ADVERB}{_OBLIGATION} (?!be\b){_NOT_DOING}"),
    ("need", rf"(?:i|we|{_USER}) (?:have |has )?(?:promised|agreed|committed) (?=to\b)"),
    ("need", rf"(?:i|we)(?: am| are|['’]m|['’]re) supposed to {_NOT_DOING}"),
    (
        "need",
        rf"(?:please )?(?:remember to|(?:be|make) sure (?:to|(?:that )?(?:i|we|you))) {_NOT_DOING}",
    ),
    ("should", rf"(?:i|we|{_USER}) {_ADVERB}(?:should|ought to) {_NOT_DOING}"),
    (
        "todo",
        r"(?:to[- ]?do|action(?: item)?|task|next step|reminder|note to self)s?"  # noqa: ISC004
        r"(?: ?\([^)]{1,20}\))?(?:\s?[:–-]|(?<=TODO)) ?(?=\S)",
    ),
    ("notify", rf"(?:please )?{ASKING}?{_NOTIFY}\b"),
    ("tell", rf"(?:please )?{ASKING}?{_TELL}\b"),
    ("follow", rf"(?:please )?{ASKING}?(?={FOLLOW}\b)"),
    ("will", rf"{_WILL} {_ADVERB}(?={_ACT}|{FOLLOW}\b)"),
    ("lets", rf"let['’]s (?={_ACT}|{FOLLOW}\b)"),
    ("act", rf"(?:please )?(?={_ACT})"),
)
RULES: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)

# A cheap first test: a sentence without any of these words matches no rule.
ANY: Final = re.compile(
    rf"\b(?:remind|reminders?|reminded|forget|needs?|have|has|must|got|gotta|promised|agreed|committed|supposed"
    rf"|remember|sure|should|ought|to[- ]?dos?|actions?|tasks?|steps?|self|will|shall|going|plan|intend|let|{FOLLOW}"
    rf"|wake|alert|nudge|warn|{_ACTIONS}|{_NOUNS_TOO})\b|['’]ll\b",
    re.IGNORECASE,
)
# Words allowed before the first clause.
LEAD: Final = re.compile(
    r"(?:(?:note|notes|reminder|update|important|fyi|ps|p\.s\.|user|human|me|assistant|agent|meeting notes|next steps"
    r"|actions|action items|tasks|follow-?ups?|plan|decision)\s?: ?"
    r"|if possible, |(?:also|and|so|then|ok|okay|hey|hi|hello|please|oh|btw|by the way|again|finally|first|next|anyway)"
    r"(?:, ?| )(?:(?-i:[A-Z])\w{1,20}, )?)*",
    re.IGNORECASE,
)
# Beginnings of further clauses, strong (independent of the clause before) or weak.
STARTS: Final = re.compile(
    r"(?P<strong>\s?[;—–]\s?|\s-\s|\.\s|,?\s(?:so|but|then|and then)\s)"
    r"|(?P<weak>,\s(?:and\s|also\s|please\s)*|\sand\s(?:also\s|please\s)?|\sor\s)",
    re.IGNORECASE,
)
WHEN: Final = re.compile(
    r"(?:(?P<often>whenever|every time|each time)|(?P<once>when|once|if|as soon as|after|the moment))\s",
    re.IGNORECASE,
)
LATER_WHEN: Final = re.compile(
    r",?\s(?:(?P<unless>unless)|(?P<often>whenever|every time|each time)"
    r"|(?P<once>when|once|if|as soon as|after|the moment))\s",
    re.IGNORECASE,
)
# The end of an intention: the words after it are a reason or another clause.
TAIL: Final = re.compile(
    r"\s?;\s|\s[—–-]\s|,?\s(?:because|so that|otherwise|or else|but|although|even though)\s"
    r"|,\s(?:since|so|as|which|or)\s|\s\((?!"
    + ZONE_AREA
    + r"/)|(?:,?\s(?:and|then|and then|so|also|please)\s*)+\Z",
    re.IGNORECASE,
)
SUPPOSED: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|suppose|supposing|imagine|hypothetically|what if|let['’]s say|wish|if only"
    r"|in theory|(?:would|could|should) have|for example|for instance|e\.g\.|i\.e\.|such as|pretend|as if|lest|in case)"
    r"(?!\w)",
    re.IGNORECASE,
)
REPORTED: Final = re.compile(
    r"\b(?:said|says|told|tells|wrote|writes|mentioned|suggested|according to|quote|claims?|claimed|thinks?|thought"
    r"|asked|asks|replied|answered)\b",
    re.IGNORECASE,
)
DENIED: Final = re.compile(
    r"\b(?:no need|not|never|nobody|no longer|without|stop|instead of|rather than|needn['’]t|unnecessary|refuse)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
WITHDRAWN: Final = re.compile(
    r"(?:[,(—–;.-]\s?(?:never ?mind|nvm|done|scratch that|forget it|cancel that|just kidding|not any ?more"
    r"|no longer needed|already (?:did|done|sent|paid|called|handled|sorted)[^.]{0,20}|(?:or )?maybe not"
    r"|which (?:i|we) did|canceled|cancelled)\W{0,4}|[✓✔✅☑❌]\W{0,3})$"
    r"|^(?:done|cancel+ed|obsolete|resolved)\b|^[✓✔✅☑❌]|~~",
    re.IGNORECASE,
)
# A finite verb shows that the word before it was a noun: "Pay day is Friday", "Follow-up with Ann went well".
FINITE: Final = re.compile(
    r"\b(?P<clause>that|which|who|whom|whether|if|how|what|why|where|as|than)\b"
    r"|\b(?:is|are|was|were|has|have|had|will|would|went|happened|scheduled|planned|took|meets|runs|ships|expires|arrives"
    r"|ends|starts|begins|opens|closes|comes|goes|takes|happens|looks|seems|costs|fails|failed|works|worked)\b",
    re.IGNORECASE,
)
QUOTED: Final = re.compile(
    r"\"[^\"]{1,300}\"|“[^”]{1,300}”|„[^“”]{1,300}[“”]|«[^»]{1,300}»|`[^`]{1,300}`|(?<!\w)['‘][^'’\n]{2,300}['’](?!\w)"
)
# The person addressed, to whom a later pronoun refers: "ping Bob if he …".
ADDRESSED: Final = re.compile(
    rf"(?:{_CONTACTS}|follow up with|check in with) (?-i:(?P<name>[A-Z][\w-]+))", re.IGNORECASE
)

"""Sentences that are the same but for one value: a number, a time, a day, a date, a place, a person.

A sentence without its value is its **frame**: the words that carry meaning, in no order, so that "the deadline for the
grant" and "the grant's deadline" meet. Two notes that fill one frame differently do not both hold, where only one
value can:

    number   "runs PostgreSQL 14", "costs 39 euros", "unloads at dock 2"; the same unit, and behind the verb
    time     "starts at 8:15"
    weekday  "is every second Wednesday", against "moved to Thursdays"
    date     "is on 14 November"; a day without a year is the next one, and a day that has passed is another occasion
    person   "is led by Marek", "Marek leads …", "our vet is Dr. Hoffmann", "Nurse: Beatrix"
    place    "is on level 2", "hangs in the office"; of any verb, when the later note says that it is so now

What is asked, supposed, planned, past, denied or pointed at ("there", "it") fills no frame.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final

import msgspec

from memoranda.consolidation.text.note import Note, one_line
from memoranda.consolidation.text.reading import Reading, content_words, markers
from memoranda.consolidation.text.sentences import is_code
from memoranda.consolidation.text.statement import is_of_its_day
from memoranda.consolidation.time.dates import named_days
from memoranda.model.calendar import utc_day

_SENTENCE_CHARS_LIMIT: Final = 300
_FRAME_WORDS_LIMIT: Final = 12
_PLACE_WORDS_LIMIT: Final = 4
# So many readings of one amount are a series, and no dispute.
_READINGS: Final = 3

_LEAD = re.compile(
    r"^(?:(?:note|update|updated|correction|reminder|fact|decision|remember|fyi|important|edit)\s*:\s*"
    r"|(?:currently|actually|also|and|but|so|finally)[,]?\s+|remember that\s+)+",
    re.IGNORECASE,
)
_NOT_NOW = re.compile(
    r"\b(?:if|unless|whether|when|whenever|once|suppose|in case|otherwise|says?|said|thinks?|thought|asks?|asked|told"
    r"|will|would|should|could|can|may|might|shall|maybe|perhaps|probably|possibly|plans?|going to|wants?|about|around"
    r"|roughly|approximately|nearly|almost|at least|at most|up to|was|were|had|did|used to|been|it|he|she|they|him|her"
    r"|them|his|its|their|this|that|these|those|there|today|tonight|yesterday|tomorrow|last|next|ago|sometimes|often"
    r"|usually|mostly|also|another|other|some|most|many|few|not|never|no|nobody|without|cannot|except|only)\b|n['’]t\b",
    re.IGNORECASE,
)
# "The prototype was ported, it uses Unity 2022 now": what was done, and what holds since.
_SINCE = re.compile(
    r"^(?P<who>.{2,60}?) (?:was|were|got|has been|have been) \w+(?:ed|en)\b[^,;]{0,40}?(?:,| and)(?: (?:it|they))?"
    r" (?=now\b|.*\bnow$)(?P<what>.+)$",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"^(?P<who>.{2,80}?) (?:(?:was|were|is|are|has|have|got|has been|have been) )?(?:moved|postponed|rescheduled"
    r"|pushed(?: back)?|brought forward|shifted|changed|raised|lowered|increased|reduced|cut|upgraded)"
    r"(?: from (?P<old>.{1,60}?))? (?:to|until) (?P<new>.{1,60})$",
    re.IGNORECASE,
)
_NEWS = re.compile(r"\b(?:now|new|from now on|instead|these days|currently)\b", re.IGNORECASE)
_TAIL = re.compile(
    r"(?:,|\s[—–-])\s.*$|\s(?:because|since|so|but|although|though|which|who|where|while|as of|due to)\b.*$",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?P<where>(?:in|on|at|for|during|under) [^,]{1,40}), (?P<rest>.+)$", re.IGNORECASE
)
_WEEKDAY_NAMES: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_WEEKDAY = re.compile(
    r"(?:\b(?:on|every|each)\s+)?(?:the\s+)?(?:(?P<which>first|second|third|fourth|last|other|1st|2nd|3rd|4th)\s+)?"
    rf"(?P<day>{_WEEKDAY_NAMES})s?\b(?:\s+(?:mornings?|afternoons?|evenings?|nights?))?(?:\s+of\s+(?:the|each|every)\s+month)?",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\w.:])(?:at\s+)?(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d)\s?(?P<half>am|pm)?|\s?(?P<noon>am|pm))(?![\w:])",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?<![\w.:/#@-])(?P<sign>[$€£¥₹])?(?P<number>[-−]?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d+){0,3})"
    r"(?P<mark>\s?[%‰°$€£¥₹])?(?![\w/:-])(?:\s(?P<unit>[^\W\d_]+))?",
)
# Behind the number and its unit a sentence is over, or says for how long, or where.
_AFTER_NUMBER = re.compile(r"(?:\s(?:a|an|per|each|every)(?:\s[^\W\d_]+)?)?\s*$")
_HOLDS = re.compile(
    r"\b(?:is|are|am|has|have|costs?|takes?|lasts?|needs?|requires?|uses?|runs?|keeps?|pays?|holds?|weighs?|measures?)\b",
    re.IGNORECASE,
)
# Of these there may be several side by side.
_SEVERAL = re.compile(
    r"(?<=\w )(?:supports?|contains?|includes?|accepts?|speaks?|knows?|returns?|opens?|closed|closes|free|available"
    r"|busy|off)\b",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"^(?:ask|see|read|use|check|run|call|fix|review|merge|close|open|add|remove|update|send|buy|get|give|take|put|make|set"
    r"|try|look|find|tell|write|pay|move|turn|keep|do|always|please|load|retry|restart|go|start|stop|let|meet)\b",
    re.IGNORECASE,
)
_TITLE = r"(?:(?:Mr|Ms|Mrs|Dr|Prof)\.? )?"
_NAME = rf"{_TITLE}[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){{0,2}}"
_LABEL = re.compile(r"^(?P<who>[^:=]{2,40}?)\s*(?::|=)\s+(?P<value>[^:=]{1,60})$")
_IDENTITY = re.compile(
    rf"^(?P<who>(?:[Tt]he|[Oo]ur|[Mm]y|[A-Z][\w-]*['’]s) (?:[\w'’-]+ ){{0,4}}?[\w'’-]+) is (?P<value>{_NAME})$"
)
_DOES = (
    r"lead|manage|supervise|direct|own|maintain|chair|operate|coordinate|head|organise|organize|compose|conduct|moderate"
    r"|run|play(?=s (?:the )?(?:\w+ )?(?:role|part|lead)\b)"
)
_ACTIVE = re.compile(rf"^(?P<value>{_NAME}) (?P<verb>{_DOES})e?s (?P<who>.{{2,60}})$")
_PASSIVE = re.compile(rf"^(?P<who>.{{2,60}}?) (?:is|are) (?P<verb>\w+) by (?P<value>{_NAME})$")
_IRREGULAR: Final = {"led": "lead", "taught": "teach", "held": "hold", "done": "do", "run": "run"}
_PLACE = re.compile(
    r"^(?P<head>.+) (?P<how>in|on|at|with|from|to|by|under) (?P<value>(?:(?:the|a|an|its|our|my) )?[^,;:]+)$",
    re.IGNORECASE,
)
_STAYS = re.compile(
    r"\b(?:is|are|am|lives?|hangs?|lies?|sits?|stands?|stays?|parked|stored|kept|located|based|hosted|installed)$",
    re.IGNORECASE,
)
# Words that say nothing of what is spoken of; what a frame is made of besides search words.
_PLAIN: Final = frozenset(
    content_words("new now currently has have takes place happens moved changed service")
)
_HARD: Final = frozenset(
    "before after until from by within least most over under between above below".split()
)
# Stands where a time, a day or a date stood.
_TAKEN: Final = " … "
_LABELS_OF_NOTHING: Final = frozenset(
    "todo bug issue example warning summary title question answer idea topic error caution tip hiring attendees present"
    " guests call meeting book film song reading http https".split()
)


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """What one sentence puts into a frame."""

    note: Note
    place: int
    sentence: str
    # What is spoken of, as it is written.
    subject: str
    kind: str
    frame: frozenset[str]
    value: str
    # Whether it says that it is so now.
    is_news: bool
    # Of a place: whether only one can hold even if nothing says "now".
    is_single: bool = True
    # Besides: the other things it says of when.
    when: tuple[str, ...] = ()
    day: date | None = None
    unit: str = ""


def read_fillings(reading: Reading) -> list[Filling]:
    """What the sentences of all notes put into frames, in order."""
    return [
        filling
        for sentence in reading.sentences
        for filling in fillings_of(sentence.note, sentence.place, sentence.text)
    ]


def fillings_of(note: Note, place: int, text: str) -> Iterator[Filling]:
    """What one sentence puts into frames: usually nothing, or one value."""
    if len(text) > _SENTENCE_CHARS_LIMIT or text.rstrip().endswith(("?", "？")) or is_code(text):
        return
    for clause in one_line(text).split("; "):
        plain = _LEAD.sub("", clause).strip().rstrip(".!。！;")
        since = _SINCE.match(plain)
        if since is not None:
            plain = f"{since['who']} {since['what']}"
        yield from _Clause(note, place, text, plain).fillings()


class _Clause:
    """One clause of a sentence, without its times, days and dates."""

    def __init__(self, note: Note, place: int, sentence: str, plain: str) -> None:
        self.note, self.place, self.sentence = note, place, sentence
        moved = _MOVED.match(plain)
        if moved is not None:
            plain = f"{moved['who']} is {moved['new']}"
        opening = _OPENING.match(plain)
        if opening is not None:
            plain = f"{opening['rest']} {opening['where']}"
        plain = _TAIL.sub("", plain)
        self.is_news = moved is not None or _NEWS.search(plain) is not None
        self.is_moved = moved is not None
        rest = _without_news(plain)
        self.is_plain = not (_NOT_NOW.search(rest) or _ORDERS.match(rest) or is_of_its_day(rest))
        if self.is_plain:
            self._read(rest)

    def _read(self, rest: str) -> None:
        """Take out what says when."""
        named = named_days(rest, self.note.at)
        self.days = [each for each in named if each.grain == "day" and not each.is_relative]
        for each in reversed(self.days):
            rest = f"{rest[: each.start]}{_TAKEN}{rest[each.end :]}"
        self.times = [_clock(match) for match in _TIME.finditer(rest)]
        rest = _TIME.sub(_TAKEN, rest)
        self.weekdays = [
            f"{_which(match)}{match['day'].lower()}" for match in _WEEKDAY.finditer(rest)
        ]
        self.rest = " ".join(_WEEKDAY.sub(_TAKEN, rest).split())

    def fillings(self) -> Iterator[Filling]:
        if self.is_plain:
            yield from self._when()
            yield from self._numbers()
            yield from self._names()

    def _filling(self, kind: str, about: str, value: str, **more: object) -> Iterator[Filling]:
        frame = frozenset(
            (*_frame_words(about), *(_HARD & markers(about)), *(_HARD & set(about.lower().split())))
        )
        words = [word for word in frame if word not in _HARD]
        if value and words and len(frame) <= _FRAME_WORDS_LIMIT:
            yield Filling(
                note=self.note,
                place=self.place,
                sentence=self.sentence,
                subject=" ".join(about.replace(_TAKEN.strip(), " ").split()),
                kind=kind,
                frame=frame,
                value=value,
                is_news=self.is_news,
                when=(*self.weekdays, *self.times),
                **more,  # type: ignore[arg-type]
            )

    def _when(self) -> Iterator[Filling]:
        if _SEVERAL.search(self.rest) or not (self.is_moved or _is_statement(self.rest)):
            return
        if self.times:
            yield from self._filling("time", self.rest, " ".join(self.times))
        if self.weekdays:
            yield from self._filling("weekday", self.rest, " ".join(sorted(self.weekdays)))
        if len(self.days) == 1:
            yield from self._filling(
                "date", self.rest, self.days[0].day.isoformat(), day=self.days[0].day
            )

    def _numbers(self) -> Iterator[Filling]:
        if _SEVERAL.search(self.rest):
            return
        for match in NUMBER.finditer(self.rest):
            before, after = self.rest[: match.start()].rstrip(), self.rest[match.end() :]
            is_last = _AFTER_NUMBER.match(after) is not None and len(before.split()) > 1
            if before.endswith(":") or is_last or _HOLDS.search(before):
                unit = (
                    " ".join(content_words(match["unit"] or ""))
                    + (match["sign"] or "")
                    + (match["mark"] or "").strip()
                )
                about = f"{before.rstrip(':')} {match['unit'] or ''} {after}"
                value = match["number"].replace(",", "").replace("−", "-")
                yield from self._filling("number", about, value, unit=unit)

    def _names(self) -> Iterator[Filling]:
        if self.times or self.days or self.weekdays:
            return
        label = _LABEL.match(self.rest)
        if label is not None:
            is_named = re.fullmatch(_NAME, label["value"]) is not None
            if is_named and label["who"].casefold() not in _LABELS_OF_NOTHING:
                yield from self._filling("person", label["who"], label["value"].casefold())
            return
        for pattern in (_IDENTITY, _ACTIVE, _PASSIVE):
            match = pattern.match(self.rest)
            if match is not None:
                verb = _verb(match.groupdict().get("verb") or "")
                yield from self._filling(
                    "person", f"{match['who']} {verb}", match["value"].casefold()
                )
                return
        place = _PLACE.match(self.rest)
        if (
            place is None
            or _SEVERAL.search(self.rest)
            or len(place["value"].split()) > _PLACE_WORDS_LIMIT
        ):
            return
        value, how = " ".join(content_words(place["value"])), place["how"].lower()
        if value and " and " not in place["value"] and " or " not in place["value"]:
            is_single = how in ("in", "on", "at") and _STAYS.search(place["head"]) is not None
            yield from self._filling("place", f"{place['head']} {how}", value, is_single=is_single)


def _is_statement(text: str) -> bool:
    """Whether there is more than a noun before what is said of when: "Lunch 12:00" is an entry of a diary."""
    return ":" in text or len(text.replace(_TAKEN.strip(), " ").split()) > 1


def _without_news(text: str) -> str:
    return " ".join(_NEWS.sub(" ", text).split())


def _frame_words(text: str) -> list[str]:
    return [word for word in content_words(text) if word not in _PLAIN and word != "s"]


def _which(match: re.Match[str]) -> str:
    which = (match["which"] or "").lower()
    return f"{which} " if which else ""


def _clock(match: re.Match[str]) -> str:
    hour, half = int(match["hour"]), (match["half"] or match["noon"] or "").lower()
    if half == "pm" and hour < 12:
        hour += 12
    return f"{hour:02d}:{match['minute'] or '00'}"


def _verb(form: str) -> str:
    """The verb of "leads", "led" and "supervised", roughly: the same for the active and the passive."""
    plain = _IRREGULAR.get(form.lower(), form.lower())
    return re.sub(r"(?:ed|e)$", "", plain)


def disputes(fillings: Iterable[Filling]) -> Iterator[tuple[Filling, Filling]]:
    """Pairs of different notes that fill one frame differently, the earlier first: each against the latest."""
    frames: dict[tuple[object, ...], list[Filling]] = defaultdict(list)
    for filling in fillings:
        frames[(filling.kind, filling.frame, filling.unit)].append(filling)
    for group in frames.values():
        latest = max(group, key=lambda each: (each.note.at, each.note.name, each.place))
        if latest.unit and len({each.value for each in group}) >= _READINGS:
            continue
        for earlier in group:
            if (
                earlier.note.name != latest.note.name
                and earlier.value != latest.value
                and _differ(earlier, latest)
            ):
                yield earlier, latest


def _differ(earlier: Filling, later: Filling) -> bool:
    """Whether two values cannot both hold."""
    if later.is_news:
        return True
    if later.kind == "place":
        return later.is_single
    if later.kind in ("weekday", "time", "number"):
        # On another day and at another time it may well be a second appointment.
        times = [{each for each in filling.when if ":" in each} for filling in (earlier, later)]
        days = [set(filling.when) - at for filling, at in zip((earlier, later), times, strict=True)]
        if later.kind == "weekday":
            return days[0].isdisjoint(days[1]) and (times[0] == times[1] or not all(times))
        return not all(days) or not days[0].isdisjoint(days[1])
    if later.kind == "date":
        # What has passed when the later note was written was another occasion.
        return earlier.day is not None and earlier.day >= utc_day(later.note.at)
    return True

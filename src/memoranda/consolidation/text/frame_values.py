"""Sentences that differ in one value only: a number, a time, a day, a date, a place, a person.

The **frame** of a sentence is the set of its content words without the value. It has no order, so "the deadline for the
grant" and "the grant's deadline" have one frame. Two notes that put different values into one frame are in dispute, if
only one value can hold:

    number   "runs PostgreSQL 14", "costs 39 euros", "unloads at dock 2"; the same unit, and behind the verb
    time     "starts at 8:15"
    weekday  "is every second Wednesday", against "moved to Thursdays"
    date     "is on 14 November"; a day without a year is the next one, and a day that has passed is another occasion
    person   "is led by Marek", "Marek leads …", "our vet is Dr. Hoffmann", "Nurse: Beatrix"
    place    "is on level 2", "hangs in the office"; of any verb, when the later note says that it is so now

Questions, suppositions, plans, past and denied statements, and references ("there", "it") give no value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final

import msgspec

from memoranda.consolidation.text.corpus import Corpus, content_words, is_past_event, markers
from memoranda.consolidation.text.note import MemoryNote, to_one_line
from memoranda.consolidation.text.sentences import is_code
from memoranda.model.calendar import utc_day
from memoranda.time_words.dates import find_days

# Characters of a sentence; a longer one has several clauses, whose words make no useful frame.
_SENTENCE_CHARS_LIMIT: Final = 300
# Words of a frame, and of the name of a place; longer ones never recur.
_FRAME_WORDS_LIMIT: Final = 12
_PLACE_WORDS_LIMIT: Final = 4
# The number of different values of one amount that makes them a series of measurements instead of a dispute.
_SERIES_VALUES: Final = 3

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
# "The prototype was ported, it uses Unity 2022 now": a past event, and the state since then.
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
# After the number and its unit only a rate may follow: "39 euros a month".
_AFTER_NUMBER = re.compile(r"(?:\s(?:a|an|per|each|every)(?:\s[^\W\d_]+)?)?\s*$")
_HOLDS = re.compile(
    r"\b(?:is|are|am|has|have|costs?|takes?|lasts?|needs?|requires?|uses?|runs?|keeps?|pays?|holds?|weighs?|measures?)\b",
    re.IGNORECASE,
)
# Verbs and adjectives that allow several values at once.
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
# Words without meaning for the topic, which are left out of a frame; and prepositions, which are added to it.
_PLAIN: Final = frozenset(
    content_words("new now currently has have takes place happens moved changed service")
)
_RELATION_WORDS: Final = frozenset(
    "before after until from by within least most over under between above below".split()
)
# Placeholder for a time, a day or a date.
_GAP: Final = " … "
_LABELS_OF_NOTHING: Final = frozenset(
    "todo bug issue example warning summary title question answer idea topic error caution tip hiring attendees present"
    " guests call meeting book film song reading http https user assistant human ai bot agent chatgpt claude gemini"
    " codex copilot".split()
)


class FrameValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that one sentence puts into a frame."""

    note: MemoryNote
    sentence_index: int
    sentence: str
    # The subject as written.
    subject: str
    kind: str
    frame: frozenset[str]
    value: str
    # True if the sentence states that the value is new ("now").
    is_news: bool
    # For a place: True if only one can hold even without "now".
    is_single: bool = True
    # The days and times that the sentence names.
    when: tuple[str, ...] = ()
    day: date | None = None
    unit: str = ""


def read_frame_values(corpus: Corpus) -> list[FrameValue]:
    """Return the frame values of all notes, in order."""
    return [
        filling
        for sentence in corpus.sentences
        for filling in parse_frame_values(sentence.note, sentence.index, sentence.text)
    ]


def parse_frame_values(note: MemoryNote, index: int, text: str) -> Iterator[FrameValue]:
    """Yield the frame values of one sentence: usually none or one."""
    if len(text) > _SENTENCE_CHARS_LIMIT or text.rstrip().endswith(("?", "？")) or is_code(text):
        return
    for clause in to_one_line(text).split("; "):
        plain_clause = _LEAD.sub("", clause).strip().rstrip(".!。！;")
        since = _SINCE.match(plain_clause)
        if since is not None:
            plain_clause = f"{since['who']} {since['what']}"
        yield from _Clause(note, index, text, plain_clause).frame_values()


class _Clause:
    """One clause of a sentence, without its times, days and dates."""

    def __init__(
        self, note: MemoryNote, sentence_index: int, sentence: str, plain_clause: str
    ) -> None:
        self.note, self.sentence_index, self.sentence = note, sentence_index, sentence
        moved = _MOVED.match(plain_clause)
        if moved is not None:
            plain_clause = f"{moved['who']} is {moved['new']}"
        opening = _OPENING.match(plain_clause)
        if opening is not None:
            plain_clause = f"{opening['rest']} {opening['where']}"
        plain_clause = _TAIL.sub("", plain_clause)
        self.is_news = moved is not None or _NEWS.search(plain_clause) is not None
        self.is_moved = moved is not None
        current_text = _without_news(plain_clause)
        self.is_plain = not (
            _NOT_NOW.search(current_text)
            or _ORDERS.match(current_text)
            or is_past_event(current_text)
        )
        if self.is_plain:
            self._extract_times(current_text)

    def _extract_times(self, text: str) -> None:
        """Replace days, dates and times by placeholders, and store them."""
        days = find_days(text, self.note.at)
        self.days = [day for day in days if day.grain == "day" and not day.is_relative]
        for day in reversed(self.days):
            text = f"{text[: day.start]}{_GAP}{text[day.end :]}"
        self.times = [_clock_time(match) for match in _TIME.finditer(text)]
        text = _TIME.sub(_GAP, text)
        self.weekdays = [
            f"{_ordinal(match)}{match['day'].lower()}" for match in _WEEKDAY.finditer(text)
        ]
        self.text = " ".join(_WEEKDAY.sub(_GAP, text).split())

    def frame_values(self) -> Iterator[FrameValue]:
        """Yield the values of the clause; none unless it states a present fact."""
        if self.is_plain:
            yield from self._times_and_days()
            yield from self._numbers()
            yield from self._names_and_places()

    def _make_value(
        self, kind: str, about: str, value: str, **fields: object
    ) -> Iterator[FrameValue]:
        """Yield the value with the frame of the text `about`; nothing if the frame is empty or too long."""
        frame = frozenset(
            (
                *_frame_words(about),
                *(_RELATION_WORDS & markers(about)),
                *(_RELATION_WORDS & set(about.lower().split())),
            )
        )
        words = [word for word in frame if word not in _RELATION_WORDS]
        if value and words and len(frame) <= _FRAME_WORDS_LIMIT:
            yield FrameValue(
                note=self.note,
                sentence_index=self.sentence_index,
                sentence=self.sentence,
                subject=" ".join(about.replace(_GAP.strip(), " ").split()),
                kind=kind,
                frame=frame,
                value=value,
                is_news=self.is_news,
                when=(*self.weekdays, *self.times),
                **fields,  # type: ignore[arg-type]
            )

    def _times_and_days(self) -> Iterator[FrameValue]:
        """Yield the time, the weekdays and the date as values."""
        if _SEVERAL.search(self.text) or not (self.is_moved or _is_statement(self.text)):
            return
        if self.times:
            yield from self._make_value("time", self.text, " ".join(self.times))
        if self.weekdays:
            yield from self._make_value("weekday", self.text, " ".join(sorted(self.weekdays)))
        if len(self.days) == 1:
            yield from self._make_value(
                "date", self.text, self.days[0].day.isoformat(), day=self.days[0].day
            )

    def _numbers(self) -> Iterator[FrameValue]:
        """Yield the numbers after a verb or a colon as values."""
        if _SEVERAL.search(self.text):
            return
        for match in NUMBER.finditer(self.text):
            before, after = self.text[: match.start()].rstrip(), self.text[match.end() :]
            is_last = _AFTER_NUMBER.match(after) is not None and len(before.split()) > 1
            if before.endswith(":") or is_last or _HOLDS.search(before):
                unit = (
                    " ".join(content_words(match["unit"] or ""))
                    + (match["sign"] or "")
                    + (match["mark"] or "").strip()
                )
                about = f"{before.rstrip(':')} {match['unit'] or ''} {after}"
                value = match["number"].replace(",", "").replace("−", "-")
                yield from self._make_value("number", about, value, unit=unit)

    def _names_and_places(self) -> Iterator[FrameValue]:
        """Yield a person or a place as the value."""
        if self.times or self.days or self.weekdays:
            return
        label = _LABEL.match(self.text)
        if label is not None:
            is_named = re.fullmatch(_NAME, label["value"]) is not None
            if is_named and label["who"].casefold() not in _LABELS_OF_NOTHING:
                yield from self._make_value("person", label["who"], label["value"].casefold())
            return
        for pattern in (_IDENTITY, _ACTIVE, _PASSIVE):
            match = pattern.match(self.text)
            if match is not None:
                verb = _verb_stem(match.groupdict().get("verb") or "")
                yield from self._make_value(
                    "person", f"{match['who']} {verb}", match["value"].casefold()
                )
                return
        location = _PLACE.match(self.text)
        if (
            location is None
            or _SEVERAL.search(self.text)
            or len(location["value"].split()) > _PLACE_WORDS_LIMIT
        ):
            return
        value, how = " ".join(content_words(location["value"])), location["how"].lower()
        if value and " and " not in location["value"] and " or " not in location["value"]:
            is_single = how in ("in", "on", "at") and _STAYS.search(location["head"]) is not None
            yield from self._make_value(
                "place", f"{location['head']} {how}", value, is_single=is_single
            )


def _is_statement(text: str) -> bool:
    """Return True if more than a noun stands before the time: "Lunch 12:00" is only an entry of a diary."""
    return ":" in text or len(text.replace(_GAP.strip(), " ").split()) > 1


def _without_news(text: str) -> str:
    """Return a text without words such as "now" and "new"."""
    return " ".join(_NEWS.sub(" ", text).split())


def _frame_words(text: str) -> list[str]:
    return [word for word in content_words(text) if word not in _PLAIN and word != "s"]


def _ordinal(match: re.Match[str]) -> str:
    which = (match["which"] or "").lower()
    return f"{which} " if which else ""


def _clock_time(match: re.Match[str]) -> str:
    hour, half = int(match["hour"]), (match["half"] or match["noon"] or "").lower()
    if half == "pm" and hour < 12:
        hour += 12
    return f"{hour:02d}:{match['minute'] or '00'}"


def _verb_stem(form: str) -> str:
    """Return an approximate stem of a verb, equal for "leads", "led" and "lead"."""
    base_form = _IRREGULAR.get(form.lower(), form.lower())
    return re.sub(r"(?:ed|e)$", "", base_form)


def find_disputes(fillings: Iterable[FrameValue]) -> Iterator[tuple[FrameValue, FrameValue]]:
    """Yield pairs of values of one frame from different notes, an earlier one and the latest."""
    frames: dict[tuple[object, ...], list[FrameValue]] = defaultdict(list)
    for filling in fillings:
        frames[(filling.kind, filling.frame, filling.unit)].append(filling)
    for group in frames.values():
        latest = max(
            group, key=lambda value: (value.note.at, value.note.name, value.sentence_index)
        )
        if latest.unit and len({value.value for value in group}) >= _SERIES_VALUES:
            continue
        for first_value in group:
            if (
                first_value.note.name != latest.note.name
                and first_value.value != latest.value
                and _is_dispute(first_value, latest)
            ):
                yield first_value, latest


def _is_dispute(first_value: FrameValue, second_value: FrameValue) -> bool:
    """Return True if two values cannot both hold."""
    if second_value.is_news:
        return True
    if second_value.kind == "place":
        return second_value.is_single
    if second_value.kind in ("weekday", "time", "number"):
        # Another day together with another time may be a second appointment.
        times = [
            {text for text in filling.when if ":" in text}
            for filling in (first_value, second_value)
        ]
        days = [
            set(filling.when) - clock
            for filling, clock in zip((first_value, second_value), times, strict=True)
        ]
        if second_value.kind == "weekday":
            return days[0].isdisjoint(days[1]) and (times[0] == times[1] or not all(times))
        return not all(days) or not days[0].isdisjoint(days[1])
    if second_value.kind == "date":
        # A date that had passed when the later note was written was another occasion.
        return first_value.day is not None and first_value.day >= utc_day(second_value.note.at)
    return True

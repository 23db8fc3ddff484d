"""The nine dream strategies of OAMS §6 and one of ours, without a model: the same bytes for the same notes.

    synthesize        merge what says the same into one text that keeps every different statement
    pattern_extract   surface what recurs: templates, figures, tags, rhythms
    insight_generate  state what follows from several notes and stands in none
    compress          keep the most telling sentences within a budget of tokens
    associate         link notes about the same, with the reason
    validate          show contradictions and corroborations with their sides
    evolve            put the later statement where a note is overtaken
    forecast          say what is planned, due again or on a line, with its basis
    reflect           describe the store itself
    vendor:statements what people stated in conversations, for review

A strategy that finds nothing says nothing. A writer may reword a result; it cannot change what the result rests on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.checking import evolve, validate
from memoranda.consolidation.strategies.dream import DEFAULT_OPTIONS, Dream, Options, Writer
from memoranda.consolidation.strategies.insights import insight_generate
from memoranda.consolidation.strategies.linking import associate
from memoranda.consolidation.strategies.merging import compress, synthesize
from memoranda.consolidation.strategies.outlook import forecast
from memoranda.consolidation.strategies.overview import reflect
from memoranda.consolidation.strategies.patterns import pattern_extract
from memoranda.consolidation.strategies.statements import statements
from memoranda.consolidation.text.note import Note, clean
from memoranda.consolidation.text.reading import Reading, markers, numbers
from memoranda.errors import InvalidInput

Strategy = Callable[[Reading, int, Options], list[Dream]]

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "synthesize": synthesize,
        "pattern_extract": pattern_extract,
        "insight_generate": insight_generate,
        "compress": compress,
        "associate": associate,
        "validate": validate,
        "evolve": evolve,
        "forecast": forecast,
        "reflect": reflect,
        "vendor:statements": statements,
    }
)
_WORD = re.compile(r"[^\W_]+")
_INSIDE = re.compile(r"(?<=[\w,;] )[^\W_]+")
_DENIALS: Final = frozenset("not no never none neither nor cannot without".split())
# A rewording may be somewhat longer than what it rewords.
_REWORDED_FACTOR: Final = 2
_REWORDED_EXTRA_CHARS: Final = 200


def run(
    strategy: str,
    notes: Sequence[Note],
    *,
    now: int,
    options: Options = DEFAULT_OPTIONS,
    writer: Writer | None = None,
) -> list[Dream]:
    """What a strategy makes of notes; `now` in milliseconds. The best results first, at most `options.limit`."""
    if strategy not in STRATEGIES:
        raise InvalidInput(f"the dream strategy must be one of {', '.join(STRATEGIES)}")
    reading = Reading(notes)
    found = STRATEGIES[strategy](reading, now, options)[: options.limit]
    if writer is None:
        return found
    by_name = {note.name: note for note in reading.notes}
    return [
        reworded(strategy, dream, [by_name[name] for name in dream.inputs], writer)
        for dream in found
    ]


def _names(text: str) -> set[str]:
    """Words with a capital inside a sentence."""
    return {word.casefold() for word in _INSIDE.findall(text) if word[0].isupper()}


def reworded(strategy: str, dream: Dream, notes: Sequence[Note], writer: Writer) -> Dream:
    """The dream in the writer's words, if those are usable; the found wording stays in the detail."""
    answer = writer.rewrite(strategy, dream, notes)
    if answer is None:
        return dream
    text = clean(answer).strip()
    limit = _REWORDED_FACTOR * len(dream.text) + _REWORDED_EXTRA_CHARS
    known = " \n".join((dream.text, *(note.text for note in notes)))
    # A number or a name that nobody wrote is invented, a lost "not" turns it round, and a longer text is no rewording.
    is_known = numbers(text) <= numbers(known) and _names(text) <= set(
        _WORD.findall(known.casefold())
    )
    is_denied_alike = bool(markers(text) & _DENIALS) == bool(markers(dream.text) & _DENIALS)
    if not text or len(text) > limit or not is_known or not is_denied_alike:
        return dream
    return replace(
        dream, text=text, detail={**dream.detail, "worded_by": "model", "found_text": dream.text}
    )

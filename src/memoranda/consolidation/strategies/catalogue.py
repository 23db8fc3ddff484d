"""The nine dream strategies of OAMS §6, without a model: values in, values out, the same bytes for the same notes.

    synthesize        merge what says the same into one text that keeps every different statement
    pattern_extract   surface what recurs: templates, figures, tags, rhythms
    insight_generate  state what follows from several notes and stands in none
    compress          keep the most telling sentences within a budget of tokens
    associate         link notes about the same, with the reason
    validate          show contradictions and corroborations with their sides
    evolve            put the later statement where a note is overtaken
    forecast          say what is planned, due again or on a line, with its basis
    reflect           describe the store itself

A strategy that finds nothing says nothing. A writer may reword a result; it cannot change what the result rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from memoranda.consolidation.strategies.checking import evolve, validate
from memoranda.consolidation.strategies.dream import Dream, Options, Writer
from memoranda.consolidation.strategies.insights import insight_generate
from memoranda.consolidation.strategies.linking import associate
from memoranda.consolidation.strategies.merging import compress, synthesize
from memoranda.consolidation.strategies.outlook import forecast
from memoranda.consolidation.strategies.overview import reflect
from memoranda.consolidation.strategies.patterns import pattern_extract
from memoranda.consolidation.text.note import Note, clean
from memoranda.consolidation.text.reading import Reading, numbers
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
    }
)
DEFAULT_OPTIONS: Final = Options()
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
    return [reworded(strategy, dream, [by_name[name] for name in dream.inputs], writer) for dream in found]


def reworded(strategy: str, dream: Dream, notes: Sequence[Note], writer: Writer) -> Dream:
    """The dream in the writer's words, if those are usable; the found wording stays in the detail."""
    answer = writer.rewrite(strategy, dream, notes)
    if answer is None:
        return dream
    text = clean(answer).strip()
    limit = _REWORDED_FACTOR * len(dream.text) + _REWORDED_EXTRA_CHARS
    known = numbers(dream.text).union(*(numbers(note.text) for note in notes))
    # A number that nobody wrote is invented; a longer text is no rewording.
    if not text or len(text) > limit or not numbers(text) <= known:
        return dream
    return replace(dream, text=text, detail={**dream.detail, "worded_by": "model", "found_text": dream.text})

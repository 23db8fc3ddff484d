"""The nine dream strategies of OAMS §6 and one of this project. All are deterministic and need no model.

    synthesize        merge duplicate notes into one text that keeps every different statement
    pattern_extract   find recurring templates, figures, tags and rhythms
    insight_generate  derive statements from several notes
    compress          keep the most informative sentences within a token budget
    associate         link notes about the same topic, with the reason
    validate          report contradictions and corroborations, with both sides
    evolve            replace statements that a later note has overtaken
    forecast          report plans, recurring events and trends, with their basis
    reflect           describe the store itself
    vendor:statements collect statements of people in conversations, for review

A strategy returns an empty list if it finds nothing. A writer may reword a result, but cannot change its inputs.

Everything is rule-based, so the same notes give the same results on every machine, and a result can be explained by the
notes that it names. A strategy reads a `Corpus` and has no other input; it must not use a clock, a random number or the
order of notes. Results are proposals: `service/consolidation` and people decide which of them are stored.

To add a strategy: write the function, add it to STRATEGIES, describe it in docs/explanation, and give it cases in
`tests/consolidation`, among them notes for which it must find nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import DEFAULT_OPTIONS, Dream, Options, Writer
from memoranda.consolidation.strategies.forecasting import forecast
from memoranda.consolidation.strategies.insights import insight_generate, statements
from memoranda.consolidation.strategies.linking import associate
from memoranda.consolidation.strategies.merging import compress, synthesize
from memoranda.consolidation.strategies.patterns import pattern_extract
from memoranda.consolidation.strategies.reflection import reflect
from memoranda.consolidation.strategies.validation import evolve, validate
from memoranda.consolidation.text.corpus import Corpus, markers, numbers
from memoranda.consolidation.text.note import MemoryNote, clean
from memoranda.errors import InvalidInput

Strategy = Callable[[Corpus, int, Options], list[Dream]]

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
# Strategies that also read turns of conversations.
_TURN_STRATEGIES: Final = frozenset(("compress", "reflect", "vendor:statements"))
_WORD = re.compile(r"[^\W_]+")
_INSIDE = re.compile(r"(?<=[\w,;] )[^\W_]+")
_DENIALS: Final = frozenset("not no never none neither nor cannot without".split())
# A rewording may have twice the characters of the original, and 200 more.
_REWORDED_FACTOR: Final = 2
_REWORDED_EXTRA_CHARS: Final = 200


def run_strategy(
    strategy: str,
    notes: Sequence[MemoryNote],
    *,
    now: int,
    options: Options = DEFAULT_OPTIONS,
    writer: Writer | None = None,
) -> list[Dream]:
    """Run a strategy and return its results, the best first, at most `options.limit`.

    `now` is in milliseconds since 1970. Raises InvalidInput for an unknown strategy.

    `notes` are all of one space. With a `writer` (a language model), texts are reworded, but only if no number and no
    name appears that the notes do not have.
    """
    if strategy not in STRATEGIES:
        raise InvalidInput(f"the dream strategy must be one of {', '.join(STRATEGIES)}")
    # Greetings and questions contradict and repeat each other without meaning anything, so most strategies read
    # statements only.
    reads_turns = strategy in _TURN_STRATEGIES
    corpus = Corpus([note for note in notes if reads_turns or not note.is_turn])
    dreams = STRATEGIES[strategy](corpus, now, options)[: options.limit]
    if writer is None:
        return dreams
    by_name = {note.name: note for note in corpus.notes}
    return [
        reword(strategy, dream, [by_name[name] for name in dream.inputs], writer)
        for dream in dreams
    ]


def _find_names(text: str) -> set[str]:
    """Return the capitalised words inside sentences, in lower case."""
    return {word.casefold() for word in _INSIDE.findall(text) if word[0].isupper()}


def reword(strategy: str, dream: Dream, notes: Sequence[MemoryNote], writer: Writer) -> Dream:
    """Return the dream in the words of the writer, if these are valid; the original text stays in `detail`.

    A rewording that is too long, empty or adds a fact is dropped without an error.
    """
    answer = writer.rewrite(strategy, dream, notes)
    if answer is None:
        return dream
    text = clean(answer).strip()
    limit = _REWORDED_FACTOR * len(dream.text) + _REWORDED_EXTRA_CHARS
    source_text = " \n".join((dream.text, *(note.text for note in notes)))
    # Reject new numbers and names, which are invented; a lost or new "not", which inverts the meaning; and long texts.
    is_known = numbers(text) <= numbers(source_text) and _find_names(text) <= set(
        _WORD.findall(source_text.casefold())
    )
    is_denied_alike = bool(markers(text) & _DENIALS) == bool(markers(dream.text) & _DENIALS)
    if not text or len(text) > limit or not is_known or not is_denied_alike:
        return dream
    return replace(
        dream, text=text, detail={**dream.detail, "worded_by": "model", "found_text": dream.text}
    )

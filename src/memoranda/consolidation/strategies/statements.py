"""vendor:statements: what people stated in conversations, each in their words and with who said it.

What an assistant said is no statement of anybody. Who speaks stands before what is said, as importers of conversations
write it; a sentence becomes a result only if a rule reads a present claim in it (`text.claims`). It is shown for review
like every result: nothing is taken for true because somebody said it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import Dream, Options, day_text, dream, memories
from memoranda.consolidation.text.claims import Claim, current
from memoranda.consolidation.text.note import Note, one_line
from memoranda.consolidation.text.reading import Reading

_SPOKEN: Final = re.compile(r"([^\W\d_][^:\n]{0,59}): (?=\S)")
_ASSISTANTS: Final = frozenset(
    "ai assistant agent bot chatgpt claude model system tool function".split()
)


def statements(reading: Reading, now: int, options: Options) -> list[Dream]:
    """One result for each claim that somebody made, with all the turns it was made in; the latest first."""
    del now, options
    speakers: dict[str, str] = {}
    spoken: list[Note] = []
    for note in reading.notes:
        match = _SPOKEN.match(note.text)
        if match is not None and match[1].casefold() not in _ASSISTANTS:
            speakers[note.name] = match[1]
            spoken.append(replace(note, text=note.text[match.end() :]))
    said: dict[tuple[object, ...], list[Claim]] = {}
    for claim in current(Reading(spoken)):
        said.setdefault((speakers[claim.note.name], *claim.statement, claim.is_denied), []).append(
            claim
        )
    groups = sorted(
        said.values(), key=lambda group: (-group[-1].note.at, group[-1].note.name, group[-1].place)
    )
    return [_result(group, speakers[group[-1].note.name]) for group in groups]


def _result(group: list[Claim], speaker: str) -> Dream:
    last = group[-1]
    turns = {claim.note.name: claim.note for claim in group}
    why = f"said by {speaker} on {day_text(last.note.at)}, in {memories(len(turns))}; not confirmed"
    return dream(f"{speaker}: {one_line(last.sentence)}", turns.values(), why=why, is_shared=True)

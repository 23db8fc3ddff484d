"""The strategy `vendor:statements`: claims that people made in conversations, in their words, with the speaker.

Notes of conversations begin with the name of the speaker and a colon, as the importers write them. Turns of assistants
are skipped. A sentence becomes a result only if it makes a present claim (`text.claims`). Like all results, statements
are shown for review and not taken as true.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    day_text,
    make_dream,
    memories_text,
)
from memoranda.consolidation.text.claims import Claim, current_claims
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote, to_one_line

_SPOKEN: Final = re.compile(r"([^\W\d_][^:\n]{0,59}): (?=\S)")
_ASSISTANTS: Final = frozenset(
    "ai assistant agent bot chatgpt claude model system tool function".split()
)


def statements(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return one result for each claim of a speaker, with all notes that contain it, the latest first."""
    del now, options
    speakers: dict[str, str] = {}
    spoken: list[MemoryNote] = []
    for note in corpus.notes:
        match = _SPOKEN.match(note.text)
        if match is not None and match[1].casefold() not in _ASSISTANTS:
            speakers[note.name] = match[1]
            spoken.append(replace(note, text=note.text[match.end() :]))
    claims_by_statement: dict[tuple[object, ...], list[Claim]] = {}
    for claim in current_claims(Corpus(spoken)):
        claims_by_statement.setdefault(
            (speakers[claim.note.name], *claim.statement, claim.is_denied), []
        ).append(claim)
    groups = sorted(
        claims_by_statement.values(),
        key=lambda group: (-group[-1].note.at, group[-1].note.name, group[-1].sentence_index),
    )
    return [_statement_dream(group, speakers[group[-1].note.name]) for group in groups]


def _statement_dream(group: list[Claim], speaker: str) -> Dream:
    """Return the dream of the equal claims of one speaker, in the words of the latest."""
    last = group[-1]
    turns = {claim.note.name: claim.note for claim in group}
    why = f"said by {speaker} on {day_text(last.note.at)}, in {memories_text(len(turns))}; not confirmed"
    return make_dream(
        f"{speaker}: {to_one_line(last.sentence)}", turns.values(), why=why, is_shared=True
    )

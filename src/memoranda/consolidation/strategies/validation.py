"""The strategies `validate` and `evolve`, which compare claims with each other.

Both work on the conflicts that `claims.find_conflicts` returns: two claims about the same subject that cannot both
hold. `validate` only reports them, with the statements that several notes agree on. `evolve` changes notes: if a later
note overtakes one sentence of an earlier note, it returns a revision of the earlier note with the later sentence in
place of its own. The other sentences stay unchanged.

A report names both sides of a contradiction with their days, and does not say who is right.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    count_text,
    day_text,
    make_dream,
    memories_text,
)
from memoranda.consolidation.text.claims import (
    Claim,
    ClaimConflict,
    find_agreements,
    find_conflicts,
    read_claims,
)
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote, clean, quote

_ENDS = (".", "!", "?", "…", "。", "！", "？")
_REASONS = {"values": "different values", "denial": "one denies the other"}


def validate(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return contradictions with both sides, then statements that several notes make."""
    del now, options
    claims = read_claims(corpus)
    contradictions = find_conflicts(corpus)
    disputed = {
        (claim.note.name, claim.sentence_index)
        for conflict in contradictions
        for claim in (conflict.earlier, conflict.later)
    }
    supported = sorted(
        find_agreements(claims),
        key=lambda group: (-len(group), group[0].note.at, group[0].note.name),
    )
    return [
        *(_contradiction(conflict) for conflict in contradictions),
        *(_corroboration(group, disputed) for group in supported),
    ]


def _contradiction(conflict: ClaimConflict) -> Dream:
    """Return the dream of a conflict, with both sentences."""
    first_claim, second_claim = conflict.earlier, conflict.later
    text = (
        f"Contradiction: {quote(first_claim.sentence)} ({day_text(first_claim.note.at)}) and "
        f"{quote(second_claim.sentence)} ({day_text(second_claim.note.at)}): {_REASONS[conflict.reason]}; "
        + (
            "neither is later."
            if first_claim.note.at == second_claim.note.at
            else "the second is later."
        )
    )
    return make_dream(
        text,
        (first_claim.note, second_claim.note),
        why="two present claims about the same that cannot both hold",
        finding="contradiction",
        reason=conflict.reason,
        subject=quote(second_claim.subject),
        sides=[quote(first_claim.sentence), quote(second_claim.sentence)],
    )


def _corroboration(group: Sequence[Claim], disputed: set[tuple[str, int]]) -> Dream:
    """Return the dream of a claim that several notes make."""
    latest = max(group, key=lambda claim: (claim.note.at, claim.note.name))
    sources = len({claim.note.source for claim in group if claim.note.source})
    support = memories_text(len(group)) + (f" from {sources} sources" if sources > 1 else "")
    is_disputed = any((claim.note.name, claim.sentence_index) in disputed for claim in group)
    text = (
        f"Corroborated: {quote(latest.sentence)} is what {support} say, last on {day_text(latest.note.at)}"
        + (", but another memory contradicts it." if is_disputed else ".")
    )
    return make_dream(
        text,
        [claim.note for claim in group],
        why=f"{count_text(len(group), 'claim')} with the same subject, verb and value",
        is_shared=True,
        finding="corroboration",
        memories=len(group),
        sources=sources,
        is_disputed=is_disputed,
    )


def evolve(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return revisions of notes in which a later note has overtaken a statement: the later sentence replaces it.

    Two cases are skipped. A sentence with several claims would lose the others. A note without another sentence would
    only repeat the later note.
    """
    del now, options
    claims = read_claims(corpus)
    claimed = Counter((claim.note.name, claim.sentence_index) for claim in claims)
    overtaken: dict[str, dict[int, ClaimConflict]] = defaultdict(dict)
    for conflict in find_conflicts(corpus):
        is_single = claimed[(conflict.earlier.note.name, conflict.earlier.sentence_index)] == 1
        if is_single and conflict.later.note.at > conflict.earlier.note.at:
            previous = overtaken[conflict.earlier.note.name].get(conflict.earlier.sentence_index)
            if previous is None or previous.later.note.at < conflict.later.note.at:
                overtaken[conflict.earlier.note.name][conflict.earlier.sentence_index] = conflict
    sentences: dict[str, list[str]] = defaultdict(list)
    for sentence in corpus.sentences:
        sentences[sentence.note.name].append(sentence.text)
    revisions = (
        _revision(note, sentences[note.name], changes)
        for note in corpus.notes
        if len(changes := overtaken.get(note.name, {})) < len(sentences[note.name]) and changes
    )
    return [revision for revision in revisions if revision is not None]


def _revision(
    note: MemoryNote, sentences: Sequence[str], changes: dict[int, ClaimConflict]
) -> Dream | None:
    """Return the revision of a note by sentence index; None if a sentence is not found in its text."""
    after = {index: change.later.sentence for index, change in changes.items()}
    text = _replace_sentences(note.text, sentences, after)
    if text is None:
        return None
    return make_dream(
        text,
        (note, *(change.later.note for change in changes.values())),
        why=f"{count_text(len(changes), 'statement')} overtaken by later ones",
        kind="revise",
        parent=note,
        changes=[
            {
                "before": quote(change.earlier.sentence),
                "after": quote(change.later.sentence),
                "on": day_text(change.later.note.at),
                "reason": change.reason,
            }
            for _, change in sorted(changes.items())
        ],
    )


def _replace_sentences(text: str, sentences: Sequence[str], after: dict[int, str]) -> str | None:
    """Replace sentences in a text, by their index; return None if a sentence is not found in the text."""
    body = clean(text)
    parts, cursor = [], 0
    for index, sentence in enumerate(sentences[: max(after) + 1]):
        match = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(body, cursor)
        if match is None:
            return None
        parts += [
            body[cursor : match.start()],
            _copy_end_mark(after[index], match[0]) if index in after else match[0],
        ]
        cursor = match.end()
    return "".join(parts) + body[cursor:]


def _copy_end_mark(text: str, before: str) -> str:
    """Add the final punctuation of the replaced sentence, so that the new one does not run into the next."""
    return text if text.endswith(_ENDS) or not before.endswith(_ENDS) else text + before[-1]

"""The strategies `synthesize` and `compress`, which shorten notes and use only their own sentences.

`synthesize` works on statements. Duplicate sentences of all notes are one statement; notes that share at least half of
the statements of one of them are joined into a group, and the text of a group has each statement once. `compress`
makes one summary of all notes within a budget of tokens (`summary.summarize`).

Merging loses nothing but repetition: every statement of the merged notes is in the result in the words of one of them,
and contradictions are named and kept side by side. It may run again on its own results and then changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    count_text,
    make_dream,
    memories_text,
)
from memoranda.consolidation.text.claims import find_conflicts
from memoranda.consolidation.text.corpus import Corpus, Sentence
from memoranda.consolidation.text.note import MemoryNote, quote
from memoranda.consolidation.text.sentences import join_statements
from memoranda.consolidation.text.similar import fold_duplicates
from memoranda.consolidation.text.summary import summarize

# The budget is at most the tokens of the text divided by this; a longer summary would not be shorter.
_COMPRESSED_SHARE: Final = 2
# Groups: a statement that more of them share is a stock phrase.
_STOCK_PHRASE_GROUPS: Final = 50
# Statements of a merged text. The limit also stops chains of notes that each share half with the next.
_MERGED_STATEMENTS_LIMIT: Final = 24
# The least share of common statements of two notes that are merged.
_SHARE: Final = 0.5
# Words that a statement needs to count for that share: a shorter one is too common.
_TELLING_WORDS: Final = 3


def synthesize(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Merge notes that share statements into one text with each different statement once.

    Two notes are merged if they share at least half of the statements of one of them. A common topic or phrase is not
    enough. A statement is left out only if an equal one is in the text.
    """
    del now, options
    representatives = fold_duplicates(corpus.sentences)
    statements_by_note: dict[str, set[int]] = {note.name: set() for note in corpus.notes}
    for sentence, root in zip(corpus.sentences, representatives, strict=True):
        statements_by_note[sentence.note.name].add(root)
    notes_by_statements: dict[frozenset[int], list[MemoryNote]] = defaultdict(list)
    for note in corpus.notes:
        if statements_by_note[note.name]:
            notes_by_statements[frozenset(statements_by_note[note.name])].append(note)
    dreams = []
    informative = frozenset(
        root for root in representatives if len(corpus.sentences[root].word_set) >= _TELLING_WORDS
    )
    for group in _merge_groups(list(notes_by_statements), informative):
        notes = [note for roots in group for note in notes_by_statements[roots]]
        if len(notes) > 1:
            sentences = [corpus.sentences[root] for root in sorted(frozenset().union(*group))]
            dreams.append(_merge_notes(notes, sentences))
    return dreams


def _merge_groups(
    statements: Sequence[frozenset[int]], informative: frozenset[int]
) -> list[list[frozenset[int]]]:
    """Group sets of statements, joining pairs until no pair shares enough. A second run changes nothing."""
    groups = {index: [roots] for index, roots in enumerate(statements)}
    statements_by_group = dict(enumerate(statements))
    has_joined = True
    while has_joined:
        has_joined = False
        touched: set[int] = set()
        for first, second in _find_sharing_pairs(statements_by_group, informative):
            if first in touched or second in touched:
                continue
            union = statements_by_group[first] | statements_by_group[second]
            if len(union) > _MERGED_STATEMENTS_LIMIT:
                continue
            touched |= {first, second}
            statements_by_group[first] = union
            groups[first] += groups.pop(second)
            del statements_by_group[second]
            has_joined = True
    return list(groups.values())


def _find_sharing_pairs(
    statements_by_group: Mapping[int, frozenset[int]], informative: frozenset[int]
) -> list[tuple[int, int]]:
    """Return the pairs that share at least half of the statements of one side, the largest share first.

    Only statements in `informative` count; scraps ("required", "see above") are shared by chance.
    """
    groups_by_statement: dict[int, list[int]] = defaultdict(list)
    for group, roots in statements_by_group.items():
        for root in sorted(roots & informative):
            groups_by_statement[root].append(group)
    shares: dict[tuple[int, int], float] = {}
    for sharing_groups in groups_by_statement.values():
        # A statement of very many notes is a stock phrase; only adjacent notes are compared, to keep this linear.
        reach = len(sharing_groups) if len(sharing_groups) <= _STOCK_PHRASE_GROUPS else 1
        for index, first in enumerate(sharing_groups):
            for second in sharing_groups[index + 1 : index + 1 + reach]:
                ours, other_statements = statements_by_group[first], statements_by_group[second]
                shares[(first, second)] = len(ours & other_statements & informative) / min(
                    len(ours), len(other_statements)
                )
    return sorted(
        (pair for pair, share in shares.items() if share >= _SHARE),
        key=lambda pair: (-shares[pair], pair),
    )


def _merge_notes(notes: Sequence[MemoryNote], sentences: Sequence[Sentence]) -> Dream:
    """Return the dream of a merged group of notes with the remaining sentences."""
    own_corpus = Corpus(notes)
    total = len(own_corpus.sentences)
    sources = len({note.source for note in notes if note.source})
    open_conflicts = [
        [quote(conflict.earlier.sentence), quote(conflict.later.sentence)]
        for conflict in find_conflicts(own_corpus)
    ]
    why = f"{count_text(total, 'statement')} in {memories_text(len(notes))}, {len(sentences)} without repetitions"
    figures: dict[str, Any] = {
        "memories": len(notes),
        "statements": total,
        "kept": len(sentences),
        "sources": sources,
    }
    if open_conflicts:
        figures["conflicts"] = open_conflicts
    text = join_statements([sentence.text for sentence in sentences])
    return make_dream(text, notes, why=why, is_shared=True, **figures)


def compress(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return one summary of all notes: their best sentences, unchanged and in order, within budget and half length."""
    total_tokens = options.count("\n".join(sentence.text for sentence in corpus.sentences))
    budget = min(options.budget_tokens, total_tokens // _COMPRESSED_SHARE)
    summary = summarize(corpus, budget_tokens=budget, now=now, count=options.count)
    if not summary.text:
        return []
    why = (
        f"{count_text(len(summary.sentences), 'sentence')} of {len(corpus.sentences)} kept from "
        f"{memories_text(len(corpus.notes))}: {summary.tokens} tokens instead of {total_tokens}"
    )
    figures: dict[str, Any] = {
        "memories": len(corpus.notes),
        "tokens": summary.tokens,
        "tokens_before": total_tokens,
        "budget_tokens": budget,
        "left_out": summary.left_out,
    }
    return [make_dream(summary.text, summary.notes, why=why, **figures)]

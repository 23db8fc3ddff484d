"""RECALL: its type and its clauses (sections 8.1, 9); conditions, options and stages have their own modules.

One function for each rule of the grammar, with the rule as its comment. (*Cn*) marks a correction of the printed
grammar; docs/standards/cal.md lists them. What can be said of a clause is said when it is read, so that the first
mistake in the text is the one reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.draft import Draft
from memoranda.standards.cal.language.stages import STAGES, StageParser
from memoranda.standards.cal.language.syntax import Between, HashOrParam, Namespace, Recall, Text, Thread


class RecallParser(StageParser):
    """Reads one RECALL."""

    __slots__ = ()

    def recall(self, depth: int = 0, *, in_coalesce: bool = False) -> Recall:
        """recall = RECALL [ MY ] [ type_plural ] { recall_clause } ;  (*C2: any order, each once, stages repeat*)"""
        self.keyword("RECALL")
        draft = Draft(depth, in_coalesce=in_coalesce)
        if self.word() == "MY":
            self.at += 1
            draft.my = True
            draft.seen.add("MY")
        draft.grain_type = self.type_plural()
        draft.fields = fields.fields_of(draft.grain_type, strict=self.strict)
        self.yields = "grains"
        while clause := _CLAUSES.get(self.tokens[self.at].upper()):
            clause(self, draft)
        found = draft.finish()
        if draft.extractor >= 0 and (problem := rules.extractor_problem(draft.grain_type, rules.type_asked(found))):
            raise self.error(problem, draft.extractor)
        return found

    def type_plural(self) -> str | None:
        """type_plural = 'beliefs' | … ;  absent when a clause or the end follows"""
        token = self.tokens[self.at]
        found = fields.PLURALS.get(token.lower())
        if found:
            self.at += 1
            return found
        upper = token.upper()
        is_word = token[:1].isalpha() and upper not in words.KEYWORDS and upper not in words.REFUSED
        if is_word and lexer.kind_of(token) is lexer.Kind.WORD:
            raise self.error(rules.unknown_type(token, plural=True))
        return None

    def once(self, draft: Draft, clause: str) -> None:
        """A clause may be given once, and not beside those it is another way of saying."""
        if clause in draft.seen:
            raise self.problem("CAL-E002", f"{self.word()} is given twice.", "Give each clause once.")
        self.alone(draft, clause)
        self.at += 1

    def in_clause(self) -> Namespace:
        """in_clause = IN ( STR | SCOPE STR ) ;"""
        self.keyword("IN")
        scoped = self.word() == "SCOPE"
        if scoped:
            self.at += 1
        return Namespace(name=self.string(), scoped=scoped)

    def _namespace(self, draft: Draft) -> None:
        self.once(draft, "IN")
        self.at -= 1
        draft.namespace = self.in_clause()

    def _about(self, draft: Draft) -> None:
        """ABOUT text"""
        self.once(draft, "ABOUT")
        draft.about = self.string_or_parameter()

    def _like(self, draft: Draft) -> None:
        """LIKE text"""
        self.once(draft, "LIKE")
        draft.like = self.string_or_parameter()

    def time(self) -> Text:
        """A text that must be a time expression."""
        place = self.at
        found = self.string_or_parameter()
        if type(found) is str and (problem := rules.time_problem(found)):
            raise self.error(problem, place)
        return found

    def _since(self, draft: Draft) -> None:
        """SINCE text"""
        self.once(draft, "SINCE")
        draft.since = self.time()

    def _between(self, draft: Draft) -> None:
        """BETWEEN value AND value"""
        self.once(draft, "BETWEEN")
        low, high = self.range(fields.COMMON["time"])
        draft.between = Between(low=low, high=high)

    def _thread(self, draft: Draft) -> None:
        """THREAD ( text | FROM hashp )"""
        place = self.at
        self.once(draft, "THREAD")
        if "session_id" not in draft.fields:
            raise self.error(rules.unknown_field("session_id", draft.grain_type, strict=self.strict), place)
        self.count_stages(draft, 1, place)
        if self.word() == "FROM":
            self.at += 1
            message: HashOrParam = self.hash_or_parameter()
            draft.thread = Thread(message=message)
        else:
            draft.thread = Thread(session=self.string_or_parameter())

    def _recent(self, draft: Draft) -> None:
        """RECENT ( INT | PARAM (*C16*) )"""
        self.once(draft, "RECENT")
        self.count_stages(draft, 2, self.at - 1)
        draft.recent = self.limited_count("RECENT")

    def _contradictions(self, draft: Draft) -> None:
        """CONTRADICTIONS"""
        self.once(draft, "CONTRADICTIONS")
        draft.contradictions = True

    def _format(self, draft: Draft) -> None:
        """AS format_name | FORMAT format_name (*C3: same clause as AS*)"""
        self.once(draft, "AS")
        # C17: the letter has the presets on ASSEMBLE only.
        draft.format = self.choice(words.FORMATS if self.strict else (*words.FORMATS, *words.PRESETS))

    def _where(self, draft: Draft) -> None:
        """where = WHERE condition { AND condition } ;"""
        self.once(draft, "WHERE")
        found = [self.condition(draft)]
        while self.tokens[self.at].upper() == "AND":
            self.at += 1
            if len(found) == limits.CONDITIONS:
                # Section 20: what weighs more is refused before it is run; so much of it need not even be read.
                raise self.problem(
                    "CAL-E012", f"A RECALL has at most {limits.CONDITIONS} conditions.", "Ask in several queries."
                )
            found.append(self.condition(draft))
        draft.where = tuple(found)

    def _with(self, draft: Draft) -> None:
        self.once(draft, "WITH")
        self.at -= 1
        draft.options = self.options(draft)


_CLAUSES: Final[Mapping[str, Callable[[RecallParser, Draft], None]]] = {
    "IN": RecallParser._namespace,
    "ABOUT": RecallParser._about,
    "LIKE": RecallParser._like,
    "SINCE": RecallParser._since,
    "BETWEEN": RecallParser._between,
    "THREAD": RecallParser._thread,
    "WHERE": RecallParser._where,
    "WITH": RecallParser._with,
    "RECENT": RecallParser._recent,
    "CONTRADICTIONS": RecallParser._contradictions,
    "AS": RecallParser._format,
    "FORMAT": RecallParser._format,
    "|": RecallParser._piped,
    **dict.fromkeys(STAGES, RecallParser.stage),
}


CLAUSE_WORDS: Final = tuple(word for word in _CLAUSES if word != "|")

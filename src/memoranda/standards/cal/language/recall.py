"""Parser of RECALL: its type and its clauses (sections 8.1, 9). Conditions, options and stages have their own modules.

There is one method per grammar rule, and its docstring quotes the rule. (*Cn*) marks a correction of the grammar as
printed; docs/standards/cal.md lists them. A rule about a clause is checked as soon as the clause is parsed, so the
error reported is the first one in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.draft import PartialRecall
from memoranda.standards.cal.language.stages import STAGE_PARSERS, StageParser
from memoranda.standards.cal.language.syntax import (
    Between,
    HashOrParam,
    NamespaceFilter,
    Recall,
    Text,
    Thread,
)


class RecallParser(StageParser):
    """Parser of one RECALL."""

    __slots__ = ()

    def parse_recall(self, depth: int = 0, *, in_coalesce: bool = False) -> Recall:
        """Parse `recall = RECALL [ MY ] [ type_plural ] { recall_clause } ;`.

        (*C2: clauses come in any order, each once; stages may repeat.*) `depth` counts the enclosing subqueries.
        """
        self.expect_keyword("RECALL")
        draft = PartialRecall(depth, in_coalesce=in_coalesce)
        if self.peek_keyword() == "MY":
            self.position += 1
            draft.my = True
            draft.seen_clauses.add("MY")
        draft.grain_type = self.parse_type_plural()
        draft.fields = fields.fields_of(draft.grain_type, strict=self.strict)
        self.result_kind = "grains"
        while clause := _CLAUSE_PARSERS.get(self.tokens[self.position].upper()):
            clause(self, draft)
        recall = draft.to_recall()
        if draft.extractor_position >= 0:
            problem = rules.check_extractor(draft.grain_type, rules.type_in_where(recall))
            if problem is not None:
                raise self.error_from(problem, draft.extractor_position)
        return recall

    def parse_type_plural(self) -> str | None:
        """Parse `type_plural = 'beliefs' | … ;`; return the singular, or None if a clause or the end follows."""
        token = self.tokens[self.position]
        singular = fields.PLURALS.get(token.lower())
        if singular:
            self.position += 1
            return singular
        keyword = token.upper()
        is_word = (
            token[:1].isalpha()
            and keyword not in words.KEYWORDS
            and keyword not in words.REFUSED_WORDS
        )
        if is_word and lexer.classify_token(token) is lexer.TokenKind.WORD:
            raise self.error_from(rules.unknown_type_problem(token, plural=True))
        return None

    def begin_clause(self, draft: PartialRecall, clause: str) -> None:
        """Move past the keyword of a clause; refuse a repeated clause and one that conflicts with another.

        Raises CAL-E002 for a clause that occurs twice.
        """
        if clause in draft.seen_clauses:
            raise self.new_error(
                "CAL-E002", f"{self.peek_keyword()} occurs twice.", "Use each clause once."
            )
        self.register_clause(draft, clause)
        self.position += 1

    def parse_in_clause(self) -> NamespaceFilter:
        """Parse `in_clause = IN ( STR | SCOPE STR ) ;`."""
        self.expect_keyword("IN")
        scoped = self.peek_keyword() == "SCOPE"
        if scoped:
            self.position += 1
        return NamespaceFilter(name=self.parse_string(), scoped=scoped)

    def _parse_namespace(self, draft: PartialRecall) -> None:
        """Parse the IN clause of a RECALL."""
        self.begin_clause(draft, "IN")
        self.position -= 1
        draft.namespace = self.parse_in_clause()

    def _parse_about(self, draft: PartialRecall) -> None:
        """Parse `ABOUT text`."""
        self.begin_clause(draft, "ABOUT")
        draft.about = self.parse_string_or_parameter()

    def _parse_like(self, draft: PartialRecall) -> None:
        """Parse `LIKE text`."""
        self.begin_clause(draft, "LIKE")
        draft.like = self.parse_string_or_parameter()

    def parse_time(self) -> Text:
        """Parse a text that must be a time expression."""
        start = self.position
        text = self.parse_string_or_parameter()
        if type(text) is str and (problem := rules.check_time(text)):
            raise self.error_from(problem, start)
        return text

    def _parse_since(self, draft: PartialRecall) -> None:
        """Parse `SINCE text`."""
        self.begin_clause(draft, "SINCE")
        draft.since = self.parse_time()

    def _parse_between(self, draft: PartialRecall) -> None:
        """Parse `BETWEEN value AND value`."""
        self.begin_clause(draft, "BETWEEN")
        low, high = self.parse_range(fields.COMMON_FIELDS["time"])
        draft.between = Between(low=low, high=high)

    def _parse_thread(self, draft: PartialRecall) -> None:
        """Parse `THREAD ( text | FROM hashp )`."""
        start = self.position
        self.begin_clause(draft, "THREAD")
        if "session_id" not in draft.fields:
            problem = rules.unknown_field_problem(
                "session_id", draft.grain_type, strict=self.strict
            )
            raise self.error_from(problem, start)
        self.count_stages(draft, 1, start)
        if self.peek_keyword() == "FROM":
            self.position += 1
            message: HashOrParam = self.parse_hash_or_parameter()
            draft.thread = Thread(message=message)
        else:
            draft.thread = Thread(session=self.parse_string_or_parameter())

    def _parse_recent(self, draft: PartialRecall) -> None:
        """Parse `RECENT ( INT | PARAM (*C16*) )`."""
        self.begin_clause(draft, "RECENT")
        self.count_stages(draft, 2, self.position - 1)
        draft.recent = self.parse_limited_count("RECENT")

    def _parse_contradictions(self, draft: PartialRecall) -> None:
        """Parse `CONTRADICTIONS`."""
        self.begin_clause(draft, "CONTRADICTIONS")
        draft.contradictions = True

    def _parse_format(self, draft: PartialRecall) -> None:
        """Parse `AS format_name | FORMAT format_name` (*C3: the same clause as AS*)."""
        self.begin_clause(draft, "AS")
        # C17: the printed grammar allows the presets on ASSEMBLE only.
        draft.format = self.parse_choice(
            words.FORMATS if self.strict else (*words.FORMATS, *words.PRESETS)
        )

    def _parse_where(self, draft: PartialRecall) -> None:
        """Parse `where = WHERE condition { AND condition } ;`."""
        self.begin_clause(draft, "WHERE")
        conditions = [self.parse_condition(draft)]
        while self.tokens[self.position].upper() == "AND":
            self.position += 1
            if len(conditions) == limits.CONDITIONS:
                # Section 20 refuses complex queries before they run. More conditions than this would be refused anyway.
                raise self.new_error(
                    "CAL-E012",
                    f"A RECALL has at most {limits.CONDITIONS} conditions.",
                    "Ask in several queries.",
                )
            conditions.append(self.parse_condition(draft))
        draft.where = tuple(conditions)

    def _parse_with(self, draft: PartialRecall) -> None:
        """Parse the WITH clause of a RECALL."""
        self.begin_clause(draft, "WITH")
        self.position -= 1
        draft.options = self.parse_options(draft)


_CLAUSE_PARSERS: Final[Mapping[str, Callable[[RecallParser, PartialRecall], None]]] = {
    "IN": RecallParser._parse_namespace,
    "ABOUT": RecallParser._parse_about,
    "LIKE": RecallParser._parse_like,
    "SINCE": RecallParser._parse_since,
    "BETWEEN": RecallParser._parse_between,
    "THREAD": RecallParser._parse_thread,
    "WHERE": RecallParser._parse_where,
    "WITH": RecallParser._parse_with,
    "RECENT": RecallParser._parse_recent,
    "CONTRADICTIONS": RecallParser._parse_contradictions,
    "AS": RecallParser._parse_format,
    "FORMAT": RecallParser._parse_format,
    "|": RecallParser._parse_piped_stage,
    **dict.fromkeys(STAGE_PARSERS, RecallParser.parse_stage),
}


CLAUSE_WORDS: Final = tuple(word for word in _CLAUSE_PARSERS if word != "|")

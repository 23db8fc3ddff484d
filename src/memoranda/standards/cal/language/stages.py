"""Parser of pipeline stages (sections 8.1, 10.3.5), and the kind of result that each stage returns.

Each stage changes the kind of the result: grains become values, rows, groups or a number. The parser follows that kind,
and refuses a stage that cannot follow the previous one at the position where the person wrote it. To add a stage: parse
it here, say which kinds it takes and returns, and add its JSON form (`wire`) and the code that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.draft import PartialRecall
from memoranda.standards.cal.language.options import OptionParser
from memoranda.standards.cal.language.syntax import (
    Count,
    GroupBy,
    Limit,
    Offset,
    OrderBy,
    Project,
    Reduce,
    Select,
    Stage,
)

# (stage, kind of its input) → kind of its result. A missing pair is refused as CAL-E021.
_LISTS: Final = ("grains", "rows", "values", "groups")
_RESULT_KINDS: Final[Mapping[tuple[str, str], str]] = {
    **{(stage, kind): kind for stage in ("LIMIT", "OFFSET") for kind in _LISTS},
    **{("COUNT", kind): "a count" for kind in _LISTS},
    **{("FIRST", kind): f"one of the {kind}" for kind in _LISTS},
    **{(stage, "grains"): "values" for stage in ("SUBJECTS", "OBJECTS", "HASHES")},
    ("SELECT", "grains"): "rows",
    ("SELECT", "one of the grains"): "one of the rows",
    ("ORDER", "grains"): "grains",
    ("ORDER", "rows"): "rows",
    ("GROUP", "grains"): "groups",
    ("PROJECT", "grains"): "grains",
    ("PROJECT", "one of the grains"): "one of the grains",
}


class StageParser(OptionParser):
    """Parser of the stages of a RECALL."""

    __slots__ = ()

    def _parse_piped_stage(self, draft: PartialRecall) -> None:
        """Parse `stage = [ '|' (*C1: pipe optional*) ] ( … ) ;`, here with its pipe."""
        self.position += 1
        parser = STAGE_PARSERS.get(self.peek_keyword())
        if parser is None:
            self.raise_unexpected(*STAGE_PARSERS)
        self.parse_stage(draft)

    def parse_stage(self, draft: PartialRecall) -> None:
        """Parse one stage and update the kind of result; refuse a stage that cannot follow the previous one.

        Raises CAL-E021 for a stage that does not work on the result so far.
        """
        word = self.peek_keyword()
        self.count_stages(draft, 1, self.position)
        result_kind = _RESULT_KINDS.get((word, self.result_kind))
        if result_kind is None:
            raise self.new_error(
                "CAL-E021",
                f"{word} does not work on {self.result_kind}.",
                "Put it earlier, or leave it out.",
            )
        self.register_clause(draft, word)
        start = self.position
        self.position += 1
        draft.stages.append(STAGE_PARSERS[word](self, draft))
        if word in ("SUBJECTS", "OBJECTS") and draft.extractor_position < 0:
            draft.extractor_position = start
        self.result_kind = result_kind

    def count_stages(self, draft: PartialRecall, count: int, position: int) -> None:
        """Count a stage and refuse more than five; RECENT counts as two, THREAD as one.

        Raises CAL-E012 beyond the limit.
        """
        draft.stage_count += count
        if draft.stage_count > limits.STAGES:
            raise self.new_error(
                "CAL-E012",
                f"A query has at most {limits.STAGES} stages (RECENT counts as two, THREAD as one).",
                "Leave one out.",
                position=position,
            )

    def _parse_select(self, draft: PartialRecall) -> Stage:
        """Parse `SELECT sfield { ',' sfield }`."""
        names = [self.parse_field_for(draft, "projectable")]
        while self.accept_comma():
            names.append(self.parse_field_for(draft, "projectable"))
        draft.selected_fields = tuple(names)
        return Select(fields=draft.selected_fields)

    def _parse_order(self, draft: PartialRecall) -> Stage:
        """Parse `ORDER BY sfield [ ASC | DESC ]`."""
        self.expect_keyword("BY")
        start = self.position
        name = self.parse_field_for(draft, "sortable")
        if self.result_kind == "rows" and name not in draft.selected_fields:
            raise self.new_error(
                "CAL-E021",
                f"{name} was not selected.",
                "Order before SELECT, or select it.",
                position=start,
            )
        word = self.peek_keyword()
        if word in ("ASC", "DESC"):
            self.position += 1
        return OrderBy(field=name, descending=word == "DESC")

    def parse_limited_count(self, word: str) -> Count:
        """Parse `INT | PARAM`, at most 1,000."""
        start = self.position
        count = self.parse_integer_or_parameter()
        if problem := rules.check_count(count, word):
            raise self.error_from(problem, start)
        return count

    def _parse_limit(self) -> Stage:
        """Parse `LIMIT ( INT | PARAM (*C16*) )`."""
        return Limit(count=self.parse_limited_count("LIMIT"))

    def _parse_offset(self) -> Stage:
        """Parse `OFFSET ( INT | PARAM )`."""
        return Offset(count=self.parse_integer_or_parameter(allows_zero=True))

    def _parse_group(self, draft: PartialRecall) -> Stage:
        """Parse `GROUP BY sfield`."""
        self.expect_keyword("BY")
        return GroupBy(field=self.parse_field_for(draft, "groupable"))

    def _parse_project(self, draft: PartialRecall) -> Stage:
        """Parse `PROJECT pspec { ',' pspec }`."""
        name_lists: dict[str, tuple[str, ...]] = {}
        while True:
            start = self.position
            # pspec = ( 'content' | 'attr' ) '(' pfield { ',' pfield } ')' ;
            part = self.parse_choice(("content", "attr"))
            if part in name_lists:
                raise self.new_error(
                    "CAL-E002", f"{part}(…) occurs twice.", "Use each once.", position=start
                )
            self.expect("(")
            names = [self.parse_projected_field(draft)]
            while self.tokens[self.position] == ",":
                self.position += 1
                names.append(self.parse_projected_field(draft))
            self.expect(")")
            name_lists[part] = tuple(names)
            if not self.accept_comma():
                return Project(content=name_lists.get("content"), attributes=name_lists.get("attr"))

    def parse_projected_field(self, draft: PartialRecall) -> str:
        """Parse `pfield = common_field | type_field | domain_field | projection attribute name (*C10*)
        | x_ID (*C10*) ;`.
        """
        token = self.tokens[self.position]
        kind = lexer.classify_token(token)
        name = token.lower()
        if kind is lexer.TokenKind.WORD and token.startswith(words.EXTENSION_PREFIX):
            self.position += 1
            return token
        if name in draft.fields:
            return self.parse_field_for(draft, "projectable")
        attribute_names = fields.PROJECTED_ALWAYS | fields.PROJECTED.get(
            draft.grain_type or "", frozenset()
        )
        is_domain = (
            kind is lexer.TokenKind.DOMAIN_FIELD
            and name.split(":")[0].upper() not in words.REFUSED_WORDS
        )
        if name not in attribute_names and not is_domain:
            raise self.unknown_field_error(draft.grain_type, attribute_names)
        self.position += 1
        return name


STAGE_PARSERS: Final[Mapping[str, Callable[[StageParser, PartialRecall], Stage]]] = {
    "SELECT": StageParser._parse_select,
    "ORDER": StageParser._parse_order,
    "LIMIT": lambda parser, _: parser._parse_limit(),
    "OFFSET": lambda parser, _: parser._parse_offset(),
    "COUNT": lambda *_: Reduce(to="count"),
    "FIRST": lambda *_: Reduce(to="first"),
    "SUBJECTS": lambda *_: Reduce(to="subjects"),
    "OBJECTS": lambda *_: Reduce(to="objects"),
    "HASHES": lambda *_: Reduce(to="hashes"),
    "GROUP": StageParser._parse_group,
    "PROJECT": StageParser._parse_project,
}

"""The stages of a pipeline, and what each makes of what it is given (sections 8.1, 10.3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import lexer, rules, words
from memoranda.standards.cal.language.draft import Draft
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

# What each stage makes of what it is given; a missing pair is CAL-E021.
_LISTS: Final = ("grains", "rows", "values", "groups")
_FLOW: Final[Mapping[tuple[str, str], str]] = {
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
    """Reads the stages of a RECALL."""

    __slots__ = ()

    def _piped(self, draft: Draft) -> None:
        """stage = [ '|' (*C1: pipe optional*) ] ( … ) ;"""
        self.at += 1
        reader = STAGES.get(self.word())
        if reader is None:
            self.unexpected(*STAGES)
        self.stage(draft)

    def stage(self, draft: Draft) -> None:
        """One stage, and what it makes of what comes before it."""
        word = self.word()
        self.count_stages(draft, 1, self.at)
        after = _FLOW.get((word, self.yields))
        if after is None:
            raise self.problem(
                "CAL-E021", f"{word} does not work on {self.yields}.", "Put it earlier, or leave it out."
            )
        self.alone(draft, word)
        place = self.at
        self.at += 1
        draft.stages.append(STAGES[word](self, draft))
        if word in ("SUBJECTS", "OBJECTS") and draft.extractor < 0:
            draft.extractor = place
        self.yields = after

    def count_stages(self, draft: Draft, count: int, at: int) -> None:
        """At most five stages; RECENT stands for two and THREAD for one."""
        draft.stage_count += count
        if draft.stage_count > limits.STAGES:
            raise self.problem(
                "CAL-E012",
                f"A query has at most {limits.STAGES} stages (RECENT counts as two, THREAD as one).",
                "Leave one out.",
                at=at,
            )

    def _select(self, draft: Draft) -> Stage:
        """SELECT sfield { ',' sfield }"""
        found = [self.used_field(draft, "projectable")]
        while self.more():
            found.append(self.used_field(draft, "projectable"))
        draft.selected = tuple(found)
        return Select(fields=draft.selected)

    def _order(self, draft: Draft) -> Stage:
        """ORDER BY sfield [ ASC | DESC ]"""
        self.keyword("BY")
        place = self.at
        name = self.used_field(draft, "sortable")
        if self.yields == "rows" and name not in draft.selected:
            raise self.problem("CAL-E021", f"{name} was not selected.", "Order before SELECT, or select it.", at=place)
        word = self.word()
        if word in ("ASC", "DESC"):
            self.at += 1
        return OrderBy(field=name, descending=word == "DESC")

    def limited_count(self, word: str) -> Count:
        """INT | PARAM, at most 1,000."""
        place = self.at
        count = self.integer_or_parameter()
        if problem := rules.count_problem(count, word):
            raise self.error(problem, place)
        return count

    def _limit(self) -> Stage:
        """LIMIT ( INT | PARAM (*C16*) )"""
        return Limit(count=self.limited_count("LIMIT"))

    def _offset(self) -> Stage:
        """OFFSET ( INT | PARAM )"""
        return Offset(count=self.integer_or_parameter(zero=True))

    def _group(self, draft: Draft) -> Stage:
        """GROUP BY sfield"""
        self.keyword("BY")
        return GroupBy(field=self.used_field(draft, "groupable"))

    def _project(self, draft: Draft) -> Stage:
        """PROJECT pspec { ',' pspec }"""
        found: dict[str, tuple[str, ...]] = {}
        while True:
            place = self.at
            # pspec = ( 'content' | 'attr' ) '(' pfield { ',' pfield } ')' ;
            what = self.choice(("content", "attr"))
            if what in found:
                raise self.problem("CAL-E002", f"{what}(…) is given twice.", "Give each once.", at=place)
            self.take("(")
            names = [self.projected_field(draft)]
            while self.tokens[self.at] == ",":
                self.at += 1
                names.append(self.projected_field(draft))
            self.take(")")
            found[what] = tuple(names)
            if not self.more():
                return Project(content=found.get("content"), attributes=found.get("attr"))

    def projected_field(self, draft: Draft) -> str:
        """pfield = common_field | type_field | domain_field | projection attribute name (*C10*) | x_ID (*C10*) ;"""
        token = self.tokens[self.at]
        kind = lexer.kind_of(token)
        name = token.lower()
        if kind is lexer.Kind.WORD and token.startswith(words.EXTENSION_PREFIX):
            self.at += 1
            return token
        if name in draft.fields:
            return self.used_field(draft, "projectable")
        own = fields.PROJECTED_ALWAYS | fields.PROJECTED.get(draft.grain_type or "", frozenset())
        is_domain = kind is lexer.Kind.DOMAIN_FIELD and name.split(":")[0].upper() not in words.REFUSED
        if name not in own and not is_domain:
            raise self.no_field(draft.grain_type, own)
        self.at += 1
        return name


STAGES: Final[Mapping[str, Callable[[StageParser, Draft], Stage]]] = {
    "SELECT": StageParser._select,
    "ORDER": StageParser._order,
    "LIMIT": lambda parser, _: parser._limit(),
    "OFFSET": lambda parser, _: parser._offset(),
    "COUNT": lambda *_: Reduce(to="count"),
    "FIRST": lambda *_: Reduce(to="first"),
    "SUBJECTS": lambda *_: Reduce(to="subjects"),
    "OBJECTS": lambda *_: Reduce(to="objects"),
    "HASHES": lambda *_: Reduce(to="hashes"),
    "GROUP": StageParser._group,
    "PROJECT": StageParser._project,
}

"""ASSEMBLE: sources, budget, priority, format, stream (sections 8.2, 10.1, 11.2)."""

from __future__ import annotations

from typing import Final, Literal, cast

from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, words
from memoranda.standards.cal.language.recall import CLAUSE_WORDS
from memoranda.standards.cal.language.syntax import Assemble, Budget, Option, Param, Recall, Source, Stream, Template
from memoranda.standards.cal.language.template_parser import TemplateParser

TRAILING: Final = ("BUDGET", "PRIORITY", "FORMAT", "STREAM", "WITH")


class AssembleParser(TemplateParser):
    """Reads one ASSEMBLE."""

    __slots__ = ()

    def must_yield_grains(self, what: str, at: int) -> None:
        """Whether the RECALL just read yields grains."""
        if self.yields != "grains":
            message = f"{what} works on grains, and this query yields {self.yields}."
            raise self.problem("CAL-E021", message, "Leave out the last stage.", at=at)

    def assemble(self) -> Assemble:
        """assemble = ASSEMBLE [ ID ] [ FOR STR ] FROM source { ',' source } { … } ;"""
        self.keyword("ASSEMBLE")
        name = None if self.word() in ("FOR", "FROM") else self.name("the name of a context")
        intent = self.intent() if self.word() == "FOR" else None
        self.keyword("FROM")
        sources = self.sources()
        trailing: dict[str, object] = {}
        while (word := self.word()) in TRAILING:
            if word in trailing:
                raise self.problem("CAL-E002", f"{word} is given twice.", "Give each clause once.")
            # C20: in the letter of the grammar these come in this order.
            if self.strict and any(TRAILING.index(other) > TRAILING.index(word) for other in trailing):
                self.unexpected("the end of the query")
            trailing[word] = self._trailing(word, sources)
        return Assemble(
            name=name,
            intent=intent,
            sources=sources,
            budget=cast(Budget | None, trailing.get("BUDGET")),
            priority=cast(tuple[str, ...], trailing.get("PRIORITY", ())),
            format=cast(str | Template | None, trailing.get("FORMAT")),
            stream=cast(Stream | None, trailing.get("STREAM")),
            options=cast(tuple[Option, ...], trailing.get("WITH", ())),
        )

    def _trailing(self, word: str, sources: tuple[Source, ...]) -> object:
        if word == "BUDGET":
            return self.budget()
        if word == "PRIORITY":
            return self.priority(sources)
        if word == "FORMAT":
            return self.format_spec()
        if word == "STREAM":
            return self.stream()
        return self.options(None)

    def intent(self) -> str:
        """FOR STR"""
        self.at += 1
        place = self.at
        found = self.string()
        if len(found) > limits.INTENT_CHARS:
            message = f"The text after FOR has at most {limits.INTENT_CHARS} characters."
            raise self.problem("CAL-E002", message, "Shorten it.", at=place)
        return found

    def sources(self) -> tuple[Source, ...]:
        """source { ',' source }"""
        found: list[Source] = []
        labels: set[str] = set()
        while True:
            place = self.at
            if len(found) == limits.SOURCES:
                raise self.problem("CAL-E002", f"ASSEMBLE has at most {limits.SOURCES} sources.", "Leave one out.")
            source = self.source()
            label = label_of(source, len(found))
            if label in labels:
                raise self.problem("CAL-E002", f"The label {label} is given twice.", "Rename one.", at=place)
            labels.add(label)
            found.append(source)
            if self.tokens[self.at] != ",":
                return tuple(found)
            self.at += 1

    def source(self) -> Source:
        """source = [ label ':' ] ( '(' recall ')' | PARAM | '(' PARAM ')' (*C6*) ) ;"""
        label = self.label() if self.is_label() else None
        if self.tokens[self.at][:1] == "$":
            return Source(label=label, query=self.let_source())
        if self.tokens[self.at] != "(":
            self.unexpected("(", "a LET such as $name", *(() if label else ("a label",)))
        self.at += 1
        place = self.at
        if self.tokens[place][:1] == "$":
            query: Recall | Param = self.let_source()
        else:
            query = self.recall()
            self.must_yield_grains("A source", place)
        if self.tokens[self.at] != ")":
            self.unexpected(")", *CLAUSE_WORDS)
        self.at += 1
        return Source(label=label, query=query)

    def let_source(self) -> Param:
        """PARAM that a LET bound to grains"""
        place = self.at
        name = self.tokens[place][1:]
        if lexer.IDENTIFIER.fullmatch(name) and name not in self.lets:
            raise self.problem("CAL-E008", f"${name} is not bound by a LET.", "Bind it first: LET $x = RECALL …;")
        found = self.parameter()
        if self.lets[name] != "grains":
            raise self.problem(
                "CAL-E021",
                f"A source works on grains, and ${name} yields {self.lets[name]}.",
                "Leave out the last stage of the LET.",
                at=place,
            )
        return found

    def budget(self) -> Budget:
        """BUDGET INT ( 'tokens' | 'grains' )"""
        self.at += 1
        place = self.at
        amount = self.integer()
        unit = self.choice(words.BUDGET_UNITS)
        if amount > limits.BUDGET[unit]:
            message = f"A budget is at most {limits.BUDGET[unit]} {unit}."
            raise self.problem("CAL-E030", message, "Ask for less.", at=place)
        return Budget(amount=amount, unit=cast(Literal["tokens", "grains"], unit))

    def priority(self, sources: tuple[Source, ...]) -> tuple[str, ...]:
        """PRIORITY label { '>' label }"""
        known = [label_of(source, index) for index, source in enumerate(sources)]
        found: list[str] = []
        while not found or self.tokens[self.at] == ">":
            self.at += 1
            place = self.at
            label = self.label_word()
            if label not in known or label in found:
                message = f"No source is labelled {label}." if label not in known else f"{label} is given twice."
                hint = f"The labels are {', '.join(known)}."
                raise self.problem("CAL-E002", message, hint, at=place)
            found.append(label)
        return tuple(found)

    def format_spec(self) -> str | Template:
        """format_spec = format_name | TEMPLATE ID | TEMPLATE '{' section { section } '}' ;"""
        self.at += 1
        if self.word() != "TEMPLATE":
            return self.choice((*words.FORMATS, *words.PRESETS))
        self.at += 1
        if self.tokens[self.at] != "{":
            return Template(name=self.name("the name of a template"))
        self.at += 1
        sections = self.sections()
        self.take("}")
        return Template(sections=sections)

    def stream(self) -> Stream:
        """stream = STREAM [ '{' sopt { ',' sopt } '}' ] ;"""
        self.at += 1
        if self.tokens[self.at] != "{":
            return Stream()
        options: dict[str, None] = {}
        chunk_size: int | None = None
        while not (options or chunk_size) or self.tokens[self.at] == ",":
            self.at += 1
            # sopt = 'progress' | 'budget' | 'chunks' | 'all' | 'chunk_size' '=' INT ;
            name = self.tokens[self.at].lower()
            if name == "chunk_size":
                chunk_size = self.chunk_size()
                continue
            if name not in words.STREAM_OPTIONS:
                self._not_a_stream_option(name)
            self.at += 1
            options[name] = None
        self.take("}")
        return Stream(options=tuple(options) or ("all",), chunk_size=chunk_size)

    def _not_a_stream_option(self, name: str) -> None:
        known = (*words.STREAM_OPTIONS, "chunk_size")
        if lexer.kind_of(name) is not lexer.Kind.WORD or name.upper() in words.REFUSED:
            self.unexpected(*known)
        hint = suggest.did_you_mean(name, known) or f"The options are {', '.join(known)}."
        raise self.problem("CAL-E077", f"{lexer.shown(name)} is not an option of STREAM.", hint)

    def chunk_size(self) -> int:
        """'chunk_size' '=' INT"""
        self.at += 1
        self.take("=")
        place = self.at
        found = self.integer()
        if not limits.CHUNK_MIN <= found <= limits.CHUNK_MAX:
            message = f"chunk_size is from {limits.CHUNK_MIN} to {limits.CHUNK_MAX}."
            raise self.problem("CAL-E078", message, "Leave it out for 100.", at=place)
        return found


def label_of(source: Source, index: int) -> str:
    """A source without a label is called by its place, from 1."""
    return source.label or f"source_{index + 1}"

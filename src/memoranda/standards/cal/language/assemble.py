"""Parser of ASSEMBLE: sources, budget, priority, format, stream (sections 8.2, 10.1, 11.2).

One method for each rule of the grammar, which its docstring quotes; the methods leave the cursor after what they
parsed. ASSEMBLE contains complete RECALLs, so this class builds on the parsers of conditions and stages. A source must
return grains: that is checked where the source is parsed, because the position for the error is known only there.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, words
from memoranda.standards.cal.language.recall import CLAUSE_WORDS
from memoranda.standards.cal.language.syntax import (
    Assemble,
    AssembleSource,
    Budget,
    Option,
    Param,
    Recall,
    StreamOptions,
    TemplateFormat,
)
from memoranda.standards.cal.language.template_parser import TemplateParser

TRAILING_CLAUSES: Final = ("BUDGET", "PRIORITY", "FORMAT", "STREAM", "WITH")


class AssembleParser(TemplateParser):
    """Parser of one ASSEMBLE."""

    __slots__ = ()

    def require_grains(self, consumer: str, position: int) -> None:
        """Raise unless the RECALL parsed last returns grains; `consumer` names what needs them."""
        if self.result_kind != "grains":
            message = f"{consumer} works on grains, and this query yields {self.result_kind}."
            raise self.new_error(
                "CAL-E021", message, "Leave out the last stage.", position=position
            )

    def parse_assemble(self) -> Assemble:
        """Parse `assemble = ASSEMBLE [ ID ] [ FOR STR ] FROM source { ',' source } { … } ;`.

        Raises CAL-E002 for a clause that occurs twice.
        """
        self.expect_keyword("ASSEMBLE")
        name = (
            None
            if self.peek_keyword() in ("FOR", "FROM")
            else self.parse_name("the name of a context")
        )
        intent = self.parse_intent() if self.peek_keyword() == "FOR" else None
        self.expect_keyword("FROM")
        sources = self.parse_sources()
        trailing: dict[str, object] = {}
        while (word := self.peek_keyword()) in TRAILING_CLAUSES:
            if word in trailing:
                raise self.new_error("CAL-E002", f"{word} occurs twice.", "Use each clause once.")
            # C20: the printed grammar requires this order.
            if self.strict and any(
                TRAILING_CLAUSES.index(other) > TRAILING_CLAUSES.index(word) for other in trailing
            ):
                self.raise_unexpected("the end of the query")
            trailing[word] = self._parse_trailing(word, sources)
        return Assemble(
            name=name,
            intent=intent,
            sources=sources,
            budget=cast(Budget | None, trailing.get("BUDGET")),
            priority=cast(tuple[str, ...], trailing.get("PRIORITY", ())),
            format=cast(str | TemplateFormat | None, trailing.get("FORMAT")),
            stream=cast(StreamOptions | None, trailing.get("STREAM")),
            options=cast(tuple[Option, ...], trailing.get("WITH", ())),
        )

    def _parse_trailing(self, word: str, sources: tuple[AssembleSource, ...]) -> object:
        """Parse the clause after FROM that begins with the keyword."""
        if word == "BUDGET":
            return self.parse_budget()
        if word == "PRIORITY":
            return self.parse_priority(sources)
        if word == "FORMAT":
            return self.parse_format_spec()
        if word == "STREAM":
            return self.parse_stream()
        return self.parse_options(None)

    def parse_intent(self) -> str:
        """Parse `FOR STR`.

        Raises CAL-E002 for a text over the limit.
        """
        self.position += 1
        start = self.position
        intent = self.parse_string()
        if len(intent) > limits.INTENT_CHARS:
            message = f"The text after FOR has at most {limits.INTENT_CHARS} characters."
            raise self.new_error("CAL-E002", message, "Shorten it.", position=start)
        return intent

    def parse_sources(self) -> tuple[AssembleSource, ...]:
        """Parse `source { ',' source }`.

        Raises CAL-E002 for too many sources and for a label that occurs twice.
        """
        sources: list[AssembleSource] = []
        labels: set[str] = set()
        while True:
            start = self.position
            if len(sources) == limits.SOURCES:
                raise self.new_error(
                    "CAL-E002", f"ASSEMBLE has at most {limits.SOURCES} sources.", "Leave one out."
                )
            source = self.parse_source()
            label = label_of(source, len(sources))
            if label in labels:
                raise self.new_error(
                    "CAL-E002", f"The label {label} occurs twice.", "Rename one.", position=start
                )
            labels.add(label)
            sources.append(source)
            if self.tokens[self.position] != ",":
                return tuple(sources)
            self.position += 1

    def parse_source(self) -> AssembleSource:
        """Parse `source = [ label ':' ] ( '(' recall ')' | PARAM | '(' PARAM ')' (*C6*) ) ;`."""
        label = self.parse_label() if self.is_at_label() else None
        if self.tokens[self.position][:1] == "$":
            return AssembleSource(label=label, query=self.parse_let_source())
        if self.tokens[self.position] != "(":
            self.raise_unexpected("(", "a LET such as $name", *(() if label else ("a label",)))
        self.position += 1
        start = self.position
        if self.tokens[start][:1] == "$":
            query: Recall | Param = self.parse_let_source()
        else:
            query = self.parse_recall()
            self.require_grains("A source", start)
        if self.tokens[self.position] != ")":
            self.raise_unexpected(")", *CLAUSE_WORDS)
        self.position += 1
        return AssembleSource(label=label, query=query)

    def parse_let_source(self) -> Param:
        """Parse `PARAM`, the name of a LET that returns grains.

        Raises CAL-E008 for a name that no LET has bound, and CAL-E021 if its LET returns something other than grains.
        """
        start = self.position
        name = self.tokens[start][1:]
        if lexer.IDENTIFIER.fullmatch(name) and name not in self.let_kinds:
            raise self.new_error(
                "CAL-E008", f"${name} is not bound by a LET.", "Bind it first: LET $x = RECALL …;"
            )
        parameter = self.parse_parameter()
        if self.let_kinds[name] != "grains":
            raise self.new_error(
                "CAL-E021",
                f"A source works on grains, and ${name} yields {self.let_kinds[name]}.",
                "Leave out the last stage of the LET.",
                position=start,
            )
        return parameter

    def parse_budget(self) -> Budget:
        """Parse `BUDGET INT ( 'tokens' | 'grains' )`.

        Raises CAL-E030 for an amount over the limit of its unit.
        """
        self.position += 1
        start = self.position
        amount = self.parse_integer()
        unit = self.parse_choice(words.BUDGET_UNITS)
        if amount > limits.BUDGET[unit]:
            message = f"A budget is at most {limits.BUDGET[unit]} {unit}."
            raise self.new_error("CAL-E030", message, "Ask for less.", position=start)
        return Budget(amount=amount, unit=cast(Literal["tokens", "grains"], unit))

    def parse_priority(self, sources: tuple[AssembleSource, ...]) -> tuple[str, ...]:
        """Parse `PRIORITY label { '>' label }`.

        Raises CAL-E002 for a label that no source has, or that occurs twice.
        """
        labels = [label_of(source, index) for index, source in enumerate(sources)]
        priority: list[str] = []
        while not priority or self.tokens[self.position] == ">":
            self.position += 1
            start = self.position
            label = self.parse_label_word()
            if label not in labels or label in priority:
                message = (
                    f"No source is labelled {label}."
                    if label not in labels
                    else f"{label} occurs twice."
                )
                hint = f"The labels are {', '.join(labels)}."
                raise self.new_error("CAL-E002", message, hint, position=start)
            priority.append(label)
        return tuple(priority)

    def parse_format_spec(self) -> str | TemplateFormat:
        """Parse `format_spec = format_name | TEMPLATE ID | TEMPLATE '{' section { section } '}' ;`."""
        self.position += 1
        if self.peek_keyword() != "TEMPLATE":
            return self.parse_choice((*words.FORMATS, *words.PRESETS))
        self.position += 1
        if self.tokens[self.position] != "{":
            return TemplateFormat(name=self.parse_name("the name of a template"))
        self.position += 1
        sections = self.parse_sections()
        self.expect("}")
        return TemplateFormat(sections=sections)

    def parse_stream(self) -> StreamOptions:
        """Parse `stream = STREAM [ '{' sopt { ',' sopt } '}' ] ;`."""
        self.position += 1
        if self.tokens[self.position] != "{":
            return StreamOptions()
        options: dict[str, None] = {}
        chunk_size: int | None = None
        while not (options or chunk_size) or self.tokens[self.position] == ",":
            self.position += 1
            # sopt = 'progress' | 'budget' | 'chunks' | 'all' | 'chunk_size' '=' INT ;
            name = self.tokens[self.position].lower()
            if name == "chunk_size":
                chunk_size = self.parse_chunk_size()
                continue
            if name not in words.STREAM_OPTIONS:
                self._raise_unknown_stream_option(name)
            self.position += 1
            options[name] = None
        self.expect("}")
        return StreamOptions(options=tuple(options) or ("all",), chunk_size=chunk_size)

    def _raise_unknown_stream_option(self, name: str) -> None:
        """Raise the error for a name that is no option of STREAM."""
        options = (*words.STREAM_OPTIONS, "chunk_size")
        if (
            lexer.classify_token(name) is not lexer.TokenKind.WORD
            or name.upper() in words.REFUSED_WORDS
        ):
            self.raise_unexpected(*options)
        hint = suggest.did_you_mean(name, options) or f"The options are {', '.join(options)}."
        raise self.new_error(
            "CAL-E077", f"{lexer.quote_token(name)} is not an option of STREAM.", hint
        )

    def parse_chunk_size(self) -> int:
        """Parse `'chunk_size' '=' INT`.

        Raises CAL-E078 for a size outside of the limits.
        """
        self.position += 1
        self.expect("=")
        start = self.position
        size = self.parse_integer()
        if not limits.CHUNK_MIN <= size <= limits.CHUNK_MAX:
            message = f"chunk_size is from {limits.CHUNK_MIN} to {limits.CHUNK_MAX}."
            raise self.new_error("CAL-E078", message, "Leave it out for 100.", position=start)
        return size


def label_of(source: AssembleSource, index: int) -> str:
    """Return the label of a source; without one, `source_` and its number in FROM, from 1."""
    return source.label or f"source_{index + 1}"

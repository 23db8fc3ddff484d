"""DEFINE TEMPLATE, and templates inside ASSEMBLE (section 10.6)."""

from __future__ import annotations

from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, template, words
from memoranda.standards.cal.language.recall import RecallParser
from memoranda.standards.cal.language.syntax import DefineTemplate, Sections


class TemplateParser(RecallParser):
    """Reads the sections of a template, which are not made of tokens."""

    __slots__ = ()

    def define_template(self) -> DefineTemplate:
        """define_template = DEFINE TEMPLATE ID [ EXTENDS ( preset | ID ) ] section { section } ;"""
        self.keyword("DEFINE")
        self.keyword("TEMPLATE")
        place = self.at
        name = self.name("the name of a template")
        if name.lower() in words.FORMAT_NAMES:
            raise self.problem("CAL-E088", f"{name} is a format already.", "Choose another name.", at=place)
        extends = self.parent() if self.word() == "EXTENDS" else None
        return DefineTemplate(name=name, extends=extends, sections=self.sections())

    def parent(self) -> str:
        """EXTENDS ( preset | ID )"""
        self.at += 1
        token = self.tokens[self.at]
        name = token.lower()
        if lexer.kind_of(token) is not lexer.Kind.WORD or token.upper() in words.REFUSED:
            self.unexpected(*words.PRESETS)
        if name == "data":
            raise self.problem("CAL-E086", "data cannot be extended.", "Extend structured, readable or compact.")
        if name not in words.PRESETS:
            hint = suggest.did_you_mean(name, words.PRESETS) or "Extend structured, readable or compact."
            raise self.problem("CAL-E087", f"{lexer.shown(token)} cannot be extended; only presets can.", hint)
        self.at += 1
        return name

    def sections(self) -> Sections:
        """section { section }"""
        found: dict[str, str] = {}
        if self.word() not in words.SECTIONS:
            self.unexpected(*words.SECTIONS)
        begin = self.span(self.at).start
        while (word := self.word()) in words.SECTIONS:
            if word in found:
                raise self.problem("CAL-E095", f"{word} is given twice.", "Give each section once.")
            found[word] = self.section(word, begin)
        for word in ("ELEMENT_SUMMARY", "ELEMENT_OMIT"):
            if word in found and "ELEMENT" not in found:
                raise self.problem("CAL-E096", f"{word} needs an ELEMENT beside it.", "Add ELEMENT { … }.")
        return Sections(**{word.lower(): text for word, text in found.items()})

    def section(self, word: str, begin: int) -> str:
        """section = ( HEADER | ELEMENT | … ) '{' raw text '}' ;"""
        place = self.at
        self.at += 1
        if self.tokens[self.at] != "{":
            self.unexpected("{")
        start = self.span(self.at).end
        end = template.end_of_section(self.text, start)
        if end is None:
            raise self.problem("CAL-E091", f"{word} is not closed.", "Close it with }.", at=place)
        text = template.trim(self.text[start:end])
        if len(self.text[begin : end + 1].encode()) > limits.TEMPLATE_BYTES:
            message = f"A template has at most {limits.TEMPLATE_BYTES} bytes."
            raise self.problem("CAL-E092", message, "Shorten it.", at=place)
        if problem := template.text_problem(word, text):
            raise self.error(problem, place)
        self.restart(end + 1)
        return text

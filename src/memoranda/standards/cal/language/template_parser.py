"""Parser of DEFINE TEMPLATE, and of templates inside ASSEMBLE (section 10.6).

The text of a section is not CAL, so it is cut out of the query by its braces before its tags are parsed, and positions
in errors count from the beginning of the query. A template extends only a preset, so there are no chains and no cycles
to follow.
"""

from __future__ import annotations

from memoranda.standards.cal import limits
from memoranda.standards.cal.language import lexer, suggest, template, words
from memoranda.standards.cal.language.recall import RecallParser
from memoranda.standards.cal.language.syntax import DefineTemplate, Sections


class TemplateParser(RecallParser):
    """Parser of the sections of a template, whose text is not made of tokens."""

    __slots__ = ()

    def parse_define_template(self) -> DefineTemplate:
        """Parse `define_template = DEFINE TEMPLATE ID [ EXTENDS ( preset | ID ) ] section { section } ;`.

        Raises CAL-E088 for the name of a format.
        """
        self.expect_keyword("DEFINE")
        self.expect_keyword("TEMPLATE")
        start = self.position
        name = self.parse_name("the name of a template")
        if name.lower() in words.FORMAT_NAMES:
            raise self.new_error(
                "CAL-E088", f"{name} is a format already.", "Choose another name.", position=start
            )
        extends = self.parse_parent() if self.peek_keyword() == "EXTENDS" else None
        return DefineTemplate(name=name, extends=extends, sections=self.parse_sections())

    def parse_parent(self) -> str:
        """Parse `EXTENDS ( preset | ID )`; only presets can be extended.

        Raises CAL-E086 for `data`, and CAL-E087 for anything that is no preset.
        """
        self.position += 1
        token = self.tokens[self.position]
        name = token.lower()
        if (
            lexer.classify_token(token) is not lexer.TokenKind.WORD
            or token.upper() in words.REFUSED_WORDS
        ):
            self.raise_unexpected(*words.PRESETS)
        if name == "data":
            raise self.new_error(
                "CAL-E086", "data cannot be extended.", "Extend structured, readable or compact."
            )
        if name not in words.PRESETS:
            hint = (
                suggest.did_you_mean(name, words.PRESETS)
                or "Extend structured, readable or compact."
            )
            raise self.new_error(
                "CAL-E087",
                f"{lexer.quote_token(token)} cannot be extended; only presets can.",
                hint,
            )
        self.position += 1
        return name

    def parse_sections(self) -> Sections:
        """Parse `section { section }`.

        Raises CAL-E095 for a section that occurs twice, and CAL-E096 for one that needs an ELEMENT section.
        """
        texts: dict[str, str] = {}
        if self.peek_keyword() not in words.SECTIONS:
            self.raise_unexpected(*words.SECTIONS)
        begin = self.span_at(self.position).start
        while (word := self.peek_keyword()) in words.SECTIONS:
            if word in texts:
                raise self.new_error("CAL-E095", f"{word} occurs twice.", "Use each section once.")
            texts[word] = self.parse_section(word, begin)
        for word in ("ELEMENT_SUMMARY", "ELEMENT_OMIT"):
            if word in texts and "ELEMENT" not in texts:
                raise self.new_error(
                    "CAL-E096", f"{word} needs an ELEMENT section.", "Add ELEMENT { … }."
                )
        return Sections(**{word.lower(): text for word, text in texts.items()})

    def parse_section(self, word: str, template_start: int) -> str:
        """Parse `section = ( HEADER | ELEMENT | … ) '{' raw text '}' ;`.

        Raises CAL-E091 if the brace is not closed, and CAL-E092 for a text that is too long.
        """
        keyword_position = self.position
        self.position += 1
        if self.tokens[self.position] != "{":
            self.raise_unexpected("{")
        start = self.span_at(self.position).end
        end = template.find_section_end(self.text, start)
        if end is None:
            raise self.new_error(
                "CAL-E091", f"{word} is not closed.", "Close it with }.", position=keyword_position
            )
        text = template.trim_section(self.text[start:end])
        if len(self.text[template_start : end + 1].encode()) > limits.TEMPLATE_BYTES:
            message = f"A template has at most {limits.TEMPLATE_BYTES} bytes."
            raise self.new_error("CAL-E092", message, "Shorten it.", position=keyword_position)
        if problem := template.check_section(word, text):
            raise self.error_from(problem, keyword_position)
        self.restart_at(end + 1)
        return text

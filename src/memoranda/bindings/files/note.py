"""A note: plain Markdown as people write it, with or without properties at its top.

    ---
    title: How we deploy        properties of ours: title, kind, tags, id; every other line is the person's
    tags: [deploy]
    ---

    Deploy with `make release`. See [[Servers]]. #howto

A memory is the text between the blank lines at both ends. Everything else about the file (byte order mark, line ends,
blank lines, comments, the order and form of the properties) is kept as it is when one of them changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self, get_args
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from memoranda.bindings.files.properties import Properties, quoted
from memoranda.errors import InvalidInput
from memoranda.standards.ump.markdown import split_edges
from memoranda.standards.ump.shapes import MAX_NAME_CHARS, Kind

KINDS: Final[frozenset[str]] = frozenset(get_args(Kind))
OURS: Final = ("title", "kind", "tags", "tag", "id")
_BOM: Final = "\ufeff"
_FENCE = re.compile(r"---[ \t]*\r?\n")
_CLOSING_FENCE = re.compile(r"^---[ \t]*(?:\r?\n|\r?\Z)", re.MULTILINE)
_CODE_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"`+[^`\n]*`+")
# As Obsidian reads them: letters of every script, digits, - _ /, and not digits alone.
_TAG = re.compile(r"(?:^|(?<=[\s(]))#([\w/-]*[^\W\d][\w/-]*)")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#^\n]+)")
_LINK = re.compile(r"\]\(<?([^()<>#\s:]+)(?:#[^()<>\s]*)?>?\)")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One file, taken apart so that it can be put together again byte for byte."""

    # Byte order mark and opening fence; closing fence and blank lines; blank lines at the end.
    opening: str
    properties: Properties | None
    middle: str
    text: str
    ending: str
    newline: str
    # Why the properties are not understood; then they are left alone.
    problem: str = ""

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Take a file apart. Raises InvalidInput where it is not text."""
        try:
            source = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"not UTF-8 at line {data.count(10, 0, error.start) + 1}") from None
        if "\0" in source:
            raise InvalidInput("not a text: it holds a zero byte")
        bom = _BOM if source.startswith(_BOM) else ""
        opening, front, closing, body = _split(source.removeprefix(_BOM))
        newline = (
            "\r\n" if "\r\n" in source and source.count("\r\n") == source.count("\n") else "\n"
        )
        properties, problem = None, ""
        try:
            properties = Properties.parse(front) if opening else None
            if properties is not None:
                properties.words(_tags_key(properties))
        except InvalidInput as error:
            # Kept as it is, word for word.
            properties, opening, problem = None, opening + front, error.message
        if properties is None and not problem:
            # Rulers around a text, not properties.
            opening, closing, body = "", "", opening + front + closing + body
        before, core, after = split_edges(body)
        text = core.replace("\r\n", "\n") if newline == "\r\n" else core
        return cls(
            opening=bom + opening,
            properties=properties,
            middle=closing + before,
            text=text,
            ending=after,
            newline=newline,
            problem=problem,
        )

    @classmethod
    def new(cls, text: str, *, title: str, kind: str, tags: Sequence[str], name: str) -> Self:
        """The note of a memory that had none."""
        lines = [f"title: {quoted(title)}", f"kind: {kind}"]
        lines += [f"tags: [{', '.join(map(quoted, tags))}]"] if tags else []
        front = "\n".join([*lines, f"id: {name}", ""])
        made = cls.read(f"---\n{front}---\n".encode())
        return replace(made, middle=f"{made.middle}\n", ending="\n").changed(text=text)

    def data(self) -> bytes:
        """The file."""
        front = "" if self.properties is None else self.properties.source
        text = self.text.replace("\n", "\r\n") if self.newline == "\r\n" else self.text
        return f"{self.opening}{front}{self.middle}{text}{self.ending}".encode()

    # --- what it says --------------------------------------------------------------------------------

    @property
    def title(self) -> str | None:
        """The title that stands in the properties."""
        found = None if self.properties is None else self.properties.text("title")
        return " ".join(found.split())[:MAX_NAME_CHARS] or None if found else None

    @property
    def kind(self) -> str | None:
        """The kind of memory; any other word is the person's own."""
        found = None if self.properties is None else self.properties.text("kind")
        return found if found in KINDS else None

    @property
    def id(self) -> str | None:
        found = None if self.properties is None else self.properties.text("id")
        return found if found is not None and found.startswith("urn:ump:") else None

    @property
    def tags(self) -> tuple[str, ...] | None:
        """Those of the properties and those in the text; None where the properties are not understood."""
        if self.problem:
            return None
        found = (
            *(word.removeprefix("#") for word in self._words()),
            *_TAG.findall(_prose(self.text)),
        )
        return tuple(
            dict.fromkeys(
                tag for tag in found if tag and len(tag) < MAX_NAME_CHARS // 2 and tag.isprintable()
            )
        )

    def _words(self) -> tuple[str, ...]:
        return () if self.properties is None else self.properties.words(_tags_key(self.properties))

    # --- changing ------------------------------------------------------------------------------------

    def changed(
        self,
        *,
        text: str | None = None,
        title: str | None = None,
        tags: Iterable[str] | None = None,
    ) -> Self:
        """The same note saying something else; everything of the person stays. Raises InvalidInput where it cannot."""
        made = (
            self
            if text is None
            else replace(self, text=plain_text(text), ending=self.ending or self._end())
        )
        if not self.problem and (title is not None or tags is not None):
            made = self._with_properties(made, title, tags)
        if (
            made.properties is None
            and not self.problem
            and Note.read(made.data()).text != made.text
        ):
            # Its first lines would be taken for properties: with some before it they are not.
            made = self._fenced(made, Properties("", {}, flow_end=None, indent=0))
        if Note.read(made.data()).text != made.text:
            raise InvalidInput("its text cannot be written into this file")
        return made

    def _with_properties(self, made: Self, title: str | None, tags: Iterable[str] | None) -> Self:
        properties = self.properties or Properties("", {}, flow_end=None, indent=0)
        if title is not None and title != self.title:
            properties = properties.with_text("title", title, self.newline)
        if tags is not None:
            properties = properties.with_words(
                _tags_key(properties), self._wanted(tags, made.text), self.newline
            )
        if properties.source == (self.properties.source if self.properties else ""):
            return made
        if self.properties is None:
            return self._fenced(made, properties)
        if properties.others(OURS) != self.properties.others(OURS):
            raise InvalidInput("its properties are written in a way that cannot be changed here")
        return replace(made, properties=properties)

    def _fenced(self, made: Self, properties: Properties) -> Self:
        opening, middle = f"{self.opening}---{self.newline}", f"---{self.newline}{self.middle}"
        return replace(made, opening=opening, middle=middle, properties=properties)

    def _end(self) -> str:
        """A text that was empty had no end; one without a newline at its end stays so."""
        return "" if self.text else self.newline

    def _wanted(self, tags: Iterable[str], text: str) -> list[str]:
        """The words of the list: those that stay as they were written, and new ones that are not in the text."""
        wanted = list(tags)
        kept = [word for word in self._words() if word.removeprefix("#") in wanted]
        known = {*(word.removeprefix("#") for word in kept), *_TAG.findall(_prose(text))}
        return [*kept, *(tag for tag in wanted if tag not in known)]


def links_in(source: str) -> Iterator[tuple[bool, str]]:
    """What a note links to, in its text and in its properties: whether by a path, as Markdown does, and the target."""
    if "[[" in source or "](" in source:
        prose = _prose(source)
        yield from ((False, target.strip()) for target in _WIKI_LINK.findall(prose))
        yield from ((True, unquote(target)) for target in _LINK.findall(prose))


def plain_text(text: str) -> str:
    """A text as a note holds it: without blank lines around it, with one kind of line end if it had one."""
    core = split_edges(text)[1]
    return core.replace("\r\n", "\n") if core.count("\r\n") == core.count("\n") else core


def _split(source: str) -> tuple[str, str, str, str]:
    """Opening fence, properties, closing fence, rest; all but the rest empty where there are none."""
    opening = _FENCE.match(source)
    closing = _CLOSING_FENCE.search(source, opening.end()) if opening else None
    if opening is None or closing is None:
        return "", "", "", source
    return opening[0], source[opening.end() : closing.start()], closing[0], source[closing.end() :]


def _tags_key(properties: Properties) -> str:
    return "tag" if "tag" in properties and "tags" not in properties else "tags"


def _prose(text: str) -> str:
    """The text without code, where # and [[ mean something else."""
    if "`" not in text and "~~~" not in text:
        return text
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _CODE_FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
        elif found:
            fence = found[1]
        else:
            lines.append(line)
    return _CODE_SPAN.sub(" ", "\n".join(lines))


class Links:
    """Which file a link means, as Obsidian reads it: its path, the end of its path or its name, the nearest first."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.casefold(): name for name in names}
        self._by_stem: dict[str, list[str]] = {}
        for name in sorted(self._names.values(), key=lambda name: (name.count("/"), name)):
            self._by_stem.setdefault(stem(name).casefold(), []).append(name)

    def resolve(self, source: str, targets: Iterable[tuple[bool, str]]) -> list[str]:
        """The files that a note links to, itself not among them."""
        found = (self._path(source, to) if is_path else self._named(to) for is_path, to in targets)
        return list(dict.fromkeys(name for name in found if name and name != source))

    def _path(self, source: str, target: str) -> str | None:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target)).casefold()
        return self._names.get(path) or self._names.get(f"{path}.md")

    def _named(self, target: str) -> str | None:
        path = target.casefold().removesuffix(".md")
        if exact := self._names.get(f"{path}.md"):
            return exact
        found = self._by_stem.get(path.rsplit("/", 1)[-1], [])
        return next((each for each in found if f"/{each}".casefold().endswith(f"/{path}.md")), None)


def stem(name: str) -> str:
    """The name of a note without folder and ending: what it is called."""
    return re.sub(r"\.md\Z", "", name.rsplit("/", 1)[-1], flags=re.IGNORECASE)

"""A note: plain Markdown as people write it, with or without properties at its top.

    ---
    title: How we deploy        properties of ours: title, kind, tags, id; every other line is the person's
    tags: [deploy]
    ---

    Deploy with `make release`. See [[Servers]]. #howto

The text of the memory is the text between the blank lines at both ends. `Note` splits a file into parts that give the
same bytes again when they are joined; a change replaces one part. So everything else (byte order mark, line endings,
blank lines, comments, the order and form of the properties) stays as the person wrote it.

Test for every change here: parsing and writing any file must give the same bytes, and changing one property must leave
all others as they are, byte for byte. YAML of people is full of comments, odd quotes and tabs, which is why it is
edited as text and never written by a YAML library.
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

# Endings of the names of notes.
ENDINGS: Final = (".md", ".markdown")
_KINDS: Final[frozenset[str]] = frozenset(get_args(Kind))
# Properties that we read and change; all others belong to the person.
_OUR_PROPERTIES: Final = ("title", "kind", "tags", "tag", "id")
# Aliases of a note; more are not searched.
_MAX_ALIASES: Final = 16
_BOM: Final = "\ufeff"
_FENCE = re.compile(r"---[ \t]*\r?\n")
_CLOSING_FENCE = re.compile(r"^---[ \t]*(?:\r?\n|\r?\Z)", re.MULTILINE)
_CODE_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"`+[^`\n]*`+")
# A tag, by Obsidian's rules: letters of every script, digits, - _ /, and not digits alone.
_TAG = re.compile(r"(?:^|(?<=[\s(]))#([\w/-]*[^\W\d][\w/-]*)")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#^\n]+)")
_LINK = re.compile(r"\]\(<?([^()<>#\s:]+)(?:#[^()<>\s]*)?>?\)")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A file in parts that give the same bytes again when they are joined."""

    # Byte order mark and opening fence.
    opening: str
    properties: Properties | None
    # Closing fence and the blank lines after it.
    middle: str
    text: str
    # Blank lines at the end.
    ending: str
    newline: str
    # Set if the properties cannot be read: the reason. They are then a part of `opening`.
    problem: str = ""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Split a file into its parts. Raises InvalidInput if it is not text.

        A note whose properties cannot be read has `problem` set; its text still counts, its properties are left alone.
        """
        try:
            source = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"not UTF-8 at line {data.count(10, 0, error.start) + 1}") from None
        if "\0" in source:
            raise InvalidInput("not a text: it holds a zero byte")
        bom = _BOM if source.startswith(_BOM) else ""
        opening, front, closing, body = _split_front_matter(source.removeprefix(_BOM))
        has_crlf = "\r\n" in source and source.count("\r\n") == source.count("\n")
        properties, problem = None, ""
        try:
            properties = Properties.parse(front) if opening else None
            if properties is not None:
                properties.words(_tags_key(properties))
        except InvalidInput as error:
            properties, opening, problem = None, opening + front, error.message
        if properties is None and not problem:
            # Rules (---) around a text, not properties.
            opening, closing, body = "", "", opening + front + closing + body
        before, inner_text, after = split_edges(body)
        return cls(
            opening=bom + opening,
            properties=properties,
            middle=closing + before,
            text=inner_text.replace("\r\n", "\n") if has_crlf else inner_text,
            ending=after,
            newline="\r\n" if has_crlf else "\n",
            problem=problem,
        )

    @classmethod
    def create(cls, text: str, *, title: str, kind: str, tags: Sequence[str], name: str) -> Self:
        """Return a new note for a memory; `name` is the id of the memory."""
        lines = [f"title: {quoted(title)}", f"kind: {kind}"]
        lines += [f"tags: [{', '.join(map(quoted, tags))}]"] if tags else []
        front = "\n".join([*lines, f"id: {name}", ""])
        empty = cls.parse(f"---\n{front}---\n".encode())
        return replace(empty, middle=f"{empty.middle}\n", ending="\n").with_changes(text=text)

    def data(self) -> bytes:
        """Return the bytes of the file."""
        front = "" if self.properties is None else self.properties.source
        text = self.text.replace("\n", "\r\n") if self.newline == "\r\n" else self.text
        return f"{self.opening}{front}{self.middle}{text}{self.ending}".encode()

    # --- properties and tags -------------------------------------------------------------------------

    @property
    def title(self) -> str | None:
        """The title in the properties."""
        text = self._property("title")
        return " ".join(text.split())[:MAX_NAME_CHARS] or None if text else None

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases in the properties: other names of the note."""
        if self.problem or self.properties is None:
            return ()
        lists = (self.properties.entries(name) for name in ("aliases", "alias"))
        names = (" ".join(name.split())[:MAX_NAME_CHARS] for entries in lists for name in entries)
        return tuple(dict.fromkeys(filter(None, names)))[:_MAX_ALIASES]

    @property
    def kind(self) -> str | None:
        """The kind of memory in the properties; any other value of `kind` is the person's own."""
        kind = self._property("kind")
        return kind if kind in _KINDS else None

    @property
    def id(self) -> str | None:
        """The id of a memory in the properties; any other value of `id` is the person's own."""
        name = self._property("id")
        return name if name is not None and name.startswith("urn:ump:") else None

    @property
    def tags(self) -> tuple[str, ...] | None:
        """The tags in the properties and in the text; None if the properties cannot be read."""
        if self.problem:
            return None
        tags = (
            *(word.removeprefix("#") for word in self._tag_words()),
            *_TAG.findall(_prose(self.text)),
        )
        return tuple(
            dict.fromkeys(
                tag for tag in tags if tag and len(tag) < MAX_NAME_CHARS // 2 and tag.isprintable()
            )
        )

    def _property(self, name: str) -> str | None:
        return None if self.properties is None else self.properties.text(name)

    def _tag_words(self) -> tuple[str, ...]:
        """Return the list of tags in the properties as it is written there, some perhaps with #."""
        return () if self.properties is None else self.properties.words(_tags_key(self.properties))

    # --- changing ------------------------------------------------------------------------------------

    def with_changes(
        self,
        *,
        text: str | None = None,
        title: str | None = None,
        tags: Iterable[str] | None = None,
    ) -> Self:
        """Return the note with another text, title or tags; other parts stay.

        Raises InvalidInput if the file cannot state the change.

        None leaves a part as it is. The properties are added only if something must be stated there.
        """
        changed_note = self
        if text is not None:
            # An empty note gets a newline at its end; a text without one stays so.
            default_ending = "" if self.text else self.newline
            changed_note = replace(
                self, text=plain_text(text), ending=self.ending or default_ending
            )
        if not self.problem and (title is not None or tags is not None):
            changed_note = self._with_properties(changed_note, title, tags)
        if changed_note.properties is None and not self.problem and not _reads_back(changed_note):
            # The text begins like properties; after empty properties it does not.
            changed_note = self._with_fences(
                changed_note, Properties("", {}, flow_end=None, indent=0)
            )
        if not _reads_back(changed_note):
            raise InvalidInput("its text cannot be written into this file")
        return changed_note

    def _with_properties(
        self, changed_note: Self, title: str | None, tags: Iterable[str] | None
    ) -> Self:
        """Return a changed note with another title or tags in its properties.

        Raises InvalidInput if that would change another property.
        """
        properties = self.properties or Properties("", {}, flow_end=None, indent=0)
        if title is not None and title != self.title:
            properties = properties.with_text("title", title, self.newline)
        if tags is not None:
            words = self._merge_tags(tags, changed_note.text)
            properties = properties.with_words(_tags_key(properties), words, self.newline)
        if properties.source == (self.properties.source if self.properties else ""):
            return changed_note
        if self.properties is None:
            return self._with_fences(changed_note, properties)
        if properties.other_values(_OUR_PROPERTIES) != self.properties.other_values(
            _OUR_PROPERTIES
        ):
            raise InvalidInput(
                "its properties have a form that cannot be edited here; change them in the file"
            )
        return replace(changed_note, properties=properties)

    def _with_fences(self, changed_note: Self, properties: Properties) -> Self:
        """Return a changed note that had no properties with some, between fences."""
        opening, middle = f"{self.opening}---{self.newline}", f"---{self.newline}{self.middle}"
        return replace(changed_note, opening=opening, middle=middle, properties=properties)

    def _merge_tags(self, tags: Iterable[str], text: str) -> list[str]:
        """Return the tags for the properties: present ones as they are written, and new ones not in the text."""
        merged_tags = list(tags)
        present = [word for word in self._tag_words() if word.removeprefix("#") in merged_tags]
        present_tags = {*(word.removeprefix("#") for word in present), *_TAG.findall(_prose(text))}
        return [*present, *(tag for tag in merged_tags if tag not in present_tags)]


def _reads_back(note: Note) -> bool:
    """Return True if a parser finds the same text in the bytes of a note."""
    return Note.parse(note.data()).text == note.text


def links_in(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the targets of links in a note and its properties, each with True if it is a path, as in Markdown.

    Links inside code are no links.
    """
    if "[[" in source or "](" in source:
        prose = _prose(source)
        yield from ((False, target.strip()) for target in _WIKI_LINK.findall(prose))
        yield from ((True, unquote(target)) for target in _LINK.findall(prose))


def plain_text(text: str) -> str:
    """Return a text as a note holds it: without blank lines around it, and with LF if all its lines end in CR LF."""
    inner_text = split_edges(text)[1]
    return (
        inner_text.replace("\r\n", "\n")
        if inner_text.count("\r\n") == inner_text.count("\n")
        else inner_text
    )


def _split_front_matter(source: str) -> tuple[str, str, str, str]:
    """Split a note into opening fence, properties, closing fence and body; without fences all of it is the body."""
    opening = _FENCE.match(source)
    closing = _CLOSING_FENCE.search(source, opening.end()) if opening else None
    if opening is None or closing is None:
        return "", "", "", source
    return opening[0], source[opening.end() : closing.start()], closing[0], source[closing.end() :]


def _tags_key(properties: Properties) -> str:
    """Return the name of the property with the tags: `tags`, unless there is only `tag`."""
    return "tag" if "tag" in properties and "tags" not in properties else "tags"


def _prose(text: str) -> str:
    """Return a text without code, where # and [[ do not mark tags and links."""
    if "`" not in text and "~~~" not in text:
        return text
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _CODE_FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line[match.end() :].strip():
                fence = ""
        elif match:
            fence = match[1]
        else:
            lines.append(line)
    return _CODE_SPAN.sub(" ", "\n".join(lines))


class Links:
    """The notes of a folder, for resolving links by Obsidian's rules.

    A link states the path of a note, the end of its path, or its name; of several notes the one nearest to the top of
    the folder is meant.

    Comparisons ignore case, as Obsidian does.
    """

    def __init__(self, names: Iterable[str]) -> None:
        # Lower case → name; and all names with the same stem, nearest to the top first.
        self._names = {name.casefold(): name for name in names}
        self._by_stem: dict[str, list[str]] = {}
        for name in sorted(self._names.values(), key=lambda name: (name.count("/"), name)):
            self._by_stem.setdefault(stem(name).casefold(), []).append(name)

    def resolve(self, source: str, targets: Iterable[tuple[bool, str]]) -> list[str]:
        """Return the files that the targets of a note name, without the note itself; True marks a path."""
        names = (
            self._resolve_path(source, target) if is_path else self._resolve_name(target)
            for is_path, target in targets
        )
        return list(dict.fromkeys(name for name in names if name and name != source))

    def _resolve_path(self, source: str, target: str) -> str | None:
        """Return the file at a path that starts from the folder of the note."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target)).casefold()
        return self._find_file(path)

    def _resolve_name(self, target: str) -> str | None:
        """Return the file with a path from the top of the folder, or else the nearest whose path ends so."""
        path = without_ending(target.casefold())
        if exact := self._find_file(path):
            return exact
        names = self._by_stem.get(path.rsplit("/", 1)[-1], [])
        return next(
            (name for name in names if without_ending(f"/{name}".casefold()).endswith(f"/{path}")),
            None,
        )

    def _find_file(self, path: str) -> str | None:
        """Return the file at a path in lower case, which may lack its ending."""
        paths = (path, *(f"{path}{ending}" for ending in ENDINGS))
        return next((self._names[name] for name in paths if name in self._names), None)


def stem(name: str) -> str:
    """Return the name of a note without folders and ending."""
    return without_ending(name.rsplit("/", 1)[-1])


def without_ending(name: str) -> str:
    """Return the name of a note without its ending."""
    return re.sub(r"\.(?:md|markdown)\Z", "", name, flags=re.IGNORECASE)

"""The titles of a memory: the names under which people look for it, beside its text.

They come from the document: a title, aliases, tags, and the name of its file. Search weighs their words more than those
of the text. Keys that a program made, such as hashes and UUIDs, are no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

# Other names of a memory than its title, in the structured data of a record.
NAMES_KEY: Final = "memoranda:names"
# Fields of a document that name the memory as one text, and those that hold several names.
_TITLE_FIELDS: Final = ("title", "name", "heading")
_LIST_FIELDS: Final = ("aliases", "alias", NAMES_KEY, "tags", "keywords", "headings")
_FILE_FIELDS: Final = ("file", "filename", "file_name", "path", "permalink")
# Titles of a memory, and characters of each; longer texts are no names.
TITLES_LIMIT: Final = 32
TITLE_CHARS: Final = 200
# Tags that state properties for programs; their values are no words that people search for.
_PROPERTY_TAG: Final = re.compile(
    r"(?:archive|compacted-from|derived-from|legal|memoranda|mg|pii|phi|profile|reg|sec|source|subject|trigger|"
    r"visibility):"
)
# The ending of a file name, and a part that only a program writes: digits among letters, or a long number.
_FILE_ENDING: Final = re.compile(r"(?:\.(?:ump|oams))?\.[A-Za-z][A-Za-z0-9]{0,7}$")
_GENERATED_PART: Final = re.compile(r"(?=[^\W_]*\d)[^\W_]{8,}|[0-9a-f]{16,}|\bmem_[^\W_]+")
_SEPARATORS: Final = re.compile(r"[/\\_]+")


def collect_titles(
    fields: Mapping[str, object], tags: Iterable[str] = (), files: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the distinct titles in the fields of a document, its keys or file names, and its tags, the title first."""
    names = [
        *_texts_in(fields, _TITLE_FIELDS),
        *_texts_in(fields, _LIST_FIELDS),
        *(name_of_file(path) for path in (*_texts_in(fields, _FILE_FIELDS), *files)),
        *(tag for tag in tags if not _PROPERTY_TAG.match(tag)),
    ]
    distinct = dict.fromkeys(stripped for name in names if (stripped := name.strip()))
    return tuple(name for name in distinct if len(name) <= TITLE_CHARS)[:TITLES_LIMIT]


def title_in(fields: Mapping[str, object]) -> str:
    """Return the title that a document states; empty if it states none."""
    return next((text for text in _texts_in(fields, ("title", "name")) if text.strip()), "")


def name_of_file(path: str) -> str:
    """Return the words of a key or a path without its ending; empty if a program made them."""
    if len(path) > TITLE_CHARS or ":" in path or _GENERATED_PART.search(path):
        return ""
    return _SEPARATORS.sub(" ", _FILE_ENDING.sub("", path))


def _texts_in(fields: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """Return the texts under some names, each a text or a list of texts."""
    texts: list[str] = []
    for name in names:
        value = fields.get(name)
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list | tuple):
            texts += [item for item in value[:TITLES_LIMIT] if isinstance(item, str)]
    return texts

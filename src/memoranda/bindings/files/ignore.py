"""The list of files that a folder keeps from synchronisation and import: `.memorandaignore`, in the form of .gitignore.

    Templates/          a folder of this name, anywhere
    /Private/*.md       notes directly in one folder
    **/drafts/**        everything below folders of this name
    !Templates/Me.md    an exception, unless its folder is ignored
    # a comment

The last pattern that fits decides. Anybody with access to the folder may write patterns, so matching takes a
time that grows with the length of pattern and path only (no regular expressions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

import msgspec

from memoranda.bindings.files.folder import Folder
from memoranda.errors import InvalidInput, NotFound, TooLarge

IGNORE_FILE: Final = ".memorandaignore"
# Bytes and lines: the largest list; people write some dozen lines.
MAX_BYTES: Final = 65_536
MAX_PATTERNS: Final = 1_000
_ANY_FOLDERS: Final = "**"
_T = TypeVar("_T")
_V = TypeVar("_V")


class _CharSet(msgspec.Struct, frozen=True):
    """Characters that fit, as ranges; or all others."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool

    def fits(self, char: str) -> bool:
        """Return True if a character is among these."""
        return self.is_negated != any(first <= char <= last for first, last in self.ranges)


# A part of a file name: a character, a set of characters, "*" for any number of them, or "?" for one.
_Token = tuple[str, _CharSet | str]
_STAR: Final[_Token] = ("*", "")


class _Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    # The names of a path: a text to compare, tokens, or `_ANY_FOLDERS`.
    names: tuple[str | tuple[_Token, ...], ...]
    is_exception: bool
    only_folders: bool

    def fits(self, path: Sequence[str], *, is_folder: bool) -> bool:
        """Return True if a path, given by its names, fits completely."""
        if self.only_folders and not is_folder:
            return False
        return _match(self.names, path, lambda name: name == _ANY_FOLDERS, _name_fits)


class IgnoreList:
    """The patterns of a folder. Paths start from the folder, with / between the names."""

    def __init__(self, patterns: Sequence[_Pattern] = ()) -> None:
        # The last one first.
        self._patterns = tuple(reversed(patterns))
        self._folders: dict[str, bool] = {"": False}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the lines of an ignore file. Raises TooLarge if it has too many patterns."""
        lines = text.removeprefix("\ufeff").splitlines()
        patterns = [pattern for line in lines if (pattern := _parse_line(line)) is not None]
        if len(patterns) > MAX_PATTERNS:
            raise TooLarge(f"{IGNORE_FILE}: more than {MAX_PATTERNS} patterns")
        return cls(patterns)

    @classmethod
    def load(cls, folder: Folder) -> Self:
        """Return the list of a folder; an empty one if it has none. Raises InvalidInput or TooLarge."""
        try:
            data = folder.read_bytes(IGNORE_FILE, max_bytes=MAX_BYTES)
        except NotFound:
            return cls()
        try:
            return cls.parse(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise InvalidInput(f"{IGNORE_FILE}: not UTF-8") from None

    def matches(self, path: str) -> bool:
        """Return True if a file is ignored, itself or with one of its folders."""
        if not self._patterns:
            return False
        parent, _, _ = path.rpartition("/")
        return self._is_folder_ignored(parent) or self._decide(path, is_folder=False)

    def _is_folder_ignored(self, path: str) -> bool:
        if path not in self._folders:
            parent, _, _ = path.rpartition("/")
            self._folders[path] = self._is_folder_ignored(parent) or self._decide(
                path, is_folder=True
            )
        return self._folders[path]

    def _decide(self, path: str, *, is_folder: bool) -> bool:
        names = path.split("/")
        fitting = (
            pattern for pattern in self._patterns if pattern.fits(names, is_folder=is_folder)
        )
        pattern = next(fitting, None)
        return pattern is not None and not pattern.is_exception


def _parse_line(line: str) -> _Pattern | None:
    """Return the pattern of a line; None for a blank one and for a comment."""
    text = line.rstrip(" \t\r")
    if text.endswith("\\") and len(text) < len(line):
        # An escaped space at the end.
        text += line[len(text)]
    if not text or text.startswith("#"):
        return None
    is_exception = text.startswith("!")
    text = text[1:] if is_exception else text
    only_folders = text.endswith("/")
    text = text.rstrip("/") if only_folders else text
    is_anchored = "/" in text
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    if not is_anchored:
        names.insert(0, _ANY_FOLDERS)
    elif names[-1] == _ANY_FOLDERS:
        # Everything inside, and not the folder itself.
        names.append("*")
    return _Pattern(
        names=tuple(name if name == _ANY_FOLDERS else _parse_name(name) for name in names),
        is_exception=is_exception,
        only_folders=only_folders,
    )


def _parse_name(text: str) -> str | tuple[_Token, ...]:
    """Return the tokens of a name with wildcards; a name without any as it is."""
    tokens: list[_Token] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char == "\\" and index < len(text):
            tokens.append(("c", text[index]))
            index += 1
        elif char == "*":
            if tokens[-1:] != [_STAR]:
                tokens.append(_STAR)
        elif char == "?":
            tokens.append(("?", ""))
        elif char == "[" and (end := text.find("]", index + 1)) > 0:
            tokens.append(("s", _parse_set(text[index:end])))
            index = end + 1
        else:
            tokens.append(("c", char))
    if all(kind == "c" for kind, _ in tokens):
        return "".join(str(char) for _, char in tokens)
    return tuple(tokens)


def _parse_set(text: str) -> _CharSet:
    """Return the set between brackets: characters and ranges such as a-z, or after ! or ^ all others."""
    is_negated = text[0] in "!^"
    chars = text[1:] if is_negated else text
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(chars):
        is_range = index + 2 < len(chars) and chars[index + 1] == "-"
        ranges.append((chars[index], chars[index + 2] if is_range else chars[index]))
        index += 3 if is_range else 1
    return _CharSet(tuple(ranges), is_negated)


def _name_fits(pattern: str | tuple[_Token, ...], name: str) -> bool:
    if isinstance(pattern, str):
        return pattern == name
    return _match(pattern, name, lambda token: token == _STAR, _token_fits)


def _token_fits(token: _Token, char: str) -> bool:
    kind, value = token
    return kind == "?" or (value.fits(char) if isinstance(value, _CharSet) else value == char)


def _match(
    pattern: Sequence[_T],
    items: Sequence[_V],
    is_star: Callable[[_T], bool],
    fits: Callable[[_T, _V], bool],
) -> bool:
    """Return True if all items fit a pattern in which stars stand for any number of items.

    Only the last star is tried again, so the time is at most the product of both lengths.
    """
    at, position, star, retried = 0, 0, -1, 0
    while position < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, retried = at, position
            at += 1
        elif at < len(pattern) and fits(pattern[at], items[position]):
            at += 1
            position += 1
        elif star >= 0:
            retried += 1
            at, position = star + 1, retried
        else:
            return False
    return all(is_star(token) for token in pattern[at:])

"""Anthropic's memory tool (`memory_20250818`), kept in Memoranda: `/memories`, in which each file is a memory.

With the SDK's runner: `client.beta.messages.tool_runner(tools=[memory_tool(m)], …)`. Without it, `MemoryFiles(m)` runs
the commands that a model sends: `files.result(block.id, block.input)` is the block to send back. Texts and errors are
those of the tool's documentation, to the letter. There are no files and no paths: a name that leads out of `/memories`
leads nowhere. A folder is there as long as something is in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from memoranda.adapters import needs
from memoranda.app import Memoranda
from memoranda.encoding.untrusted import strip_invisible
from memoranda.errors import ForbiddenScope, MemorandaError, NotFound, VersionMismatch
from memoranda.standards.oams.requests import MAX_LIMIT

if TYPE_CHECKING:
    from memoranda.library.memories import OamsMemories
    from memoranda.service.oams.views import Shown
    from memoranda.standards.oams.memory import Memory

ROOT: Final = "/memories"
_INSIDE: Final = f"{ROOT}/"
_LINES_LIMIT: Final = 999_999
# Lines around a change that are shown with it.
_AROUND: Final = 2
_DEPTH: Final = 2
# Mostly the last of its own, which was seen before, and what others wrote meanwhile.
_FEW: Final = 4
_HIDDEN: Final = re.compile(r"(?:^|/)(?:\.[^/]*|node_modules)(?:/|$)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]")
_TEXTS: Final = frozenset(("file_text", "old_str", "new_str", "insert_text"))
# More than any memory's name; what is longer is not looked at.
_PATH_CHARS: Final = 4096
_UNITS: Final = ("B", "K", "M", "G")


class Refused(Exception):
    """What the model is told instead of a result."""


class MemoryFiles:
    """`/memories` over an open memory, in a project of its own."""

    def __init__(self, memoranda: Memoranda, *, project: str = "memories") -> None:
        self._memories = memoranda.oams
        self._place = str(memoranda.oams.namespace(project))
        self._names = _Names(memoranda, self._place)
        self._commands: Mapping[str, tuple[Callable[..., str], tuple[str, ...]]] = {
            "view": (self.view, ("path",)),
            "create": (self.create, ("path", "file_text")),
            "str_replace": (self.str_replace, ("path", "old_str", "new_str")),
            "insert": (self.insert, ("path", "insert_line", "insert_text")),
            "delete": (self.delete, ("path",)),
            "rename": (self.rename, ("old_path", "new_path")),
        }

    def result(self, tool_use_id: str, given: object) -> dict[str, Any]:
        """The block that answers a model's use of the tool."""
        answer = {"type": "tool_result", "tool_use_id": tool_use_id}
        try:
            return {**answer, "content": self.call(given)}
        except Refused as refused:
            return {**answer, "content": str(refused), "is_error": True}

    def call(self, given: object) -> str:
        """Run a command as a model sends it. Raises Refused with what the model is to be told."""
        said = given if isinstance(given, dict) else {}
        command, names = self._commands.get(str(said.get("command")), (None, ()))
        if command is None:
            raise Refused(f"Error: Unknown command: {said.get('command')}")
        arguments = {name: said[name] for name in names if name in said}
        for name in names:
            # Not whether it is one of its kind: to Python, True is a number.
            if type(arguments.get(name)) is not (int if name == "insert_line" else str):
                raise Refused(
                    f"Error: The parameter `{name}` is required for the command `{said['command']}`"
                )
            if name in _TEXTS and _SURROGATE.search(arguments[name]):
                raise Refused("Error: The text is not Unicode")
        if said["command"] == "view":
            arguments["view_range"] = _range(said.get("view_range"))
        try:
            return command(**arguments)
        except MemorandaError as error:
            raise Refused(f"Error: {error.message}") from None

    def view(self, path: str, view_range: tuple[int, int] | None = None) -> str:
        """What a folder holds, or what a file says, line by line."""
        name = _name(path)
        found = self._find(name)
        if found is None:
            return self._view_folder(path, name)
        lines = found.memory["value"].split("\n")
        if len(lines) > _LINES_LIMIT:
            raise Refused(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = view_range or (1, -1)
        first, last = max(1, first), len(lines) if last == -1 else max(0, last)
        return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"

    def create(self, path: str, file_text: str) -> str:
        """A new file."""
        name = _name(path)
        self._names.refresh()
        above = (each for each in _folders(name) if each in self._names.files)
        taken = next((each for each in above if self._find(each) is not None), None)
        if not name or taken is not None or (name in self._names.folders and self._is_folder(name)):
            raise Refused(
                f"Error: File {path if taken is None else f'{ROOT}/{taken}'} already exists"
            )
        try:
            self._memories.store(name, file_text, namespace=self._place, if_absent=True)
        except VersionMismatch:
            raise Refused(f"Error: File {path} already exists") from None
        self._names.wrote(name)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Another text in place of one that stands in a file once."""
        name = _name(path)
        found = self._find(name)
        if found is None:
            raise Refused(f"Error: The path {path} does not exist. Please provide a valid path.")
        text = found.memory["value"]
        places = [each.start() for each in re.finditer(re.escape(old_str), text)] if old_str else []
        if not places:
            raise Refused(
                f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
            )
        if len(places) > 1:
            numbers = ", ".join(str(text.count("\n", 0, each) + 1) for each in places)
            raise Refused(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {numbers}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old_str, new_str)
        self._rewrite(path, found, changed)
        line = text.count("\n", 0, places[0]) + 1
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(changed.split("\n"), max(1, line - _AROUND), line + _AROUND)
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """A text after a line of a file, or before the first (0)."""
        found = self._find(_name(path))
        if found is None:
            raise Refused(f"Error: The path {path} does not exist")
        lines = found.memory["value"].split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= insert_line <= len(lines):
            raise Refused(
                f"Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range of lines of the "
                f"file: [0, {len(lines)}]"
            )
        lines.insert(insert_line, insert_text.removesuffix("\n"))
        self._rewrite(path, found, "\n".join(lines) + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """A file, or a folder with all that is in it, is gone."""
        name = _name(path)
        if not name:
            raise Refused(f"Error: Cannot delete the {ROOT} directory itself")
        found = [each["key"] for each in self._below(name)]
        if not found:
            raise Refused(f"Error: The path {path} does not exist")
        for key in found:
            self._memories.forget(key, namespace=self._place)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Another name for a file or a folder; nothing is overwritten."""
        old, new = _name(old_path), _name(new_path)
        if not old:
            raise Refused(f"Error: Cannot rename the {ROOT} directory itself")
        found = list(self._below(old))
        if not found:
            raise Refused(f"Error: The path {old_path} does not exist")
        if any(True for _ in self._below(new)) or any(self._find(each) for each in _folders(new)):
            raise Refused(f"Error: The destination {new_path} already exists")
        if f"{new}/".startswith(f"{old}/"):
            raise Refused(f"Error: Cannot move {old_path} into itself")
        # First under the new name, so that nothing is ever under none.
        moved = [{**_kept(each), "key": new + each["key"].removeprefix(old)} for each in found]
        self._memories.batch_store(moved, namespace=self._place)
        for each in found:
            self._memories.forget(each["key"], namespace=self._place)
        return f"Successfully renamed {old_path} to {new_path}"

    def _view_folder(self, path: str, name: str) -> str:
        sizes: dict[str, int] = {"": 0}
        for each in self._below(name):
            inside = each["key"].removeprefix(name).lstrip("/")
            size = len(each["value"].encode())
            sizes[""] += size
            if _HIDDEN.search(inside):
                continue
            parts = inside.split("/")
            for depth in range(1, min(len(parts), _DEPTH) + 1):
                shown = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
                sizes[shown] = sizes.get(shown, 0) + size
        if name and not self._is_folder(name):
            raise Refused(f"The path {path} does not exist. Please provide a valid path.")
        head = (
            f"Here're the files and directories up to 2 levels deep in {path}, "
            "excluding hidden items and node_modules:"
        )
        base = path.rstrip("/")
        entries = [
            f"{_size(size)}\t{base}{inside and '/' + inside}"
            for inside, size in sorted(sizes.items())
        ]
        return "\n".join([head, *entries])

    def _find(self, name: str) -> Shown | None:
        """The file of this name; None if there is none, or a folder."""
        try:
            return self._memories.get(name, namespace=self._place) if name else None
        except NotFound:
            return None

    def _is_folder(self, name: str) -> bool:
        return any(each["key"].startswith(f"{name}/") for each in self._all())

    def _below(self, name: str) -> Iterator[Memory]:
        """The file of this name, or what is in the folder."""
        return (
            each for each in self._all() if not name or f"{each['key']}/".startswith(f"{name}/")
        )

    def _all(self) -> Iterator[Memory]:
        return _listed(self._memories, self._place)

    def _rewrite(self, path: str, found: Shown, text: str) -> None:
        fields: dict[str, Any] = {**_kept(found.memory), "value": text}
        try:
            self._memories.store(**fields, namespace=self._place, if_match=found.etag)
        except VersionMismatch:
            raise Refused(
                f"Error: The file {path} was changed meanwhile. View it and try again."
            ) from None


class _Names:
    """Which files and folders there are or were, at the price of what others wrote since it was last asked.

    What is not named here is not there. What is may have gone since, and is looked up. Whether anybody wrote anything
    is told by the change feed, which counts every write: where it has come no further than by our own, there is nothing
    to list.
    """

    def __init__(self, memoranda: Memoranda, place: str) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self._memoranda, self._place, self._latest = memoranda, place, ""
        # How far the feed has come with all that is named here; None before the first look.
        self._seen: int | None = None

    def refresh(self) -> None:
        """Take in what was written since, by whomever: it is listed first."""
        position = self._position()
        if position is not None and position == self._seen:
            return
        self._list()
        # Read before the list: what came meanwhile is looked for again.
        self._seen = position

    def wrote(self, name: str) -> None:
        """Take in what was just written here: one change more."""
        self._add(name)
        if self._seen is not None:
            self._seen += 1

    def _position(self) -> int | None:
        try:
            return self._memoranda.ump.feed_position()
        except ForbiddenScope:
            # Who sees a part is not told how much is written in the rest.
            return None

    def _list(self) -> None:
        latest = self._latest
        for memory in _listed(
            self._memoranda.oams, self._place, first=_FEW if latest else MAX_LIMIT
        ):
            if memory["updated_at"] < latest:
                return
            self._latest = max(self._latest, memory["updated_at"])
            self._add(memory["key"])

    def _add(self, name: str) -> None:
        self.files.add(name)
        self.folders.update(_folders(name))


def _listed(memories: OamsMemories, place: str, *, first: int = MAX_LIMIT) -> Iterator[Memory]:
    """What is in a namespace, last updated first; on the first page so many, on the next ones ever more."""
    cursor: dict[str, str] = {}
    limit = first
    while True:
        try:
            page = memories.list(namespace=place, limit=limit, **cursor)
        except NotFound:
            return
        yield from page.memories
        if page.next_cursor is None:
            return
        cursor, limit = {"cursor": page.next_cursor}, min(limit * 4, MAX_LIMIT)


def memory_tool(memoranda: Memoranda, *, project: str = "memories") -> Any:
    """The tool for the runner of Anthropic's SDK, which must be installed."""
    with needs("anthropic"):
        from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

    files = MemoryFiles(memoranda, project=project)

    class MemorandaMemoryTool(BetaAbstractMemoryTool):  # type: ignore[misc]  # the type checker does not read the SDK
        """Hands every command to the memory."""

        def execute(self, command: Any) -> str:
            try:
                return files.call(command.to_dict())
            except Refused as refused:
                raise ToolError(str(refused)) from None

        view = create = str_replace = insert = delete = rename = execute

    return MemorandaMemoryTool()


def _name(path: str) -> str:
    """The name of what a path means; empty for the folder itself. Raises Refused if it leads elsewhere."""
    if path != ROOT and not path.startswith(_INSIDE):
        raise Refused(f"Error: Path must start with {ROOT}, got: {_shown(path)}")
    parts = [each for each in path[len(ROOT) :].split("/") if each]
    if len(path) > _PATH_CHARS or _CONTROL.search(path) or any(map(_leads_away, parts)):
        raise Refused(f"Error: Path {_shown(path)} would escape {ROOT} directory")
    return "/".join(parts)


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _leads_away(part: str) -> bool:
    """Whether a part of a path means another folder or hides a separator, however it is spelled."""
    if part.isascii() and "%" not in part:
        return part.strip() in (".", "..")
    while (plain := unquote(part)) != part:
        part = plain
    shown = unicodedata.normalize("NFKC", strip_invisible(part))
    return shown.strip() in (".", "..") or "/" in shown or _CONTROL.search(part + shown) is not None


def _range(given: object) -> tuple[int, int] | None:
    if given is None:
        return None
    if (
        isinstance(given, list | tuple)
        and len(given) == 2
        and all(type(each) is int for each in given)
    ):
        return given[0], given[1]
    raise Refused("Error: The parameter `view_range` must be two line numbers")


def _folders(name: str) -> Iterator[str]:
    """The folders that a name is in."""
    parts = name.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _kept(memory: Memory) -> dict[str, Any]:
    return {
        name: value
        for name in ("key", "value", "tags", "metadata")
        if (value := memory.get(name)) is not None
    }


def _numbered(lines: list[str], first: int, last: int) -> str:
    shown = lines[first - 1 : last]
    return "\n".join([f"{number:6}\t{line}" for number, line in enumerate(shown, first)])


def _size(count: int) -> str:
    unit, size = 0, float(count)
    while size >= 1024 and unit < len(_UNITS) - 1:
        unit, size = unit + 1, size / 1024
    return f"{size:.0f}{_UNITS[unit]}" if size == int(size) else f"{size:.1f}{_UNITS[unit]}"

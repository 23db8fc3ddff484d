"""Anthropic's memory tool (`memory_20250818`) over Memoranda: each file in `/memories` is a memory.

With the SDK's runner: `client.beta.messages.tool_runner(tools=[memory_tool(m)], …)`. Without it, `MemoryFiles(m)` runs
the commands that a model sends: `files.result(block.id, block.input)` is the block to send back. Results and errors
have exactly the texts of the tool's documentation. No file system is involved, and a path outside `/memories` is
refused. A folder exists as long as a file is in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from memoranda.adapters import require_extra
from memoranda.app import Memoranda
from memoranda.encoding.untrusted import neutralize_tags, strip_invisible
from memoranda.errors import ForbiddenScope, MemorandaError, NotFound, VersionMismatch
from memoranda.standards.oams.requests import MAX_LIMIT

if TYPE_CHECKING:
    from memoranda.library.memories import OamsMemories
    from memoranda.service.oams.views import TaggedMemory
    from memoranda.standards.oams.memory import Memory

ROOT: Final = "/memories"
_INSIDE: Final = f"{ROOT}/"
# Lines of a file that can be viewed, as the documentation of the tool demands.
_LINES_LIMIT: Final = 999_999
# Lines shown before and after a change.
_CONTEXT_LINES: Final = 2
_DEPTH: Final = 2
# Memories on the first page of a refresh: usually only our own last write, and a few writes of others.
_FIRST_PAGE: Final = 4
_HIDDEN: Final = re.compile(r"(?:^|/)(?:\.[^/]*|node_modules)(?:/|$)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]")
_TEXTS: Final = frozenset(("file_text", "old_str", "new_str", "insert_text"))
# Characters of a path: more than the name of any memory.
_PATH_CHARS: Final = 4096
_UNITS: Final = ("B", "K", "M", "G")


class CommandRefused(Exception):
    """An error whose message is sent to the model instead of a result."""


class MemoryFiles:
    """The folder `/memories`, stored in a project of an open memory."""

    def __init__(self, memoranda: Memoranda, *, project: str = "memories") -> None:
        self._memories = memoranda.oams
        self._namespace = str(memoranda.oams.namespace(project))
        self._names = _NameCache(memoranda, self._namespace)
        self._commands: Mapping[str, tuple[Callable[..., str], tuple[str, ...]]] = {
            "view": (self.view, ("path",)),
            "create": (self.create, ("path", "file_text")),
            "str_replace": (self.str_replace, ("path", "old_str", "new_str")),
            "insert": (self.insert, ("path", "insert_line", "insert_text")),
            "delete": (self.delete, ("path",)),
            "rename": (self.rename, ("old_path", "new_path")),
        }

    def result(self, tool_use_id: str, tool_input: object) -> dict[str, Any]:
        """Run a command of a model, and return the content block that answers it."""
        answer = {"type": "tool_result", "tool_use_id": tool_use_id}
        try:
            return {**answer, "content": self.call(tool_input)}
        except CommandRefused as refused:
            return {**answer, "content": str(refused), "is_error": True}

    def call(self, tool_input: object) -> str:
        """Run a command as a model sends it. Raises CommandRefused with the message for the model."""
        fields = tool_input if isinstance(tool_input, dict) else {}
        command, parameters = self._commands.get(str(fields.get("command")), (None, ()))
        if command is None:
            raise CommandRefused(f"Error: Unknown command: {fields.get('command')}")
        arguments = {name: fields[name] for name in parameters if name in fields}
        for name in parameters:
            # Not isinstance: in Python, True is an int.
            if type(arguments.get(name)) is not (int if name == "insert_line" else str):
                raise CommandRefused(
                    f"Error: The parameter `{name}` is required for the command `{fields['command']}`"
                )
            if name in _TEXTS and _SURROGATE.search(arguments[name]):
                raise CommandRefused("Error: The text is not Unicode")
        if fields["command"] == "view":
            arguments["view_range"] = _parse_range(fields.get("view_range"))
        try:
            return neutralize_tags(command(**arguments), replacement="‹")
        except MemorandaError as error:
            raise CommandRefused(f"Error: {error.message}") from None

    def view(self, path: str, view_range: tuple[int, int] | None = None) -> str:
        """Return the files of a folder, or the numbered lines of a file.

        Raises CommandRefused for a file with too many lines.
        """
        name = _memory_name(path)
        file = self._find_file(name)
        if file is None:
            return self._view_folder(path, name)
        lines = file.memory["value"].split("\n")
        if len(lines) > _LINES_LIMIT:
            raise CommandRefused(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = view_range or (1, -1)
        first, last = max(1, first), len(lines) if last == -1 else max(0, last)
        return (
            f"Here's the content of {path} with line numbers:\n{_number_lines(lines, first, last)}"
        )

    def create(self, path: str, file_text: str) -> str:
        """Create a file. Raises CommandRefused if the path exists."""
        name = _memory_name(path)
        self._names.refresh()
        parents = (folder for folder in _parent_folders(name) if folder in self._names.files)
        existing = next((folder for folder in parents if self._find_file(folder) is not None), None)
        if (
            not name
            or existing is not None
            or (name in self._names.folders and self._is_folder(name))
        ):
            raise CommandRefused(
                f"Error: File {path if existing is None else f'{ROOT}/{existing}'} already exists"
            )
        try:
            self._memories.store(name, file_text, namespace=self._namespace, if_absent=True)
        except VersionMismatch:
            raise CommandRefused(f"Error: File {path} already exists") from None
        self._names.add_written(name)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs exactly once in a file.

        Raises CommandRefused if there is no such file, or the text does not occur exactly once.
        """
        name = _memory_name(path)
        file = self._find_file(name)
        if file is None:
            raise CommandRefused(
                f"Error: The path {path} does not exist. Please provide a valid path."
            )
        text = file.memory["value"]
        positions = (
            [match.start() for match in re.finditer(re.escape(old_str), text)] if old_str else []
        )
        if not positions:
            raise CommandRefused(
                f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
            )
        if len(positions) > 1:
            numbers = ", ".join(str(text.count("\n", 0, match) + 1) for match in positions)
            raise CommandRefused(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {numbers}. "
                "Please ensure it is unique"
            )
        new_text = text.replace(old_str, new_str)
        self._rewrite(path, file, new_text)
        line = text.count("\n", 0, positions[0]) + 1
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _number_lines(
                new_text.split("\n"), max(1, line - _CONTEXT_LINES), line + _CONTEXT_LINES
            )
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert a text after a line of a file; 0 inserts before the first line.

        Raises CommandRefused if there is no such file or line.
        """
        file = self._find_file(_memory_name(path))
        if file is None:
            raise CommandRefused(f"Error: The path {path} does not exist")
        lines = file.memory["value"].split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= insert_line <= len(lines):
            raise CommandRefused(
                f"Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range of lines of the "
                f"file: [0, {len(lines)}]"
            )
        lines.insert(insert_line, insert_text.removesuffix("\n"))
        self._rewrite(path, file, "\n".join(lines) + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with all its files.

        Raises CommandRefused for the folder of all memories, and if there is no such file.
        """
        name = _memory_name(path)
        if not name:
            raise CommandRefused(f"Error: Cannot delete the {ROOT} directory itself")
        keys = [memory["key"] for memory in self._memories_below(name)]
        if not keys:
            raise CommandRefused(f"Error: The path {path} does not exist")
        for key in keys:
            self._memories.forget(key, namespace=self._namespace)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Rename a file or a folder; nothing is overwritten.

        Raises CommandRefused for the folder of all memories, a missing file, an existing destination, and a folder that
        would be moved into itself.
        """
        old_name, new_name = _memory_name(old_path), _memory_name(new_path)
        if not old_name:
            raise CommandRefused(f"Error: Cannot rename the {ROOT} directory itself")
        memories = list(self._memories_below(old_name))
        if not memories:
            raise CommandRefused(f"Error: The path {old_path} does not exist")
        if any(True for _ in self._memories_below(new_name)) or any(
            self._find_file(memory) for memory in _parent_folders(new_name)
        ):
            raise CommandRefused(f"Error: The destination {new_path} already exists")
        if f"{new_name}/".startswith(f"{old_name}/"):
            raise CommandRefused(f"Error: Cannot move {old_path} into itself")
        # Store under the new name first, so that no file is ever missing.
        moved = [
            {**_stored_fields(memory), "key": new_name + memory["key"].removeprefix(old_name)}
            for memory in memories
        ]
        self._memories.batch_store(moved, namespace=self._namespace)
        for memory in memories:
            self._memories.forget(memory["key"], namespace=self._namespace)
        return f"Successfully renamed {old_path} to {new_path}"

    def _view_folder(self, path: str, name: str) -> str:
        sizes: dict[str, int] = {"": 0}
        for memory in self._memories_below(name):
            relative = memory["key"].removeprefix(name).lstrip("/")
            size = len(memory["value"].encode())
            sizes[""] += size
            if _HIDDEN.search(relative):
                continue
            parts = relative.split("/")
            for depth in range(1, min(len(parts), _DEPTH) + 1):
                entry = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
                sizes[entry] = sizes.get(entry, 0) + size
        if name and not self._is_folder(name):
            raise CommandRefused(f"The path {path} does not exist. Please provide a valid path.")
        head = (
            f"Here're the files and directories up to 2 levels deep in {path}, "
            "excluding hidden items and node_modules:"
        )
        base = path.rstrip("/")
        entries = [
            f"{_format_size(size)}\t{base}{relative and '/' + relative}"
            for relative, size in sorted(sizes.items())
        ]
        return "\n".join([head, *entries])

    def _find_file(self, name: str) -> TaggedMemory | None:
        """Return the file with this name; None if it is missing or a folder."""
        try:
            return self._memories.get(name, namespace=self._namespace) if name else None
        except NotFound:
            return None

    def _is_folder(self, name: str) -> bool:
        return any(memory["key"].startswith(f"{name}/") for memory in self._all_memories())

    def _memories_below(self, name: str) -> Iterator[Memory]:
        """Yield the file with this name, or the files in the folder."""
        return (
            memory
            for memory in self._all_memories()
            if not name or f"{memory['key']}/".startswith(f"{name}/")
        )

    def _all_memories(self) -> Iterator[Memory]:
        return _list_memories(self._memories, self._namespace)

    def _rewrite(self, path: str, file: TaggedMemory, text: str) -> None:
        fields: dict[str, Any] = {**_stored_fields(file.memory), "value": text}
        try:
            self._memories.store(**fields, namespace=self._namespace, if_match=file.etag)
        except VersionMismatch:
            raise CommandRefused(
                f"Error: The file {path} was changed meanwhile. View it and try again."
            ) from None


class _NameCache:
    """A cache of the names of files and folders, refreshed by listing only the memories written since the last time.

    A name that is missing in the cache does not exist. A name in the cache may have been deleted, so it is looked up.
    The position of the change feed counts all writes: if it advanced only by our own writes, nothing is listed.
    """

    def __init__(self, memoranda: Memoranda, namespace: str) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self._memoranda, self._namespace, self._latest = memoranda, namespace, ""
        # The feed position up to which the cache is complete; None before the first refresh.
        self._last_position: int | None = None

    def refresh(self) -> None:
        """Add the names written since the last refresh, which come first in the list."""
        position = self._feed_position()
        if position is not None and position == self._last_position:
            return
        self._list_new()
        # Read before the list, so that writes during the list are listed again next time.
        self._last_position = position

    def add_written(self, name: str) -> None:
        """Add a name that was just written here, which advanced the feed by one."""
        self._add(name)
        if self._last_position is not None:
            self._last_position += 1

    def _feed_position(self) -> int | None:
        try:
            return self._memoranda.ump.feed_position()
        except ForbiddenScope:
            # A caller with restricted access may not read the position of the whole feed.
            return None

    def _list_new(self) -> None:
        latest = self._latest
        for memory in _list_memories(
            self._memoranda.oams, self._namespace, first=_FIRST_PAGE if latest else MAX_LIMIT
        ):
            if memory["updated_at"] < latest:
                return
            self._latest = max(self._latest, memory["updated_at"])
            self._add(memory["key"])

    def _add(self, name: str) -> None:
        self.files.add(name)
        self.folders.update(_parent_folders(name))


def _list_memories(
    memories: OamsMemories, namespace: str, *, first: int = MAX_LIMIT
) -> Iterator[Memory]:
    """Yield the memories of a namespace, last updated first. `first`: size of the first page; the next ones grow."""
    cursor: dict[str, str] = {}
    limit = first
    while True:
        try:
            page = memories.list(namespace=namespace, limit=limit, **cursor)
        except NotFound:
            return
        yield from page.memories
        if page.next_cursor is None:
            return
        cursor, limit = {"cursor": page.next_cursor}, min(limit * 4, MAX_LIMIT)


def memory_tool(memoranda: Memoranda, *, project: str = "memories") -> Any:
    """Return the tool for the runner of Anthropic's SDK, which must be installed."""
    with require_extra("anthropic"):
        from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

    files = MemoryFiles(memoranda, project=project)

    class MemorandaMemoryTool(BetaAbstractMemoryTool):  # type: ignore[misc]  # the type checker does not read the SDK
        """The memory tool of the SDK, with all commands forwarded to `MemoryFiles`."""

        def execute(self, command: Any) -> str:
            try:
                return files.call(command.to_dict())
            except CommandRefused as refused:
                raise ToolError(str(refused)) from None

        view = create = str_replace = insert = delete = rename = execute

    return MemorandaMemoryTool()


def _memory_name(path: str) -> str:
    """Return the name of the memory for a path; empty for the root. Raises CommandRefused outside of the root."""
    if path != ROOT and not path.startswith(_INSIDE):
        raise CommandRefused(f"Error: Path must start with {ROOT}, got: {_printable(path)}")
    parts = [part for part in path[len(ROOT) :].split("/") if part]
    if len(path) > _PATH_CHARS or _CONTROL.search(path) or any(map(_leaves_root, parts)):
        raise CommandRefused(f"Error: Path {_printable(path)} would escape {ROOT} directory")
    return "/".join(parts)


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _leaves_root(part: str) -> bool:
    """Return True if a part of a path means another folder or hides a separator, in any encoding."""
    if part.isascii() and "%" not in part:
        return part.strip() in (".", "..")
    while (decoded := unquote(part)) != part:
        part = decoded
    normalized = unicodedata.normalize("NFKC", strip_invisible(part))
    return (
        normalized.strip() in (".", "..")
        or "/" in normalized
        or _CONTROL.search(part + normalized) is not None
    )


def _parse_range(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    if (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(type(number) is int for number in value)
    ):
        return value[0], value[1]
    raise CommandRefused("Error: The parameter `view_range` must be two line numbers")


def _parent_folders(name: str) -> Iterator[str]:
    """Return the folders above a name, the outermost first."""
    parts = name.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _stored_fields(memory: Memory) -> dict[str, object]:
    """Return the fields of a memory that are needed to store it again."""
    return {
        name: value
        for name in ("key", "value", "tags", "metadata")
        if (value := memory.get(name)) is not None
    }


def _number_lines(lines: list[str], first: int, last: int) -> str:
    selected_lines = lines[first - 1 : last]
    return "\n".join([f"{number:6}\t{line}" for number, line in enumerate(selected_lines, first)])


def _format_size(count: int) -> str:
    unit, size = 0, float(count)
    while size >= 1024 and unit < len(_UNITS) - 1:
        unit, size = unit + 1, size / 1024
    return f"{size:.0f}{_UNITS[unit]}" if size == int(size) else f"{size:.1f}{_UNITS[unit]}"

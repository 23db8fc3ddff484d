"""Planned changes of configuration files, shown to the user before they are applied.

Before the first change, the bytes of a file are saved next to it (`mcp.json.before-memoranda`). On disconnect these
bytes are restored if the file equals the original plus our entry. If something else was changed too, only the entry is
removed. A file that did not exist before is deleted.
"""

from __future__ import annotations

import difflib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from memoranda.bindings.files.folder import read_file, replace_file
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound, Unsupported, words_of
from memoranda.hosts.document import (
    ConfigFormat,
    Entry,
    EntrySlot,
    add_entry,
    detect_newline,
    remove_entry,
)
from memoranda.hosts.table import (
    HOOKS_FORM,
    RULES,
    RULES_FORM,
    RULES_SLOT,
    AgentHost,
    Machine,
    ServerCommand,
)

BACKUP_SUFFIX: Final = ".before-memoranda"
# Bytes of a configuration; one that includes the history of a host may be large.
MAX_BYTES: Final = 32 * 1024 * 1024
_NEW_FILE_MODE: Final = 0o600
_MARK: Final = "\ufeff"
EditKind = Literal["server", "hooks", "rules"]


@dataclass(frozen=True, slots=True)
class _EntryEdit:
    """An entry of ours to add to a file; without a value, an entry to remove."""

    kind: EditKind
    path: Path
    form: ConfigFormat
    slot: EntrySlot
    value: Entry | None


@dataclass(frozen=True, slots=True)
class Edit:
    """The change of one file. `before` and `after` are None if the file does not exist."""

    host: AgentHost
    kind: EditKind
    # The file, links resolved.
    path: Path
    before: bytes | None
    after: bytes | None
    # True if the original bytes are restored, so that the backup is deleted.
    is_restored: bool = False
    # True if the file is the original plus our entries, so that `before` must not become the backup.
    is_ours_alone: bool = False

    @property
    def is_change(self) -> bool:
        """True if the file would change."""
        return self.before != self.after

    @property
    def backup(self) -> Path:
        """The path of the backup of the original bytes."""
        return _backup_path(self.path)

    def diff(self) -> str:
        """Return the changed lines without context lines, which may contain keys of other services."""
        before, after = (
            [] if data is None else _decode(data).splitlines() for data in (self.before, self.after)
        )
        lines = difflib.unified_diff(
            before, after, str(self.path), str(self.path), n=0, lineterm=""
        )
        return "\n".join(lines)

    def apply(self) -> None:
        """Write the file. Raises Conflict if it was changed since it was planned."""
        if not self.is_change:
            return
        if _read_bytes(self.path) != self.before:
            raise Conflict(f"{self.path} was changed meanwhile; try again")
        mode = _NEW_FILE_MODE if self.before is None else stat.S_IMODE(self.path.stat().st_mode)
        if self.after is None:
            self.path.unlink()
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_kept = not (self.is_restored or self.is_ours_alone or self.backup.exists())
            if self.before is not None and is_kept:
                replace_file(self.backup, self.before, mode=mode)
            replace_file(self.path, self.after, mode=mode)
            # The umask of the process may have removed permission bits.
            self.path.chmod(mode)
        if self.is_restored:
            self.backup.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of a host: its configuration file, and our entry in it."""

    host: AgentHost
    path: Path
    is_installed: bool
    entry: Entry | None = None
    # The reason why its file cannot be used; empty if it can.
    problem: str = ""


def read_state(host: AgentHost, machine: Machine) -> HostState:
    """Return the current state of a host."""
    path, is_here = host.configuration(machine), host.is_installed(machine)
    try:
        text = _decode_optional(_read_bytes(_resolve_link(path)))
        document = host.form.parse(text)
        return HostState(host, path, is_here, host.slot(document).find_entry(document))
    except MemorandaError as error:
        return HostState(host, path, is_here, problem=f"{path}: {error.message}")


def plan_connect(
    host: AgentHost,
    machine: Machine,
    server: ServerCommand,
    *,
    rules: bool = False,
    hooks: bool = False,
) -> list[Edit]:
    """Plan to add the memory to a host. Hooks and rules of an earlier version are updated too."""
    _refuse_shadowing(host, machine)
    parts = [_server_edit(host, machine, host.server_entry(server))]
    if host.hooks is not None:
        path = _resolve_link(machine.path(host.hooks.file))
        if hooks or _has_any_entry(path, HOOKS_FORM, host.hooks.slots):
            values = host.hooks.entries(server, host.name)
            parts += [_EntryEdit("hooks", path, HOOKS_FORM, slot, value) for slot, value in values]
    if host.rules:
        path = _resolve_link(machine.path(host.rules))
        if rules or _has_any_entry(path, RULES_FORM, [RULES_SLOT]):
            parts.append(_EntryEdit("rules", path, RULES_FORM, RULES_SLOT, {"text": RULES}))
    return [_plan_edit(host, group) for group in _group_by_file(parts)]


def plan_disconnect(host: AgentHost, machine: Machine) -> list[Edit]:
    """Plan to remove the memory from a host."""
    parts = [_server_edit(host, machine, None)]
    if host.hooks is not None:
        path = _resolve_link(machine.path(host.hooks.file))
        parts += [_EntryEdit("hooks", path, HOOKS_FORM, slot, None) for slot in host.hooks.slots]
    if host.rules:
        parts.append(
            _EntryEdit(
                "rules", _resolve_link(machine.path(host.rules)), RULES_FORM, RULES_SLOT, None
            )
        )
    return [_plan_edit(host, group) for group in _group_by_file(parts)]


def make_snippet(host: AgentHost, server: ServerCommand) -> str:
    """Return the text of a configuration with only our entry, to copy and paste."""
    return add_entry(
        host.form, _add_required_lines(host, ""), host.slot({}), host.server_entry(server)
    )


def _refuse_shadowing(host: AgentHost, machine: Machine) -> None:
    """Raise InvalidInput where our new file would make the host ignore the one that it reads now."""
    if host.older_file and not host.configuration(machine).exists():
        older = machine.path(host.older_file)
        if older.exists():
            name = host.configuration(machine).name
            raise InvalidInput(
                f"{older} is in use, and {host.title} reads it only while there is no {name}: move it to {name} first"
            )


def _server_edit(host: AgentHost, machine: Machine, value: Entry | None) -> _EntryEdit:
    path = _resolve_link(host.configuration(machine))
    with _PathInErrors(path):
        slot = host.slot(host.form.parse(_decode_optional(_read_bytes(path))))
    return _EntryEdit("server", path, host.form, slot, value)


def _has_any_entry(path: Path, form: ConfigFormat, slots: Sequence[EntrySlot]) -> bool:
    """Return True if a file has one of these entries; a file that cannot be read has none."""
    try:
        document = form.parse(_decode_optional(_read_bytes(path)))
        return any(slot.find_entry(document) is not None for slot in slots)
    except MemorandaError:
        return False


def _group_by_file(parts: list[_EntryEdit]) -> list[list[_EntryEdit]]:
    """Group the parts of one file: it is written once."""
    groups: dict[Path, list[_EntryEdit]] = {}
    for part in parts:
        groups.setdefault(part.path, []).append(part)
    return list(groups.values())


def _plan_edit(host: AgentHost, parts: list[_EntryEdit]) -> Edit:
    """Add and remove the entries of one file.

    A file that equals the original plus our entries is rebuilt from the original, so that nothing of an earlier version
    stays in it.
    """
    first = parts[0]
    before = _read_bytes(first.path)
    with _PathInErrors(first.path):
        text = _decode_optional(before)
        document = first.form.parse(text)
        present = [
            (part.slot, entry)
            for part in parts
            if (entry := part.slot.find_entry(document)) is not None
        ]
        original = _read_bytes(_backup_path(first.path))
        is_ours_alone = bool(present) and _equals_original_with(
            before, original, host, first, present
        )
        is_leaving = all(part.value is None for part in parts)
        if is_leaving and is_ours_alone:
            return Edit(host, first.kind, first.path, before, original, is_restored=True)
        base = original if is_ours_alone else before
        after = _decode_optional(base)
        if not is_leaving:
            after = _prepare_text(host, first, after)
        for part in parts:
            after = (
                remove_entry(part.form, after, part.slot)
                if part.value is None
                else _add_value(part, after)
            )
    encoded = before if after == text else _encode(after, base)
    return Edit(host, first.kind, first.path, before, encoded, is_ours_alone=is_ours_alone)


def _add_value(part: _EntryEdit, text: str) -> str:
    assert part.value is not None
    return add_entry(part.form, text, part.slot, part.value)


def _equals_original_with(
    now: bytes | None,
    original: bytes | None,
    host: AgentHost,
    part: _EntryEdit,
    entries: list[tuple[EntrySlot, Entry]],
) -> bool:
    """Return True if a file is the original plus our entries."""
    try:
        text = _decode_optional(original)
        if any(slot.find_entry(part.form.parse(text)) is not None for slot, _ in entries):
            return False
        # An earlier version added only the entries, without required lines.
        return any(
            _encode_with_entries(start, part.form, entries, original) == now
            for start in (_prepare_text(host, part, text), text)
        )
    except MemorandaError:
        return False


def _encode_with_entries(
    text: str, form: ConfigFormat, entries: list[tuple[EntrySlot, Entry]], original: bytes | None
) -> bytes:
    for slot, entry in entries:
        text = add_entry(form, text, slot, entry)
    return _encode(text, original)


def _prepare_text(host: AgentHost, part: _EntryEdit, text: str) -> str:
    return _add_required_lines(host, text) if part.kind == "server" else text


def _add_required_lines(host: AgentHost, text: str) -> str:
    """Add the missing lines that the host requires at the top. Raises Unsupported if that does not work."""
    document = host.form.parse(text)
    if not isinstance(document, dict):
        return text
    missing = {key: value for key, value in host.required.items() if key not in document}
    completed = (
        "".join(f"{key}: {value}{detect_newline(text)}" for key, value in missing.items()) + text
    )
    if host.form.parse(completed) != {**missing, **document}:
        raise Unsupported(f"{' and '.join(missing)} are missing in it; write them into it by hand")
    return completed


def _resolve_link(path: Path) -> Path:
    """Return the target of a symbolic link, or the path. Raises InvalidInput unless the target is a file."""
    if not path.is_symlink():
        return path
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InvalidInput(f"{path} is a link that leads nowhere") from None
    if not target.is_file():
        raise InvalidInput(f"{path} is a link to something that is not a file")
    return target


def _read_bytes(path: Path) -> bytes | None:
    try:
        return read_file(path, max_bytes=MAX_BYTES)
    except NotFound:
        return None
    except NotADirectoryError as error:
        raise InvalidInput(f"{path}: {words_of(error)}") from None


def _backup_path(path: Path) -> Path:
    return path.with_name(path.name + BACKUP_SUFFIX)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("it is not text in UTF-8") from None


def _decode_optional(data: bytes | None) -> str:
    return "" if data is None else _decode(data).removeprefix(_MARK)


def _encode(text: str, before: bytes | None) -> bytes:
    mark = _MARK if before is not None and before.startswith(_MARK.encode()) else ""
    return (mark + text).encode("utf-8")


class _PathInErrors:
    """A context manager that prepends the path of the file to errors about its content."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemorandaError) and not str(error).startswith(str(self._path)):
            raise type(error)(f"{self._path}: {error.message}") from None

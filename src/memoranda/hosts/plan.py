"""What would change on this machine, shown before it is done; and doing it.

A file's bytes before the first change are kept beside it (`mcp.json.before-memoranda`). To disconnect, these bytes come
back if nothing but our entry was changed since: that is so when adding the entry to them gives what is there now. If
something else was changed, too, the entry alone is taken out. A file that was not there before goes again.
"""

from __future__ import annotations

import difflib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from memoranda.bindings.files.folder import read_whole, write_whole
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound, words_of
from memoranda.hosts.document import Entry, Format, Slot, put, take
from memoranda.hosts.table import HOOK_SLOTS, HOOKS_FORM, RULES, RULES_FORM, RULES_SLOT, Host, Machine, Server

BACKUP_SUFFIX: Final = ".before-memoranda"
# A configuration that also holds the history of a host may be large.
MAX_BYTES: Final = 32 * 1024 * 1024
_NEW_FILE_MODE: Final = 0o600
_MARK: Final = "\ufeff"
What = Literal["server", "hooks", "rules"]
# What is put into which file, and where in it.
_Part = tuple[What, Path, Format, Slot, Entry]


@dataclass(frozen=True, slots=True)
class Edit:
    """One file before and after; None: there is none."""

    host: Host
    what: What
    # Where it lies, links followed.
    path: Path
    before: bytes | None
    after: bytes | None
    # Whether the bytes of the time before us come back, so that nothing needs to be kept of them.
    is_restored: bool = False

    @property
    def is_change(self) -> bool:
        """Whether anything would be written."""
        return self.before != self.after

    @property
    def backup(self) -> Path:
        """Where the bytes of the time before us are kept."""
        return _backup_of(self.path)

    def diff(self) -> str:
        """The changed lines alone: those around them may hold keys of others."""
        before, after = ([] if each is None else _decode(each).splitlines() for each in (self.before, self.after))
        shown = difflib.unified_diff(before, after, str(self.path), str(self.path), n=0, lineterm="")
        return "\n".join(shown)

    def apply(self) -> None:
        """Write it, if the file is still as it was."""
        if not self.is_change:
            return
        if _read(self.path) != self.before:
            raise Conflict(f"{self.path} was changed meanwhile; try again")
        mode = _NEW_FILE_MODE if self.before is None else stat.S_IMODE(self.path.stat().st_mode)
        if self.after is None:
            self.path.unlink()
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.before is not None and not self.is_restored and not self.backup.exists():
                write_whole(self.backup, self.before, mode=mode)
            write_whole(self.path, self.after, mode=mode)
            # The mask of the process may have taken something away.
            self.path.chmod(mode)
        if self.is_restored:
            self.backup.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class State:
    """How a host stands to the memory."""

    host: Host
    path: Path
    is_here: bool
    entry: Entry | None = None
    # Why its file cannot be used.
    problem: str = ""


def look(host: Host, machine: Machine) -> State:
    """How a host stands to the memory now."""
    path, is_here = host.configuration(machine), host.is_here(machine)
    try:
        text = _text(_read(_regular(path)))
        document = host.form.parse(text)
        return State(host, path, is_here, host.slot(document).entry(document))
    except MemorandaError as error:
        return State(host, path, is_here, problem=f"{path}: {error.message}")


def plan_connect(
    host: Host, machine: Machine, server: Server, *, rules: bool = False, hooks: bool = False
) -> list[Edit]:
    """What adding the memory to a host would change."""
    path = _regular(host.configuration(machine))
    with _Named(path):
        slot = host.slot(host.form.parse(_text(_read(path))))
    parts: list[_Part] = [("server", path, host.form, slot, host.entry(server))]
    if hooks and host.hooks is not None:
        told = _regular(machine.path(host.hooks.file))
        parts += [("hooks", told, HOOKS_FORM, *part) for part in host.hooks.parts(server, host.name)]
    if rules and host.rules:
        parts.append(("rules", _regular(machine.path(host.rules)), RULES_FORM, RULES_SLOT, {"text": RULES}))
    return [_putting(host, each) for each in _by_file(parts)]


def plan_disconnect(host: Host, machine: Machine) -> list[Edit]:
    """What taking the memory out of a host would change."""
    path = _regular(host.configuration(machine))
    with _Named(path):
        slot = host.slot(host.form.parse(_text(_read(path))))
    parts: list[_Part] = [("server", path, host.form, slot, {})]
    if host.hooks is not None:
        told = _regular(machine.path(host.hooks.file))
        parts += [("hooks", told, HOOKS_FORM, slot, {}) for slot in HOOK_SLOTS.values()]
    if host.rules:
        parts.append(("rules", _regular(machine.path(host.rules)), RULES_FORM, RULES_SLOT, {}))
    return [_taking(host, each) for each in _by_file(parts)]


def _by_file(parts: list[_Part]) -> list[list[_Part]]:
    """The same, those of one file together: it is written once."""
    found: dict[Path, list[_Part]] = {}
    for part in parts:
        found.setdefault(part[1], []).append(part)
    return list(found.values())


def snippet(host: Host, server: Server) -> str:
    """What a file with nothing but the memory says: to copy and paste."""
    return put(host.form, "", host.slot({}), host.entry(server))


def _putting(host: Host, parts: list[_Part]) -> Edit:
    what, path, form, _, _ = parts[0]
    before = _read(path)
    with _Named(path):
        text = after = _text(before)
        for _, _, _, slot, value in parts:
            after = put(form, after, slot, value)
    return Edit(host, what, path, before, before if after == text else _encode(after, before))


def _taking(host: Host, parts: list[_Part]) -> Edit:
    what, path, form, _, _ = parts[0]
    before = _read(path)
    with _Named(path):
        text = _text(before)
        document = form.parse(text)
        entries = [(slot, entry) for *_, slot, _ in parts if (entry := slot.entry(document)) is not None]
        if not entries:
            return Edit(host, what, path, before, before)
        original = _read(_backup_of(path))
        if _adds_up_to(before, original, form, entries):
            return Edit(host, what, path, before, original, is_restored=True)
        for slot, _ in entries:
            text = take(form, text, slot)
    return Edit(host, what, path, before, _encode(text, before))


def _adds_up_to(now: bytes | None, original: bytes | None, form: Format, entries: list[tuple[Slot, Entry]]) -> bool:
    """Whether what is there now is what was there first, with our entries and nothing else."""
    try:
        text = _text(original)
        for slot, entry in entries:
            if slot.entry(form.parse(text)) is not None:
                return False
            text = put(form, text, slot, entry)
        return _encode(text, original) == now
    except MemorandaError:
        return False


def _regular(path: Path) -> Path:
    """The file itself, where a link leads to one. Raises InvalidInput if it leads to anything else."""
    if not path.is_symlink():
        return path
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InvalidInput(f"{path} is a link that leads nowhere") from None
    if not found.is_file():
        raise InvalidInput(f"{path} is a link to something that is not a file")
    return found


def _read(path: Path) -> bytes | None:
    try:
        return read_whole(path, max_bytes=MAX_BYTES)
    except NotFound:
        return None
    except NotADirectoryError as error:
        raise InvalidInput(f"{path}: {words_of(error)}") from None


def _backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP_SUFFIX)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("it is not text in UTF-8") from None


def _text(data: bytes | None) -> str:
    return "" if data is None else _decode(data).removeprefix(_MARK)


def _encode(text: str, before: bytes | None) -> bytes:
    mark = _MARK if before is not None and before.startswith(_MARK.encode()) else ""
    return (mark + text).encode("utf-8")


class _Named:
    """Names the file in whatever is refused about what it says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemorandaError) and not str(error).startswith(str(self._path)):
            raise type(error)(f"{self._path}: {error.message}") from None

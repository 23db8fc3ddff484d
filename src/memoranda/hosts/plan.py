"""What would change on this machine, shown before it is done; and doing it.

A file's bytes before the first change are kept beside it (`mcp.json.before-memoranda`). To disconnect, these bytes come
back if nothing but our entry was changed since: that is so when adding the entry to them gives what is there now. If
something else was changed, too, the entry alone is taken out. A file that was not there before goes again.
"""

from __future__ import annotations

import difflib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from memoranda.bindings.files.folder import read_whole, write_whole
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound, Unsupported, words_of
from memoranda.hosts.document import Entry, Format, Slot, newline_of, put, take
from memoranda.hosts.table import HOOKS_FORM, RULES, RULES_FORM, RULES_SLOT, Host, Machine, Server

BACKUP_SUFFIX: Final = ".before-memoranda"
# A configuration that also holds the history of a host may be large.
MAX_BYTES: Final = 32 * 1024 * 1024
_NEW_FILE_MODE: Final = 0o600
_MARK: Final = "\ufeff"
What = Literal["server", "hooks", "rules"]


@dataclass(frozen=True, slots=True)
class _Part:
    """An entry of ours in a file; without a value, one that goes."""

    what: What
    path: Path
    form: Format
    slot: Slot
    value: Entry | None


@dataclass(frozen=True, slots=True)
class Edit:
    """One file before and after; None: there is none."""

    host: Host
    what: What
    # Where it lies, links followed.
    path: Path
    before: bytes | None
    after: bytes | None
    # True if the bytes of the time before us come back, so that nothing needs to be kept of them.
    is_restored: bool = False
    # True if nothing but our own entries was changed since then, so that `before` is no backup.
    is_ours_alone: bool = False

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
        before, after = (
            [] if each is None else _decode(each).splitlines() for each in (self.before, self.after)
        )
        shown = difflib.unified_diff(
            before, after, str(self.path), str(self.path), n=0, lineterm=""
        )
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
            is_kept = not (self.is_restored or self.is_ours_alone or self.backup.exists())
            if self.before is not None and is_kept:
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
    """Plan to add the memory to a host. Hooks and rules that an earlier version added are brought up to date, too."""
    _refuse_shadowing(host, machine)
    parts = [_server_part(host, machine, host.entry(server))]
    if host.hooks is not None:
        path = _regular(machine.path(host.hooks.file))
        if hooks or _has_any(path, HOOKS_FORM, host.hooks.slots):
            values = host.hooks.entries(server, host.name)
            parts += [_Part("hooks", path, HOOKS_FORM, slot, value) for slot, value in values]
    if host.rules:
        path = _regular(machine.path(host.rules))
        if rules or _has_any(path, RULES_FORM, [RULES_SLOT]):
            parts.append(_Part("rules", path, RULES_FORM, RULES_SLOT, {"text": RULES}))
    return [_edit(host, group) for group in _by_file(parts)]


def plan_disconnect(host: Host, machine: Machine) -> list[Edit]:
    """Plan to take the memory out of a host."""
    parts = [_server_part(host, machine, None)]
    if host.hooks is not None:
        path = _regular(machine.path(host.hooks.file))
        parts += [_Part("hooks", path, HOOKS_FORM, slot, None) for slot in host.hooks.slots]
    if host.rules:
        parts.append(
            _Part("rules", _regular(machine.path(host.rules)), RULES_FORM, RULES_SLOT, None)
        )
    return [_edit(host, group) for group in _by_file(parts)]


def snippet(host: Host, server: Server) -> str:
    """Return what a file with nothing but the memory says: to copy and paste."""
    return put(host.form, _completed(host, ""), host.slot({}), host.entry(server))


def _refuse_shadowing(host: Host, machine: Machine) -> None:
    """Raise InvalidInput where our new file would make the host ignore the one that it reads now."""
    if host.older_file and not host.configuration(machine).exists():
        older = machine.path(host.older_file)
        if older.exists():
            name = host.configuration(machine).name
            raise InvalidInput(
                f"{older} is in use, and {host.title} reads it only while there is no {name}: move it to {name} first"
            )


def _server_part(host: Host, machine: Machine, value: Entry | None) -> _Part:
    path = _regular(host.configuration(machine))
    with _Named(path):
        slot = host.slot(host.form.parse(_text(_read(path))))
    return _Part("server", path, host.form, slot, value)


def _has_any(path: Path, form: Format, slots: Sequence[Slot]) -> bool:
    """Return True if a file has one of these entries; a file that cannot be read has none."""
    try:
        document = form.parse(_text(_read(path)))
        return any(slot.entry(document) is not None for slot in slots)
    except MemorandaError:
        return False


def _by_file(parts: list[_Part]) -> list[list[_Part]]:
    """Group the parts of one file: it is written once."""
    groups: dict[Path, list[_Part]] = {}
    for part in parts:
        groups.setdefault(part.path, []).append(part)
    return list(groups.values())


def _edit(host: Host, parts: list[_Part]) -> Edit:
    """Put and take the entries of one file.

    A file that differs from the time before us by our entries alone is made from that again, so that nothing of an
    earlier version of ours stays in it.
    """
    first = parts[0]
    before = _read(first.path)
    with _Named(first.path):
        text = _text(before)
        document = first.form.parse(text)
        present = [
            (part.slot, entry) for part in parts if (entry := part.slot.entry(document)) is not None
        ]
        original = _read(_backup_of(first.path))
        is_ours_alone = bool(present) and _adds_up_to(before, original, host, first, present)
        is_leaving = all(part.value is None for part in parts)
        if is_leaving and is_ours_alone:
            return Edit(host, first.what, first.path, before, original, is_restored=True)
        base = original if is_ours_alone else before
        after = _text(base)
        if not is_leaving:
            after = _prepared(host, first, after)
        for part in parts:
            after = take(part.form, after, part.slot) if part.value is None else _put(part, after)
    encoded = before if after == text else _encode(after, base)
    return Edit(host, first.what, first.path, before, encoded, is_ours_alone=is_ours_alone)


def _put(part: _Part, text: str) -> str:
    assert part.value is not None
    return put(part.form, text, part.slot, part.value)


def _adds_up_to(
    now: bytes | None,
    original: bytes | None,
    host: Host,
    part: _Part,
    entries: list[tuple[Slot, Entry]],
) -> bool:
    """Return True if a file is the original with our entries, and nothing else was changed."""
    try:
        text = _text(original)
        if any(slot.entry(part.form.parse(text)) is not None for slot, _ in entries):
            return False
        # An earlier version of ours added nothing but the entries.
        return any(
            _added(start, part.form, entries, original) == now
            for start in (_prepared(host, part, text), text)
        )
    except MemorandaError:
        return False


def _added(
    text: str, form: Format, entries: list[tuple[Slot, Entry]], original: bytes | None
) -> bytes:
    for slot, entry in entries:
        text = put(form, text, slot, entry)
    return _encode(text, original)


def _prepared(host: Host, part: _Part, text: str) -> str:
    return _completed(host, text) if part.what == "server" else text


def _completed(host: Host, text: str) -> str:
    """Put in front what the host requires of its configuration and the text does not say."""
    document = host.form.parse(text)
    if not isinstance(document, dict):
        return text
    missing = {key: value for key, value in host.required.items() if key not in document}
    completed = (
        "".join(f"{key}: {value}{newline_of(text)}" for key, value in missing.items()) + text
    )
    if host.form.parse(completed) != {**missing, **document}:
        raise Unsupported(f"{' and '.join(missing)} are missing in it; write them into it by hand")
    return completed


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

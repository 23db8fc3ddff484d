"""Backup and restore: the whole of a store, with its keys, in one file that was read again before it gets its name."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

import msgspec

from memoranda import __version__
from memoranda.bindings.files import archive
from memoranda.bindings.files.folder import create, writing
from memoranda.bindings.files.sync import STATES_FOLDER
from memoranda.errors import InvalidInput, NotFound, StoreCorrupt, StoreUnavailable, words_of
from memoranda.keys import OPERATOR_KEY_FILE, make_private_folder, operator_key, sync_folder
from memoranda.model.instant import format_instant
from memoranda.opening import DID_FOLDER, OWNER_CREDENTIAL_FILE, system_clock
from memoranda.settings import SETTINGS_FILE, Settings
from memoranda.storage.copying import copy_database, settle, writers_kept_out
from memoranda.storage.heads import heads_path, losses_path, write_heads_of
from memoranda.stores import KEY_RING_FILE, MASTER_KEY_FILE, copy_to_file, move_store

Progress = Callable[[int], None]

_DATABASE: Final = "memoranda.db"
_PREFIX: Final = ".backup-"
_HEADS: Final = heads_path(Path(_DATABASE)).name
# The key that proves whose store it is comes last: what is half restored does not open.
_SINGLE: Final = (MASTER_KEY_FILE, OWNER_CREDENTIAL_FILE, SETTINGS_FILE, OPERATOR_KEY_FILE)
_FOLDERS: Final = (DID_FOLDER, STATES_FOLDER)
# What of a backup is, on PostgreSQL, in the database.
_FILES: Final = (_DATABASE, _HEADS, KEY_RING_FILE)
# What SQLite keeps beside a database that is, or was, in use.
_BESIDE: Final = ("-wal", "-shm")


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    files: int
    bytes: int
    operator: str
    encrypted: bool


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored, and where what was there before is now."""

    files: int
    operator: str
    made: str
    aside: str | None
    # Where the settings of the backup lie, if they name another place for the store and so were not put to use.
    settings: str | None


def back_up(
    settings: Settings,
    target: Path,
    *,
    passphrase: str | None = None,
    copying: Progress | None = None,
    written: Progress | None = None,
    checked: Progress | None = None,
) -> BackedUp:
    """Write everything of a store to one file, while others use it; it appears whole and checked, or not at all."""
    database = settings.home / _DATABASE if settings.address is not None else _database(settings)
    if target.exists() and any(path.exists() and path.samefile(target) for path in _present(settings, database)):
        raise InvalidInput(f"{target} is a part of the store; name another file")
    if not (settings.home / OPERATOR_KEY_FILE).exists():
        path = settings.home / OPERATOR_KEY_FILE
        raise StoreUnavailable("the operator's key is missing, and a backup without it cannot be restored", path=path)
    operator = operator_key(settings.home).did
    with _in_words(target), _private_folder(settings.home) as folder:
        members = _gathered(settings, folder, copying)
        about = {"memoranda": __version__, "operator": operator, "made": format_instant(system_clock())}
        with writing(target) as file:
            listed = archive.write(file, members, about, passphrase=passphrase, progress=written)
            file.seek(0)
            archive.read(file, lambda _: None, passphrase=passphrase, progress=checked)
    return BackedUp(
        files=len(listed),
        bytes=sum(each.size for each in listed.values()),
        operator=operator,
        encrypted=passphrase is not None,
    )


def _database(settings: Settings) -> Path:
    if settings.database_path is None:
        raise InvalidInput("a store in memory has no files; export what is in it")
    return settings.database_path


def _gathered(settings: Settings, folder: Path, copying: Progress | None) -> list[archive.Member]:
    """Copies of what is in use, and the small files as they are."""
    if settings.address is None:
        _copy_files(settings, folder, copying)
    else:
        # One form for both: a backup of either is restored into either.
        copy_to_file(settings, folder / _DATABASE, copied=copying, compared=copying)
    copies = [folder / name for name in _FILES]
    members = [archive.Member(path.name, path) for path in copies if path.exists()]
    for name in _SINGLE:
        copied = folder / name
        path = copied if copied.exists() else settings.home / name
        if path.is_file():
            members.append(archive.Member(name, path))
    for name in _FOLDERS:
        found = sorted(path for path in (settings.home / name).glob("*.json") if path.is_file())
        members += [archive.Member(f"{name}/{path.name}", path) for path in found]
    return members


def _copy_files(settings: Settings, folder: Path, copying: Progress | None) -> None:
    database = _database(settings)
    copy_database(database, folder / _DATABASE, copying)
    # Of the copy: what was written since is not in it, and not missing.
    write_heads_of(folder / _DATABASE)
    ring = database.with_name(KEY_RING_FILE)
    if ring.exists():
        # After the database, so that every key that it names is there; with the master key that wraps them.
        with writers_kept_out(ring):
            copy_database(ring, folder / KEY_RING_FILE)
            if (settings.home / MASTER_KEY_FILE).exists():
                shutil.copyfile(settings.home / MASTER_KEY_FILE, folder / MASTER_KEY_FILE)


@contextmanager
def _private_folder(home: Path) -> Iterator[Path]:
    """A folder for copies beside the originals: what lies in it is as open to others as those are, and no more."""
    _remove_leftovers(home)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
    with _locked(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(home: Path) -> None:
    """Remove the copies of backups that were killed: nobody holds those any more."""
    for folder in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder as long as this lasts, or the process lives. Raises OSError if another does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


# --- restore -------------------------------------------------------------------------------------------------------


def restore(
    settings: Settings,
    source: Path,
    *,
    passphrase: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Restored:
    """Put a store back from one file, into an empty data directory; with `force` what is there is moved aside.

    Everything is read and compared before anything is moved, so that a file that does not hold changes nothing. On
    PostgreSQL the database must have no store; only the keys in the data directory are moved aside.
    """
    if not source.is_file():
        raise NotFound(f"{source}: there is no such file")
    if settings.address is None:
        return _restored(settings, _database(settings), source, passphrase, force=force, progress=progress)
    with _in_words(settings.home):
        make_private_folder(settings.home)
    with _private_folder(settings.home) as folder:
        return _restored(settings, folder / _DATABASE, source, passphrase, force=force, progress=progress)


def _restored(
    settings: Settings, database: Path, source: Path, passphrase: str | None, *, force: bool, progress: Progress | None
) -> Restored:
    there = [path for path in _present(settings, database) if path.exists()]
    if there and not force:
        raise InvalidInput(f"there is a store already ({there[0]}); --force moves it aside")
    with _in_words(settings.home):
        for folder in (settings.home, database.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = _Staged(settings, database)
    try:
        about = _read(source, staged, passphrase, progress)
        with _in_words(settings.home):
            if settings.address is not None:
                staged.put(_FILES)
                move_store(f"sqlite:///{database}", settings.address, copied=progress, compared=progress)
            aside = _set_aside(settings, database, there) if there else None
            staged.put()
    except BaseException:
        staged.drop()
        raise
    return Restored(
        files=len(staged.drafts),
        operator=str(about.get("operator", "")),
        made=str(about.get("made", "")),
        aside=None if aside is None else str(aside),
        settings=staged.settings_aside,
    )


def _read(source: Path, staged: _Staged, passphrase: str | None, progress: Progress | None) -> dict[str, Any]:
    try:
        with _in_words(staged.home), source.open("rb") as file:
            about = archive.read(file, staged.place, passphrase=passphrase, progress=progress)
    except (InvalidInput, StoreCorrupt) as error:
        raise type(error)(f"{source}: {error.message}; nothing was changed") from None
    if not {_DATABASE, OPERATOR_KEY_FILE} <= staged.drafts.keys():
        raise InvalidInput(f"{source}: not a backup of a whole store; nothing was changed")
    return about


def _present(settings: Settings, database: Path) -> list[Path]:
    """What a store consists of, where this one has it; what shows first whose it is comes first."""
    beside = [database.with_name(f"{path.name}{end}") for path in _databases(database) for end in _BESIDE]
    single = [settings.home / name for name in (*reversed(_SINGLE), *_FOLDERS)]
    return [*single, *beside, heads_path(database), losses_path(database), *_databases(database)]


def _databases(database: Path) -> list[Path]:
    return [database.with_name(KEY_RING_FILE), database]


def _set_aside(settings: Settings, database: Path, there: list[Path]) -> Path:
    """Move what is there into a folder of its own. The database goes last, and without its key it does not open."""
    for path in _databases(database):
        if path.exists():
            settle(path)
    aside = settings.home / f"replaced-{format_instant(system_clock()).replace(':', '')}-{secrets.token_hex(2)}"
    aside.mkdir(mode=0o700)
    for path in there:
        if path.exists():  # what SQLite kept beside it may have gone when its log was taken in
            shutil.move(path, aside / path.name)
    sync_folder(aside)
    return aside


class _Staged:
    """Files of a backup under names of their own beside the places where they are to be."""

    def __init__(self, settings: Settings, database: Path) -> None:
        self.home, self._database = settings.home, database
        self._token = secrets.token_hex(6)
        # By the names in the archive: where each lies, and where it is to be.
        self.drafts: dict[str, tuple[Path, Path]] = {}
        self.settings_aside: str | None = None

    def place(self, name: str) -> archive.Target:
        target = self._target(name)
        if name in self.drafts:
            raise InvalidInput(f"the backup holds {name!a} twice")
        target.parent.mkdir(mode=0o700, exist_ok=True)
        draft = target.with_name(f".{target.name}.{self._token}.restoring")
        self.drafts[name] = draft, target
        return _Synced(create(draft))

    def _target(self, name: str) -> Path:
        if name == _DATABASE:
            return self._database
        if name == _HEADS:
            return heads_path(self._database)
        if name == KEY_RING_FILE:
            return self._database.with_name(KEY_RING_FILE)
        folder, _, inside = name.rpartition("/")
        is_plain = inside not in ("", ".", "..") and "\0" not in inside and "\\" not in inside
        if name in _SINGLE or (folder in _FOLDERS and is_plain):
            return self.home / name
        raise InvalidInput(f"the backup holds {name[:80]!a}, which is no part of a store")

    def put(self, names: Collection[str] | None = None) -> None:
        """Give everything, or some, its name: the database first, the operator's key last."""
        for name, (draft, target) in sorted(self.drafts.items(), key=lambda each: _order(each[0])):
            if (names is not None and name not in names) or not draft.exists():
                continue
            if name == SETTINGS_FILE and _names_a_store(draft):
                target = target.with_name(f"{target.name}.restored")
                self.settings_aside = str(target)
            draft.replace(target)
        for folder in {target.parent for _, target in self.drafts.values()}:
            sync_folder(folder)

    def drop(self) -> None:
        for draft, _ in self.drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()


def _order(name: str) -> int:
    return -1 if name == _DATABASE else _SINGLE.index(name) + 1 if name in _SINGLE else 0


def _names_a_store(path: Path) -> bool:
    """Whether settings name a place for the store, which would be looked for there and not where it was restored to."""
    try:
        return "store" in tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return True


class _Synced:
    """A file that is on the disk when it is closed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes, /) -> object:
        return self._file.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Say what the disk refuses in words for people, with the file that it is about."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(words_of(error), path=error.filename or path) from error

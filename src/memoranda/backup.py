"""Backup and restore of a whole store, with its keys, in one file; and its move to another database.

A backup copies the databases, packs the copies and the small files into an archive, and reads the archive back before
it gets its name. A restore unpacks into temporary files next to their targets, and renames them when all are checked;
the operator's key comes last, because without it a store does not open.

Anything in an archive may be hostile: `bindings/files/archive.py` checks sizes and digests, `storage/sqlite/schema.py`
the schema of its databases, before a file is put in place. A change of what a store consists of (a new file beside the
database) must be added here, or backups lose it; `tests/upgrades` restores every kind of backup.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import msgspec

from memoranda import __version__
from memoranda.bindings.files import archive
from memoranda.bindings.files.folder import atomic_writer, create
from memoranda.bindings.files.sync import STATES_FOLDER
from memoranda.build import build_id
from memoranda.errors import InvalidInput, NotFound, StoreCorrupt, StoreUnavailable, words_of
from memoranda.keys import (
    BACKUP_PREFIX,
    DID_FOLDER,
    OPERATOR_KEY_FILE,
    OWNER_CREDENTIAL_FILE,
    RESTORE_PREFIX,
    MasterKeyFile,
    make_private_folder,
    operator_key,
    sync_folder,
)
from memoranda.model.instant import Instant, format_instant
from memoranda.settings import (
    SETTINGS_FILE,
    Settings,
    is_postgres,
    list_differences,
    sqlite_path,
)
from memoranda.storage.engine.migrations import newest_number
from memoranda.storage.engine.moving import TableStore, move
from memoranda.storage.sqlite.copying import SqliteTables, copy_database, settle, writers_kept_out
from memoranda.storage.sqlite.heads import heads_path, losses_path, write_heads_of
from memoranda.storage.sqlite.keys import SqliteKeyRing
from memoranda.storage.sqlite.migrating import check_file, check_ring_file
from memoranda.stores import KEY_RING_FILE, MASTER_KEY_FILE, open_cipher

Progress = Callable[[int], None]

_DATABASE: Final = "memoranda.db"
# The beginning of the name of such a folder until it is locked.
_UNLOCKED: Final = ".new"
# The ending of files that a restore writes, until all are checked.
_DRAFT_ENDING: Final = ".restoring"
_HEADS: Final = heads_path(Path(_DATABASE)).name
# The operator's key comes last, so that a partly restored store does not open.
_SINGLE: Final = (MASTER_KEY_FILE, OWNER_CREDENTIAL_FILE, SETTINGS_FILE, OPERATOR_KEY_FILE)
_FOLDERS: Final = (DID_FOLDER, STATES_FOLDER)
# Members of a backup that a store on PostgreSQL keeps in its database.
_FILES: Final = (_DATABASE, _HEADS, KEY_RING_FILE)
# Endings of the files that SQLite keeps next to a database in use.
_SQLITE_ENDINGS: Final = ("-wal", "-shm")


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a backup that was written."""

    files: int
    bytes: int
    operator: str
    encrypted: bool


class SettingDifference(NamedTuple):
    """A setting in a backup that differs from the one in force."""

    name: str
    backup: object
    current: object


# Decides if differing settings of a backup are applied. They may run commands and open the server to others.
TakesSettings = Callable[[Sequence[SettingDifference]], bool]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore, with the folder of the store that was there before."""

    files: int
    operator: str
    created: str
    aside: str | None
    # The file with the settings of the backup, if they were not applied; and those that differ.
    settings: str | None
    differences: tuple[SettingDifference, ...] = ()


def back_up(
    settings: Settings,
    target: Path,
    *,
    passphrase: str | None = None,
    copying: Progress | None = None,
    writing_progress: Progress | None = None,
    checking: Progress | None = None,
) -> BackedUp:
    """Write everything of a store to one file, while others use it; it appears whole and checked, or not at all.

    Raises InvalidInput if the target is a file of the store itself, and StoreUnavailable if the operator's key is
    missing, because such a backup could not be restored.
    """
    database = settings.home / _DATABASE if settings.address is not None else _database(settings)
    if target.exists() and any(
        path.exists() and path.samefile(target) for path in _store_files(settings, database)
    ):
        raise InvalidInput(f"{target} is a part of the store; name another file")
    if not (settings.home / OPERATOR_KEY_FILE).exists():
        path = settings.home / OPERATOR_KEY_FILE
        raise StoreUnavailable(
            "the operator's key is missing, and a backup without it cannot be restored", path=path
        )
    operator = operator_key(settings.home).did
    _remove_drafts(settings.home, database)
    with _translate_errors(target), _private_folder(settings.home) as folder:
        members = _collect_members(settings, folder, copying)
        about = {
            "memoranda": __version__,
            "build": build_id(),
            "layout": newest_number("sqlite"),
            "operator": operator,
            "made": _now(),
        }
        with atomic_writer(target) as file:
            entries = archive.write_archive(
                file, members, about, passphrase=passphrase, progress=writing_progress
            )
            file.seek(0)
            archive.read_archive(file, lambda _: None, passphrase=passphrase, progress=checking)
    return BackedUp(
        files=len(entries),
        bytes=sum(entry.size for entry in entries.values()),
        operator=operator,
        encrypted=passphrase is not None,
    )


def _now() -> str:
    return format_instant(Instant(time.time_ns() // 1_000_000))


def _database(settings: Settings) -> Path:
    if settings.database_path is None:
        raise InvalidInput("a store in memory has no files; use memoranda export")
    return settings.database_path


def _collect_members(
    settings: Settings, folder: Path, copying: Progress | None
) -> list[archive.Member]:
    """Return the members of the archive: copies of the databases, and the small files themselves."""
    if settings.address is None:
        _copy_files(settings, folder, copying)
    else:
        # Copied to SQLite, so that a backup of either database can be restored into either.
        _copy_to_file(settings, folder / _DATABASE, copied=copying, compared=copying)
    copies = [folder / name for name in _FILES]
    members = [archive.Member(path.name, path) for path in copies if path.exists()]
    for name in _SINGLE:
        copied = folder / name
        path = copied if copied.exists() else settings.home / name
        if path.is_file():
            members.append(archive.Member(name, path))
    for name in _FOLDERS:
        paths = sorted(path for path in (settings.home / name).glob("*.json") if path.is_file())
        members += [archive.Member(f"{name}/{path.name}", path) for path in paths]
    return members


def _copy_files(settings: Settings, folder: Path, copying: Progress | None) -> None:
    database = _database(settings)
    copy_database(database, folder / _DATABASE, copying)
    # The heads of the copy: later writes are not in it, and must not count as lost.
    write_heads_of(folder / _DATABASE)
    ring = database.with_name(KEY_RING_FILE)
    if ring.exists():
        # After the database, so that it holds every key that the copy needs; with the master key that wraps them.
        with writers_kept_out(ring):
            copy_database(ring, folder / KEY_RING_FILE)
            if (settings.home / MASTER_KEY_FILE).exists():
                shutil.copyfile(settings.home / MASTER_KEY_FILE, folder / MASTER_KEY_FILE)


@contextmanager
def _private_folder(home: Path) -> Iterator[Path]:
    """Make a folder for copies in the data directory, as private as the originals, and remove it afterwards."""
    _remove_copies(home)
    with _locked_folder(home, BACKUP_PREFIX) as folder:
        yield folder


@contextmanager
def _locked_folder(home: Path, prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it afterwards. It is locked before it has its name, so that nobody removes it."""
    draft = Path(tempfile.mkdtemp(prefix=f"{_UNLOCKED}{prefix}", dir=home))
    folder = draft.with_name(draft.name.removeprefix(_UNLOCKED))
    with _locked(draft):
        try:
            draft.rename(folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(home: Path, database: Path) -> None:
    """Remove the copies of killed backups and restores. The folders of those at work are locked."""
    _remove_copies(home)
    _remove_drafts(home, database)


def _remove_copies(home: Path) -> None:
    for folder in home.glob(f"{BACKUP_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _restore_folder(settings: Settings, database: Path) -> Iterator[str]:
    """Mark a restore at work, and yield the token in the names of its files; remove those of killed ones."""
    _remove_drafts(settings.home, database)
    with contextlib.ExitStack() as stack:
        with _translate_errors(settings.home):
            folder = stack.enter_context(_locked_folder(settings.home, RESTORE_PREFIX))
        yield folder.name.removeprefix(RESTORE_PREFIX)


def _remove_drafts(home: Path, database: Path) -> None:
    """Remove the files left by killed restores: their folders are no longer locked."""
    folders = (home, database.parent, *(home / name for name in _FOLDERS))
    for marker in home.glob(f"{RESTORE_PREFIX}*"):
        token = glob.escape(marker.name.removeprefix(RESTORE_PREFIX))
        with contextlib.suppress(OSError), _locked(marker):
            for folder in folders:
                for path in folder.glob(f".*.{token}{_DRAFT_ENDING}"):
                    path.unlink()
            shutil.rmtree(marker)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, until the block or the process ends. Raises OSError if another process holds the lock."""
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
    takes_settings: TakesSettings = lambda _: False,
    progress: Progress | None = None,
) -> Restored:
    """Restore a store from one file into an empty data directory; with `force` an existing store is moved aside.

    The whole file is read first, and its database compared with the layouts that this version can open: a damaged or
    newer file, or one with triggers, changes nothing. Settings that differ from those in force are applied only if
    `takes_settings` agrees. On PostgreSQL the database must not hold a store; only the keys in the data directory are
    moved aside.
    """
    if not source.is_file():
        raise NotFound(f"{source}: there is no such file")
    if settings.address is None:
        return _restore_into(
            settings,
            _database(settings),
            source,
            passphrase,
            force=force,
            takes_settings=takes_settings,
            progress=progress,
        )
    with _translate_errors(settings.home):
        make_private_folder(settings.home)
    with _private_folder(settings.home) as folder:
        return _restore_into(
            settings,
            folder / _DATABASE,
            source,
            passphrase,
            force=force,
            takes_settings=takes_settings,
            progress=progress,
        )


def _restore_into(
    settings: Settings,
    database: Path,
    source: Path,
    passphrase: str | None,
    *,
    force: bool,
    takes_settings: TakesSettings,
    progress: Progress | None,
) -> Restored:
    existing = [path for path in _store_files(settings, database) if path.exists()]
    if existing and not force:
        raise InvalidInput(f"there is a store already ({existing[0]}); --force moves it aside")
    with _translate_errors(settings.home):
        for folder in (settings.home, database.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _restore_folder(settings, database) as token:
        staged = _Staged(settings, database, token)
        try:
            about = _unpack(source, staged, passphrase, progress)
            staged.check_layout(source)
            staged.choose_settings(settings, takes_settings)
            if not staged.applies_settings:
                # The settings in force stay.
                existing = [path for path in existing if path.name != SETTINGS_FILE]
            with _translate_errors(settings.home):
                if settings.address is not None:
                    staged.put(_FILES)
                    move_store(
                        f"sqlite:///{database}",
                        settings.address,
                        copied=progress,
                        compared=progress,
                    )
                aside = _set_aside(settings, database, existing) if existing else None
                staged.put()
        except BaseException:
            staged.drop()
            raise
    return Restored(
        files=len(staged.drafts),
        operator=str(about.get("operator", "")),
        created=str(about.get("made", "")),
        aside=None if aside is None else str(aside),
        settings=staged.settings_aside,
        differences=staged.differences,
    )


def _unpack(
    source: Path, staged: _Staged, passphrase: str | None, progress: Progress | None
) -> dict[str, Any]:
    try:
        with _translate_errors(staged.home), source.open("rb") as file:
            about = archive.read_archive(
                file, staged.open_target, passphrase=passphrase, progress=progress
            )
    except (InvalidInput, StoreCorrupt) as error:
        raise type(error)(f"{source}: {error.message}; nothing was changed") from None
    if not {_DATABASE, OPERATOR_KEY_FILE} <= staged.drafts.keys():
        raise InvalidInput(f"{source}: not a complete backup; nothing was changed")
    return about


def _store_files(settings: Settings, database: Path) -> list[Path]:
    """Return the paths of all files of a store, the operator's key first."""
    sqlite_files = [
        database.with_name(f"{path.name}{end}")
        for path in _databases(database)
        for end in _SQLITE_ENDINGS
    ]
    single = [settings.home / name for name in (*reversed(_SINGLE), *_FOLDERS)]
    return [
        *single,
        *sqlite_files,
        heads_path(database),
        losses_path(database),
        *_databases(database),
    ]


def _databases(database: Path) -> list[Path]:
    return [database.with_name(KEY_RING_FILE), database]


def _set_aside(settings: Settings, database: Path, existing: list[Path]) -> Path:
    """Move the files of a store into a new folder, the database last: without its key it does not open."""
    for path in _databases(database):
        if path.exists():
            settle(path)
    aside = settings.home / f"replaced-{_now().replace(':', '')}-{secrets.token_hex(2)}"
    aside.mkdir(mode=0o700)
    for path in existing:
        if path.exists():  # SQLite may have deleted its log files
            shutil.move(path, aside / path.name)
    sync_folder(aside)
    return aside


class _Staged:
    """Files of a backup under temporary names, next to their targets."""

    def __init__(self, settings: Settings, database: Path, token: str) -> None:
        """Take names for temporary files, with `token` in each."""
        self.home, self._database, self._token = settings.home, database, token
        # The temporary file and the target, by the name in the archive.
        self.drafts: dict[str, tuple[Path, Path]] = {}
        self.settings_aside: str | None = None
        self.applies_settings = True
        self.differences: tuple[SettingDifference, ...] = ()

    def check_layout(self, source: Path) -> None:
        """Raise an error unless this version can open the database and the key ring."""
        for name, check in ((_DATABASE, check_file), (KEY_RING_FILE, check_ring_file)):
            if name in self.drafts:
                try:
                    check(self.drafts[name][0])
                except (StoreCorrupt, StoreUnavailable) as error:
                    raise type(error)(f"{source}: {error.message}; nothing was changed") from error

    def choose_settings(self, settings: Settings, takes_settings: TakesSettings) -> None:
        """Decide if the settings of the backup are applied."""
        if SETTINGS_FILE not in self.drafts:
            return
        draft, _ = self.drafts[SETTINGS_FILE]
        try:
            differences = list_differences(draft, settings)
        except InvalidInput:
            # A newer version may have written settings that this one does not know.
            self.applies_settings = False
            return
        self.differences = tuple(SettingDifference(*difference) for difference in differences)
        # A store with another name would be opened instead of the restored one.
        names_a_store = any(difference.name == "store" for difference in self.differences)
        self.applies_settings = not self.differences or (
            not names_a_store and takes_settings(self.differences)
        )

    def open_target(self, name: str) -> archive.Target:
        """Open a temporary file for a member of the archive. Raises InvalidInput for an unknown or repeated member."""
        target = self._target(name)
        if name in self.drafts:
            raise InvalidInput(f"the backup holds {name!a} twice")
        target.parent.mkdir(mode=0o700, exist_ok=True)
        draft = target.with_name(f".{target.name}.{self._token}{_DRAFT_ENDING}")
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
        raise InvalidInput(f"the backup holds {name[:80]!a}, which is not part of a store")

    def put(self, names: Collection[str] | None = None) -> None:
        """Rename all files, or those of these names, to their targets: the database first, the operator's key last."""
        for name, (draft, target) in sorted(self.drafts.items(), key=lambda item: _order(item[0])):
            if (names is not None and name not in names) or not draft.exists():
                continue
            if name == SETTINGS_FILE and not self.applies_settings:
                target = target.with_name(f"{target.name}.restored")
                self.settings_aside = str(target)
            draft.replace(target)
        for folder in {target.parent for _, target in self.drafts.values()}:
            sync_folder(folder)

    def drop(self) -> None:
        """Delete the temporary files."""
        for draft, _ in self.drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()


def _order(name: str) -> int:
    """Return the rank of a file in the order of renaming."""
    if name == _DATABASE:
        return -1
    return _SINGLE.index(name) + 1 if name in _SINGLE else 0


class _Synced:
    """A file that is synced to disk when it is closed."""

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
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise StoreUnavailable for an OSError, with the file and a message for people."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(words_of(error), path=error.filename or path) from error


# --- copies of the tables ---------------------------------------------------------------------------------------


def move_store(
    source: str,
    target: str,
    *,
    copied: Progress | None = None,
    compared: Progress | None = None,
) -> int:
    """Copy a store to an empty database and compare all rows; return their number."""
    with closing(_tables(source)) as origin, closing(_tables(target, is_target=True)) as copy:
        return move(origin, copy, copied=copied, compared=compared)


def _copy_to_file(
    settings: Settings,
    database: Path,
    *,
    copied: Progress | None = None,
    compared: Progress | None = None,
) -> None:
    """Copy a snapshot of a store on PostgreSQL to an SQLite file, with the key ring and the master key next to it."""
    assert settings.address is not None
    with closing(open_cipher(settings)) as cipher:
        # Adds master keys made on other machines to our file.
        cipher.reload()
    with closing(_postgres_tables(settings.address, is_moment=True)) as origin:
        master, ring = database.with_name(MASTER_KEY_FILE), database.with_name(KEY_RING_FILE)
        if (settings.home / MASTER_KEY_FILE).exists():
            shutil.copy2(settings.home / MASTER_KEY_FILE, master)
        with closing(_tables(f"sqlite:///{database}", is_target=True)) as copy:
            move(origin, copy, copied=copied, compared=compared)
    with closing(SqliteKeyRing(ring)) as keys:
        used_masters = keys.master_versions()
    if used_masters is not None and not all(
        MasterKeyFile(master).has(version) for version in used_masters
    ):
        raise StoreUnavailable("the master key was rotated during the backup; start it again")


def _tables(url: str, *, is_target: bool = False) -> TableStore:
    """Open the tables of a store for copying."""
    if is_postgres(url):
        return _postgres_tables(url)
    path = sqlite_path(url)
    if path is None:
        raise InvalidInput("a store in memory cannot be copied")
    return SqliteTables(path, path.with_name(KEY_RING_FILE), is_target=is_target)


def _postgres_tables(address: str, *, is_moment: bool = False) -> TableStore:
    """Open the tables of a store on PostgreSQL; `is_moment`: all reads see one moment."""
    from memoranda.storage.postgres.moving import PostgresTables

    return PostgresTables(address, is_moment=is_moment)

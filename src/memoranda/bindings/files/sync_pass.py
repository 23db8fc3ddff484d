"""A folder of Markdown files and the store, kept the same in both directions: the state between runs, and one run.

    file          memory        action
    unchanged     changed       the file is rewritten
    unchanged     gone          the file is removed
    edited        unchanged     the memory is revised
    edited        changed       conflict: the store's version stays in the file, the person's text in a copy
    edited        gone          conflict: the person's text stays in a copy
    deleted       unchanged     the memory is forgotten
    deleted       changed       the file is written again
    new           –             a memory is remembered; a copy of a note whose memory was forgotten follows that note
    –             new           a file is written
    renamed                     the state follows the file

Both sides are compared with the state that they agreed on last, which is kept in the data directory. So only a file
that this machine wrote, or imported, can be forgotten because it is missing. Others may write to the folder, so nothing
in it says which memory to forget or where to write: the folder only has a marker, which tells whether it is still the
folder that was synchronised. A folder that took its place (a drive that is not mounted, a fresh clone) has another
marker or none, and then both sides are compared as in the first run.

A run (`FolderPass`) reads all files, then all memories, pairs them, and yields one plan after the other; nothing is
changed before a plan is executed. Links are never followed. A file that cannot be read is reported and left alone, and
the run goes on.

Files may keep the text of a memory that is erased later: in the trash, and in the copy that a conflict leaves. They are
in the state, and are removed when their memory is erased. Files that `.memorandaignore` names are left alone.

A folder has one form. `vault.py` has notes as people write them, `record_files.py` complete records in the form of the
standard (*.ump.md). This module has the parts that both share.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Generic, Self, TypeVar, cast

import msgspec
from msgspec.structs import asdict, replace

from memoranda.bindings.files.folder import DEFAULT_MODE, Folder, read_file, replace_file
from memoranda.bindings.files.ignore import IgnoreList
from memoranda.bindings.files.markdown_book import MAX_BLOCK_BYTES
from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.service.core.access import Access
from memoranda.service.core.lookup import is_erased
from memoranda.service.service import Service
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest
from memoranda.standards.ump.shapes import Record, Unchecked

# Obsidian's folder for deleted notes, if it is set to keep them in the vault.
TRASH: Final = ".trash"
FORGET_REASON: Final = "its file was deleted"
MARKER_FILE: Final = ".memoranda-sync.json"
# Bytes; a marker has a few hundred.
MAX_MARKER_BYTES: Final = 65_536
# Bytes: a quarter of a million files of 250 bytes each.
MAX_STATE_BYTES: Final = 64 * 1_048_576
# Files in the trash that are compared with a deleted file.
_MAX_TRASH: Final = 1_000
_ERASED: Final = "its memory was erased"
# A parsed file: a note, or the fields of a record.
Content = TypeVar("Content")


# --- the state -------------------------------------------------------------------------------------------------------


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was when both sides agreed: the id of its memory, and the hashes of the file and of the record.

    A file without an id duplicates another file. `root` is the first id that the memory had: other notes link to it,
    whatever happens to either.
    """

    id: str
    file: str
    record: str
    root: str = ""


class SyncState(msgspec.Struct, kw_only=True):
    """The files of a folder that this machine wrote or imported, by name."""

    path: Path
    marker: dict[str, object]
    entries: dict[str, FileEntry] = msgspec.field(default_factory=dict)
    # Files in the trash and copies of conflicts: by name, with the version that they show, and the hash of the file.
    copies: dict[str, FileEntry] = msgspec.field(default_factory=dict)

    @classmethod
    def load(
        cls, states: Path, folder: Folder, *, owner: str, project: str | None, form: str
    ) -> Self:
        """Read the state of a folder, or start a new one.

        Raises InvalidInput for a folder of another owner, project or form, and for a state that cannot be read.
        """
        expected = {"memoranda": 1, "owner": owner, "project": project, "form": form}
        marker = _read_marker(folder) or {**expected, "folder": secrets.token_hex(16)}
        expected["folder"] = marker["folder"]
        if marker != expected:
            _refuse_marker(folder, marker, expected)
        path = (
            states / f"{fingerprint(str(folder.path).encode('utf-8', 'surrogateescape'))[:32]}.json"
        )
        try:
            document = parse(read_file(path, max_bytes=MAX_STATE_BYTES), max_bytes=MAX_STATE_BYTES)
            entries, copies = dict[str, FileEntry](), dict[str, FileEntry]()
            if document["marker"] == marker:
                entries = {name: FileEntry(**fields) for name, fields in document["files"].items()}
                stored_copies = document.get("copies", {})
                copies = {name: FileEntry(**fields) for name, fields in stored_copies.items()}
        except NotFound:
            entries, copies = {}, {}
        except (LookupError, TypeError, AttributeError, MemorandaError):
            raise InvalidInput(f"{path}: not readable; delete it to start over") from None
        return cls(path=path, marker=marker, entries=entries, copies=copies)

    def save(self, folder: Folder) -> None:
        """Write the state, and the marker of the folder if it has none yet."""
        files, copies = (
            {name: asdict(entry) for name, entry in sorted(entries.items())}
            for entries in (self.entries, self.copies)
        )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            "memoranda": 1,
            "folder": str(folder.path),
            "marker": self.marker,
            "files": files,
            **({"copies": copies} if copies else {}),
        }
        replace_file(self.path, _json_line(document))
        if _read_marker(folder) != self.marker:
            folder.write(MARKER_FILE, _json_line(self.marker), mode=DEFAULT_MODE)


def _refuse_marker(folder: Folder, marker: dict[str, object], expected: dict[str, object]) -> None:
    """Raise InvalidInput for a folder whose marker states something else."""
    if marker == {**expected, "form": marker.get("form")}:
        raise InvalidInput(
            f"{folder.path}: this folder holds {marker['form']}; say --form {marker['form']}"
        )
    other = f"owner {marker.get('owner')}"
    if marker.get("project"):
        other += f", project {marker['project']}"
    raise InvalidInput(
        f"{folder.path}: this folder is synchronised with {other}; use another folder"
    )


def _read_marker(folder: Folder) -> dict[str, object] | None:
    """Read the marker of a folder; None if there is none, or if it is not one."""
    try:
        marker = parse(folder.read_bytes(MARKER_FILE, max_bytes=MAX_MARKER_BYTES))
    except MemorandaError:
        return None
    is_marker = isinstance(marker, dict) and isinstance(marker.get("folder"), str)
    return marker if is_marker else None


def _json_line(document: dict[str, object]) -> bytes:
    return (dump_pretty(document) + "\n").encode("utf-8")


def fingerprint(data: bytes) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


# --- plans -----------------------------------------------------------------------------------------------------------


class SyncStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change to one file: written, removed, remembered, revised, forgotten, conflict, twin or refused."""

    name: str
    did: str
    detail: str = ""

    def document(self) -> dict[str, str]:
        """Return the step as JSON."""
        detail = {"detail": self.detail} if self.detail else {}
        return {"file": self.name, "did": self.did, **detail}


class SyncPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Planned steps and how to run them; the run may return other steps."""

    steps: Sequence[SyncStep]
    run: Callable[[], Sequence[SyncStep] | None] | None = None

    def execute(self) -> Sequence[SyncStep]:
        """Run the plan and return the steps taken; all of them are refused if the run fails."""
        try:
            changed_steps = self.run() if self.run is not None else None
        except MemorandaError as error:
            return [
                SyncStep(name=step.name, did="refused", detail=error.message) for step in self.steps
            ]
        return changed_steps or self.steps


def one_step(
    name: str,
    did: str,
    run: Callable[[], Sequence[SyncStep] | None] | None = None,
    detail: str = "",
) -> SyncPlan:
    """Return a plan of one step about one file."""
    return SyncPlan(steps=(SyncStep(name=name, did=did, detail=detail),), run=run)


# --- one run ---------------------------------------------------------------------------------------------------------


class FolderPass(ABC, Generic[Content]):
    """One comparison of a folder and the store, and the plans that follow from it."""

    # The endings of the names of its files; new files get the first.
    endings: tuple[str, ...]

    def __init__(
        self,
        service: Service,
        access: Access,
        folder: Folder,
        project: str | None,
        state: SyncState,
    ) -> None:
        self._service = service
        self._access = access
        self._folder = folder
        self._project = project
        self._state = state
        self._names = self._list_files()
        self._ignored = IgnoreList.load(folder)
        # In lower case: some file systems do not tell names apart that differ in case alone.
        self._used_names = {name.casefold() for name in self._names}
        # Fingerprints of all files; the bytes and the parsed content only of those that are new or were edited.
        self._digests: dict[str, str] = {}
        self._edited: dict[str, bytes] = {}
        self._contents: dict[str, Content] = {}
        # Files that cannot be synchronised, with the reason.
        self._problems: dict[str, str] = {}
        # Files with a current memory, by name; and the file of each such memory, by the id of its version.
        self._paired: set[str] = set()
        self._files_by_id: dict[str, str] = {}
        # Paired files whose memory changed since both sides agreed.
        self._revised: set[str] = set()
        # The current record of each file that is about to be written or compared.
        self._latest: dict[str, Record] = {}
        # Memories without a file, by id.
        self._unfiled: list[str] = []
        # True for each id that the store has any version of.
        self._known_ids: dict[str, bool] = {}

    # --- parts that depend on the form -----------------------------------------------------------------

    @abstractmethod
    def _list_files(self) -> list[str]:
        """Return the names of all files in the folder."""

    @abstractmethod
    def _has_form(self, name: str) -> bool:
        """Return True if a file is one of this form, by its name."""

    @abstractmethod
    def _parse(self, data: bytes) -> Content:
        """Parse a file. Raises MemorandaError if that is impossible."""

    @abstractmethod
    def _follow_renames(self) -> None:
        """Give the entries of missing files to the new files that they were renamed to."""

    @abstractmethod
    def _file_of(self, record: Record) -> str:
        """Return the file that holds a memory, or an empty string."""

    @abstractmethod
    def _plan_edited(self, name: str) -> SyncPlan | None:
        """Plan for an edited file whose memory is current."""

    @abstractmethod
    def _plan_revised(self, name: str) -> SyncPlan | None:
        """Plan for a file that nobody edited, and whose memory was revised."""

    @abstractmethod
    def _plan_new(self, name: str) -> SyncPlan | None:
        """Plan for a file that the store has no memory of."""

    @abstractmethod
    def _free_name(self, record: Record) -> str:
        """Return a free name for a memory that has no file."""

    @abstractmethod
    def _render(self, name: str, record: Record, /) -> bytes:
        """Return the bytes of a file for a record."""

    def _plan_remaining(self) -> Iterator[SyncPlan]:
        """Yield plans that come after those of single files, and before missing files are written."""
        return iter(())

    # --- scanning both sides -------------------------------------------------------------------------

    def plans(self) -> Iterator[SyncPlan]:
        """Compare both sides, and yield the plans; each may be executed before the next is asked for."""
        self._scan_files()
        self._follow_renames()
        self._scan_store()
        yield from self._plan_copies()
        for name in sorted({*self._state.entries, *self._edited, *self._problems}):
            plan = self._plan_file(name)
            if plan is not None:
                yield plan
        yield from self._plan_remaining()
        for record in self._service.export(
            self._access, project=self._project, history=False, names=self._unfiled
        ):
            name = self._free_name(record)
            if self._ignored.matches(name):
                continue
            self._used_names.add(name.casefold())
            yield self._plan_write(name, "written", record=record)

    def _scan_files(self) -> None:
        """Read all files of this form, and parse those that changed since both sides agreed."""
        for name in filter(self._has_form, self._names):
            if self._ignored.matches(name):
                continue
            if not name.isprintable():
                self._problems[ascii(name)] = "its name holds characters that no title can have"
                continue
            try:
                data = self._folder.read_bytes(name, max_bytes=MAX_BLOCK_BYTES)
            except MemorandaError as error:
                self._problems[name] = error.message.removeprefix(f"{name.rsplit('/', 1)[-1]}: ")
                continue
            self._digests[name] = fingerprint(data)
            entry = self._state.entries.get(name)
            if entry is None or entry.file != self._digests[name]:
                self._edited[name] = data
            self._scan_file(name, data)

    def _scan_file(self, name: str, data: bytes) -> None:
        """Parse a file if it is new or was edited."""
        if name not in self._edited:
            return
        try:
            self._contents[name] = self._parse(data)
        except MemorandaError as error:
            self._problems[name] = error.message

    def _exists(self, name: str) -> bool:
        """Return True if a file is there; an ignored one counts as there, so that nobody forgets its memory."""
        return name in self._digests or name in self._problems or self._ignored.matches(name)

    def _scan_store(self) -> None:
        """Find the file of every current memory, and list the memories without one."""
        entries = self._state.entries
        for record in self._service.export(
            self._access, project=self._project, history=False, carry=False
        ):
            name = self._file_of(record)
            if not name or name in self._paired:
                name = self._file_of_earlier(record)
            if name:
                self._pair(name, record)
            else:
                self._unfiled.append(record["id"])
        for name, entry in entries.items():
            # After several revisions the latest version does not name the one that the file had.
            latest = self._latest_id(entry.id) if entry.id and name not in self._paired else None
            if latest in self._unfiled:
                self._unfiled.remove(latest)
                self._pair(name, self._export_record(latest))

    def _file_of_earlier(self, record: Record) -> str:
        """Return the file of a memory that was revised during the scan, and so is exported a second time."""
        if not record.get("supersedes") or not self._files_by_id:
            return ""
        files = self._files_by_id
        return next((files[name] for name in self._version_ids(record["id"]) if name in files), "")

    def _pair(self, name: str, record: Record) -> None:
        """Note that a memory belongs to a file, and whether it changed since both sides agreed."""
        self._paired.add(name)
        self._files_by_id[record["id"]] = name
        entry = self._state.entries.get(name)
        if entry is None or entry.record != record["integrity"]["content_hash"]:
            self._revised.add(name)
        if name in self._revised or name in self._edited or not self._exists(name):
            self._latest[name] = record

    def _version_ids(self, record_id: str) -> list[str]:
        """Return the ids of all versions of a memory, oldest first; empty if it is unknown."""
        try:
            return [
                str(cast("Record", version["record"])["id"])
                for version in self._service.history(self._access, record_id)
            ]
        except NotFound:
            return []

    def _latest_id(self, record_id: str) -> str | None:
        return next(reversed(self._version_ids(record_id)), None)

    # --- planning ------------------------------------------------------------------------------------

    def _plan_file(self, name: str) -> SyncPlan | None:
        """Plan for one file by the table above; None if nothing is to be done."""
        if name in self._problems:
            return one_step(name, "refused", detail=self._problems[name])
        if self._ignored.matches(name):
            return None
        try:
            if self._exists(name):
                return self._plan_existing(name)
        except MemorandaError as error:
            return one_step(name, "refused", detail=error.message)
        return self._plan_deleted(name)

    def _plan_existing(self, name: str) -> SyncPlan | None:
        entry = self._state.entries.get(name)
        if name in self._paired:
            if name in self._edited:
                return self._plan_edited(name)
            return self._plan_revised(name) if name in self._revised else None
        # Unknown is not forgotten: another store, or one restored from a backup, must not cost anyone a file.
        if entry is None or not entry.id or not self._is_known(entry.id):
            return self._plan_new(name)
        if self._digests[name] != entry.file:
            return self._plan_conflict(name, "edited here, but forgotten in the store")
        return one_step(name, "removed", lambda: self._remove_file(name))

    def _plan_deleted(self, name: str) -> SyncPlan | None:
        if name in self._revised:
            return self._plan_write(name, "written", "deleted here, but changed in the store")
        entry = self._state.entries[name]
        if name not in self._paired:  # gone on both sides, or a duplicate
            del self._state.entries[name]
            return None
        return self._plan_forget(name, entry.id)

    def _plan_forget(self, name: str, record_id: str) -> SyncPlan:
        def forget() -> None:
            request = ForgetRequest.parse({"id": record_id, "reason": FORGET_REASON})
            self._service.forget(self._access, request)
            self._note_discarded(self._state.entries.get(name))
            self._remove_file(name)

        return one_step(name, "forgotten", forget, record_id)

    def _is_known(self, record_id: str) -> bool:
        """Return True if the store has any version with this id, even of a forgotten memory."""
        if record_id not in self._known_ids:
            self._known_ids[record_id] = bool(self._version_ids(record_id))
        return self._known_ids[record_id]

    def _plan_write(
        self, name: str, did: str, detail: str = "", record: Record | None = None
    ) -> SyncPlan:
        new_record = record or self._latest[name]
        return one_step(name, did, lambda: self._write_record(name, new_record), detail)

    def _plan_conflict(self, name: str, reason: str) -> SyncPlan:
        """Plan to copy the person's text to a file of its own, and to show the store's version in the old one."""

        def separate() -> None:
            data = self._read_bytes(name)
            self._folder.write(copy_name, data, mode=DEFAULT_MODE)
            entry = self._state.entries.get(name)
            if entry is not None and entry.id and not self._is_erased(entry.id):
                self._state.copies[copy_name] = replace(entry, file=fingerprint(data))
            if name in self._latest:
                self._write_record(name, self._latest[name])
            else:
                self._delete_file(name)

        copy_name = self._free_conflict_name(name)
        return one_step(name, "conflict", separate, f"{reason}; your text is in {copy_name}")

    # --- copies of what was forgotten ----------------------------------------------------------------

    def _plan_copies(self) -> Iterator[SyncPlan]:
        """Yield the removals of files that keep the text of a memory which was erased since."""
        for name, entry in sorted(self._state.copies.items()):
            try:
                digest = fingerprint(self._folder.read_bytes(name, max_bytes=MAX_BLOCK_BYTES))
            except MemorandaError:
                # It was moved or deleted.
                del self._state.copies[name]
                continue
            if not self._is_erased(entry.id):
                continue
            if digest == entry.file:
                yield one_step(name, "removed", partial(self._remove_copy, name), _ERASED)
            else:
                detail = f"{_ERASED}, but this file was edited; delete it if it still has the text"
                yield one_step(name, "refused", detail=detail)

    def _remove_copy(self, name: str) -> None:
        self._folder.remove(name)
        del self._state.copies[name]

    def _note_discarded(self, entry: FileEntry | None) -> None:
        """Note the file in the trash to which an editor moved a deleted file."""
        for name in self._folder.files_in(TRASH)[:_MAX_TRASH] if entry is not None else ():
            if name in self._state.copies or entry is None:
                continue
            with suppress(MemorandaError):
                data = self._folder.read_bytes(name, max_bytes=MAX_BLOCK_BYTES)
                if fingerprint(data) == entry.file:
                    self._state.copies[name] = entry

    def _is_erased(self, record_id: str) -> bool:
        """Return True if a version was erased."""
        return is_erased(self._service.context, self._access, record_id)

    # --- executing -----------------------------------------------------------------------------------

    def _write_record(self, name: str, record: Record) -> None:
        """Write the file of a record, and note the agreement."""
        self._mark_synced(name, record, self._write_file(name, self._render(name, record)))

    def _write_file(self, name: str, data: bytes) -> str:
        """Write a file and return its fingerprint. Raises InvalidInput if it changed since the scan."""
        self._require_unchanged(name)
        self._folder.write(name, data, mode=DEFAULT_MODE)
        return fingerprint(data)

    def _mark_synced(self, name: str, record: Record, file_digest: str) -> None:
        """Note in the state that a file and a record agree."""
        entry = self._state.entries.get(name)
        self._digests[name] = file_digest
        root = entry.root if entry is not None and entry.root else self._first_id(record)
        self._state.entries[name] = FileEntry(
            id=record["id"],
            file=file_digest,
            record=record["integrity"]["content_hash"],
            root=root,
        )

    def _first_id(self, record: Record) -> str:
        return self._version_ids(record["id"])[0] if record.get("supersedes") else record["id"]

    def _remove_file(self, name: str) -> None:
        """Remove the file of a forgotten memory."""
        self._delete_file(name)

    def _delete_file(self, name: str) -> None:
        self._require_unchanged(name)
        self._folder.remove(name)
        self._state.entries.pop(name, None)

    def _require_unchanged(self, name: str) -> None:
        """Raise InvalidInput if a file changed since it was scanned."""
        digest: str | None = None
        with suppress(NotFound):
            digest = fingerprint(self._folder.read_bytes(name, max_bytes=MAX_BLOCK_BYTES))
        if digest != self._digests.get(name):
            raise InvalidInput("it changed while it was being synchronised; run sync again")

    def _read_bytes(self, name: str) -> bytes:
        return self._edited.get(name) or self._folder.read_bytes(name, max_bytes=MAX_BLOCK_BYTES)

    def _free_conflict_name(self, name: str) -> str:
        """Return a free name for the copy of a file in conflict, and reserve it."""
        length = next(len(end) for end in self.endings if name.casefold().endswith(end))
        stem, ending = name[:-length], name[-length:]
        free, count = f"{stem}.conflict{ending}", 1
        while free.casefold() in self._used_names:
            count += 1
            free = f"{stem}.conflict-{count}{ending}"
        self._used_names.add(free.casefold())
        return free

    def _is_conflict_copy(self, name: str) -> bool:
        endings = "|".join(map(re.escape, self.endings))
        pattern = rf"\.conflict(?:-\d+)?(?:{endings})\Z"
        return re.search(pattern, name, re.IGNORECASE) is not None

    def _revise(self, record_id: str, patch: Unchecked) -> str:
        """Revise a memory, and return the id of the new version."""
        request = ReviseRequest.parse({"id": record_id, "patch": patch})
        return self._service.revise(self._access, request).id

    def _export_record(self, record_id: str) -> Record:
        """Return a record as files show it: without the parts that its consent redacts.

        Raises InvalidInput for a record that may not leave the store.
        """
        for record in self._service.export(self._access, names=(record_id,)):
            return record
        raise InvalidInput(f"{record_id} may not leave the store")

"""A folder of Markdown files and the store, kept the same in both directions.

    file          memory        what happens
    unchanged     changed       the file is rewritten
    unchanged     gone          the file is removed
    edited        unchanged     the memory is revised
    edited        changed       conflict: the store's version stays in the file, the person's text beside it
    edited        gone          conflict: the person's text stays beside
    deleted       unchanged     the memory is forgotten
    deleted       changed       the file is written again
    new           –             a memory is remembered
    –             new           a file is written
    renamed                     followed

Compared is with what both sides agreed on last (sync_state): only what this machine wrote to the folder, or took in
from it, can be forgotten because it is missing there. Links are never followed. A file that cannot be read is
reported and left alone, and the rest goes on.

A folder has one form. `vault` holds notes as people write them, `record_files` whole records in the form of the
standard (*.ump.md). This is what they have in common: what was looked at, the table above, and what is done about it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar, cast

import msgspec

from memoranda.bindings.files.folder import AS_THE_PERSON_CHOSE, Folder
from memoranda.bindings.files.markdown_book import MAX_FIELD_INDEX_BYTES
from memoranda.bindings.files.sync_state import Entry, SyncState, digest
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest
from memoranda.standards.ump.shapes import Record, Unchecked

FORGET_REASON: Final = "its file was deleted"
Said = TypeVar("Said")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about one file: written, removed, remembered, revised, forgotten, conflict, twin or refused."""

    name: str
    did: str
    detail: str = ""

    def document(self) -> dict[str, str]:
        return {
            "file": self.name,
            "did": self.did,
            **({"detail": self.detail} if self.detail else {}),
        }


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps and how to take them; taking them may find that others were right."""

    steps: Sequence[Step]
    do: Callable[[], Sequence[Step] | None] | None = None

    def take(self) -> Sequence[Step]:
        """Do it, and say what was done."""
        try:
            return (self.do() if self.do is not None else None) or self.steps
        except MemorandaError as error:
            return [
                Step(name=each.name, did="refused", detail=error.message) for each in self.steps
            ]


def plan(
    name: str, did: str, do: Callable[[], Sequence[Step] | None] | None = None, detail: str = ""
) -> Plan:
    """One step about one file."""
    return Plan(steps=(Step(name=name, did=did, detail=detail),), do=do)


class Pass(ABC, Generic[Said]):
    """One look at both sides, and what follows from it. `Said` is what a file says."""

    # How the names of its files end.
    ending: str

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
        self._names = self._listed()
        self._taken = {name.casefold() for name in self._names}
        # Fingerprint of every file; the bytes and what they say only of those that are new or were edited.
        self._digests: dict[str, str] = {}
        self._edited: dict[str, bytes] = {}
        self._notes: dict[str, Said] = {}
        self._problems: dict[str, str] = {}
        # Files whose memory is still there, those where it is no longer what it was, and the record where needed;
        # by the version that was found first, the file that it is in.
        self._alive: set[str] = set()
        self._found: dict[str, str] = {}
        self._moved: set[str] = set()
        self._heads: dict[str, Record] = {}
        # Memories without a file, and whether an id is known.
        self._loose: list[str] = []
        self._known: dict[str, bool] = {}

    # --- what differs from form to form ----------------------------------------------------------------

    @abstractmethod
    def _listed(self) -> list[str]:
        """The names of all files in the folder."""

    @abstractmethod
    def _counts(self, name: str) -> bool:
        """Whether a file is one of this form."""

    @abstractmethod
    def _read(self, data: bytes) -> Said:
        """What a file says. Raises MemorandaError where that cannot be told."""

    @abstractmethod
    def _follow_renames(self) -> None:
        """Give the entries of missing files to the new files that they became."""

    @abstractmethod
    def _holder(self, record: Record) -> str:
        """The file that holds a memory, or nothing."""

    @abstractmethod
    def _decide_edited(self, name: str) -> Plan | None:
        """What to do about an edited file whose memory is there."""

    @abstractmethod
    def _decide_moved(self, name: str) -> Plan | None:
        """What to do about a file that nobody edited, and whose memory is no longer what it was."""

    @abstractmethod
    def _new(self, name: str) -> Plan | None:
        """What to do about a file of which the store knows nothing."""

    @abstractmethod
    def _new_name(self, record: Record) -> str:
        """A free name for a memory that has no file."""

    @abstractmethod
    def _rendered(self, name: str, record: Record, /) -> bytes:
        """The file that shows a record."""

    def _remaining(self) -> Iterator[Plan]:
        """What comes after all files were looked at, before those that are missing are written."""
        return iter(())

    # --- looking -------------------------------------------------------------------------------------

    def plans(self) -> Iterator[Plan]:
        """What to do, one after the other."""
        self._look_at_files()
        self._follow_renames()
        self._look_at_store()
        for name in sorted({*self._state.entries, *self._edited, *self._problems}):
            if (decided := self._decide(name)) is not None:
                yield decided
        yield from self._remaining()
        for record in self._service.export(
            self._access, project=self._project, history=False, names=self._loose
        ):
            name = self._new_name(record)
            self._taken.add(name.casefold())
            yield self._write(name, "written", record=record)

    def _look_at_files(self) -> None:
        for name in filter(self._counts, self._names):
            if not name.isprintable():
                self._problems[ascii(name)] = "its name holds characters that no title can have"
                continue
            try:
                data = self._folder.read(name, max_bytes=MAX_FIELD_INDEX_BYTES)
            except MemorandaError as error:
                self._problems[name] = error.message.removeprefix(f"{name.rsplit('/', 1)[-1]}: ")
                continue
            self._digests[name] = digest(data)
            entry = self._state.entries.get(name)
            if entry is None or entry.file != self._digests[name]:
                self._edited[name] = data
            self._look_at(name, data)

    def _look_at(self, name: str, data: bytes) -> None:
        if name not in self._edited:
            return
        try:
            self._notes[name] = self._read(data)
        except MemorandaError as error:
            self._problems[name] = error.message

    def _exists(self, name: str) -> bool:
        return name in self._digests or name in self._problems

    def _look_at_store(self) -> None:
        entries = self._state.entries
        for record in self._service.export(
            self._access, project=self._project, history=False, carry=False
        ):
            name = self._holder(record)
            if (not name or name in self._alive) and not (name := self._earlier_in(record)):
                self._loose.append(record["id"])
            else:
                self._hold(name, record)
        for name, entry in entries.items():
            # Revised more than once since: the last version does not name the one that the file held.
            head = self._head_of(entry.id) if entry.id and name not in self._alive else None
            if head in self._loose:
                self._loose.remove(head)
                self._hold(name, self._shown(head))

    def _earlier_in(self, record: Record) -> str:
        """The file of a memory that was revised while the store was looked at, and so is met a second time."""
        chain = self._versions(record["id"]) if record.get("supersedes") and self._found else ()
        return next((self._found[each] for each in chain if each in self._found), "")

    def _hold(self, name: str, record: Record) -> None:
        self._alive.add(name)
        self._found[record["id"]] = name
        entry = self._state.entries.get(name)
        if entry is None or entry.record != record["integrity"]["content_hash"]:
            self._moved.add(name)
        if name in self._moved or name in self._edited or not self._exists(name):
            self._heads[name] = record

    def _versions(self, record_id: str) -> list[str]:
        """The ids of all versions of a memory, oldest first; none if it is not known."""
        try:
            return [
                str(cast("Record", each["record"])["id"])
                for each in self._service.history(self._access, record_id)
            ]
        except NotFound:
            return []

    def _head_of(self, record_id: str) -> str | None:
        return next(reversed(self._versions(record_id)), None)

    # --- deciding ------------------------------------------------------------------------------------

    def _decide(self, name: str) -> Plan | None:
        if name in self._problems:
            return plan(name, "refused", detail=self._problems[name])
        try:
            if self._exists(name):
                return self._decide_existing(name)
        except MemorandaError as error:
            return plan(name, "refused", detail=error.message)
        return self._decide_deleted(name)

    def _decide_existing(self, name: str) -> Plan | None:
        entry = self._state.entries.get(name)
        if name in self._alive:
            if name in self._edited:
                return self._decide_edited(name)
            return self._decide_moved(name) if name in self._moved else None
        # Unknown is not forgotten: another store, or one restored from a backup, must not cost anyone a file.
        if entry is None or not entry.id or not self._is_known(entry.id):
            return self._new(name)
        if name in self._edited:
            return self._conflict(name, "edited here, but forgotten in the store")
        return plan(name, "removed", lambda: self._remove(name))

    def _decide_deleted(self, name: str) -> Plan | None:
        if name in self._moved:
            return self._write(name, "written", "deleted here, but changed in the store")
        entry = self._state.entries[name]
        if name not in self._alive:  # gone on both sides, or a twin
            del self._state.entries[name]
            return None
        return self._forgotten(name, entry.id)

    def _forgotten(self, name: str, record_id: str) -> Plan:
        def do() -> None:
            request = ForgetRequest.parse({"id": record_id, "reason": FORGET_REASON})
            self._service.forget(self._access, request)
            self._remove(name)

        return plan(name, "forgotten", do, record_id)

    def _is_known(self, record_id: str) -> bool:
        if record_id not in self._known:
            self._known[record_id] = bool(self._versions(record_id))
        return self._known[record_id]

    # --- doing ---------------------------------------------------------------------------------------

    def _write(self, name: str, did: str, detail: str = "", record: Record | None = None) -> Plan:
        head = record or self._heads[name]
        return plan(name, did, lambda: self._put(name, head), detail)

    def _put(self, name: str, record: Record) -> None:
        """Write a file that shows a record."""
        self._agree(name, record, self._save(name, self._rendered(name, record)))

    def _save(self, name: str, data: bytes) -> str:
        """Write a file, unless someone was at it since we looked; its fingerprint."""
        self._require_unchanged(name)
        self._folder.write(name, data, mode=AS_THE_PERSON_CHOSE)
        return digest(data)

    def _agree(self, name: str, record: Record, file_digest: str) -> None:
        known = self._state.entries.get(name)
        self._digests[name] = file_digest
        hashed = record["integrity"]["content_hash"]
        root = known.root if known is not None and known.root else self._first_id(record)
        self._state.entries[name] = Entry(
            id=record["id"], file=file_digest, record=hashed, root=root
        )

    def _first_id(self, record: Record) -> str:
        return self._versions(record["id"])[0] if record.get("supersedes") else record["id"]

    def _remove(self, name: str) -> None:
        self._require_unchanged(name)
        self._folder.remove(name)
        self._state.entries.pop(name, None)

    def _require_unchanged(self, name: str) -> None:
        try:
            found: str | None = digest(self._folder.read(name, max_bytes=MAX_FIELD_INDEX_BYTES))
        except NotFound:
            found = None
        if found != self._digests.get(name):
            raise InvalidInput("it changed while it was being synchronised; run sync again")

    def _conflict(self, name: str, why: str) -> Plan:
        def do() -> None:
            self._folder.write(beside, self._bytes_of(name), mode=AS_THE_PERSON_CHOSE)
            if name in self._heads:
                self._put(name, self._heads[name])
            else:
                self._remove(name)

        beside = self._free_conflict_name(name)
        return plan(name, "conflict", do, f"{why}; your text is in {beside}")

    def _bytes_of(self, name: str) -> bytes:
        return self._edited.get(name) or self._folder.read(name, max_bytes=MAX_FIELD_INDEX_BYTES)

    def _free_conflict_name(self, name: str) -> str:
        stem, ending = name[: -len(self.ending)], name[-len(self.ending) :]
        count = 1
        while (
            free := f"{stem}.conflict{f'-{count}' if count > 1 else ''}{ending}"
        ).casefold() in self._taken:
            count += 1
        self._taken.add(free.casefold())
        return free

    def _is_conflict(self, name: str) -> bool:
        return (
            re.search(rf"\.conflict(?:-\d+)?{re.escape(self.ending)}\Z", name, re.IGNORECASE)
            is not None
        )

    def _revise(self, record_id: str, patch: Unchecked) -> str:
        return self._service.revise(
            self._access, ReviseRequest.parse({"id": record_id, "patch": patch})
        ).id

    def _shown(self, record_id: str) -> Record:
        """The record as it stands in files: without what its consent redacts."""
        for record in self._service.export(self._access, names=(record_id,)):
            return record
        raise InvalidInput(f"{record_id} may not leave the store")

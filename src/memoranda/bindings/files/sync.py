"""A folder of *.ump.md files and the store, kept the same in both directions.

    file          memory        what happens
    unchanged     changed       the file is rewritten
    unchanged     gone          the file is removed
    edited        unchanged     the memory is revised
    edited        changed       conflict: the store's version stays in the file, the person's text beside it
    edited        gone          conflict: the person's text stays beside
    deleted       unchanged     the memory is forgotten
    deleted       changed       the file is written again
    new           –             a memory is remembered, and the file gets its front matter
    –             new           a file is written
    renamed                     followed

Compared is with what both sides agreed on last (sync_state): only what this machine wrote to the folder can be
forgotten because it is missing there. Only regular files directly in the folder count; links are never followed. A
file that cannot be read is reported and left alone, and the rest goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from memoranda.bindings.files import edits
from memoranda.bindings.files.folder import AS_THE_PERSON_CHOSE, Folder
from memoranda.bindings.files.formats import MARKDOWN_ENDING
from memoranda.bindings.files.markdown_book import MARK, MAX_FIELD_INDEX_BYTES
from memoranda.bindings.files.names import file_name
from memoranda.bindings.files.sync_state import Entry, SyncState, digest
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.service.core.access import Access
from memoranda.service.exchange import numbered
from memoranda.service.service import Service
from memoranda.standards.ump import markdown, signature
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest
from memoranda.standards.ump.shapes import Record, Unchecked

_CONFLICT = re.compile(r"\.conflict(?:-\d+)?\.ump\.md$", re.IGNORECASE)
# In the data directory.
STATES_FOLDER: Final = "sync"
FORGET_REASON: Final = "its file was deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was done about one file: written, removed, remembered, revised, forgotten, conflict, twin or refused."""

    name: str
    did: str
    detail: str = ""

    def document(self) -> dict[str, str]:
        return {"file": self.name, "did": self.did, **({"detail": self.detail} if self.detail else {})}


@dataclass(slots=True, kw_only=True)
class SyncReport:
    """Everything that was done, or with a dry run would be."""

    steps: list[Step] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(step.did not in ("refused", "conflict") for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A step and how to take it; taking it may find that something else was right."""

    step: Step
    do: Callable[[], Step | None] | None = None


class FolderSync:
    """One folder, one owner and, if named, one project."""

    def __init__(
        self, service: Service, access: Access, folder: Path, *, states: Path, project: str | None = None
    ) -> None:
        self._service = service
        self._access = access
        self._folder = folder
        # Where in the data directory it is kept what both sides agreed on.
        self._states = states
        self._project = project

    def run(self, *, dry_run: bool = False) -> SyncReport:
        """Bring both sides together once."""
        report = SyncReport()
        with Folder(self._folder) as folder:
            state = SyncState.load(self._states, folder, owner=self._access.default_tenant, project=self._project)
            before = dict(state.entries)
            try:
                for plan in _Pass(self._service, self._access, folder, self._project, state).plans():
                    report.steps.append(plan.step if dry_run else _taken(plan))
            finally:
                if not dry_run and state.entries != before:
                    state.save(folder)
        return report


def _taken(plan: _Plan) -> Step:
    try:
        return (plan.do() if plan.do is not None else None) or plan.step
    except MemorandaError as error:
        return Step(name=plan.step.name, did="refused", detail=error.message)


class _Pass:
    """One look at both sides, and what follows from it."""

    def __init__(self, service: Service, access: Access, folder: Folder, project: str | None, state: SyncState) -> None:
        self._service = service
        self._access = access
        self._folder = folder
        self._project = project
        self._state = state
        self._names = folder.names()
        self._taken = {name.casefold() for name in self._names}
        # Fingerprint of every file; the bytes and the note only of those that are new or were edited.
        self._digests: dict[str, str] = {}
        self._edited: dict[str, bytes] = {}
        self._notes: dict[str, Unchecked] = {}
        self._problems: dict[str, str] = {}
        # Files whose memory is still there, those where it is no longer what it was, and the record where needed.
        self._alive: set[str] = set()
        self._moved: set[str] = set()
        self._heads: dict[str, Record] = {}
        # Memories without a file.
        self._loose: list[str] = []

    # --- looking -------------------------------------------------------------------------------------

    def plans(self) -> Iterator[_Plan]:
        """What to do, one after the other."""
        self._look_at_files()
        self._follow_renames()
        self._look_at_store()
        for name in sorted({*self._state.entries, *self._edited, *self._problems}):
            if (plan := self._decide(name)) is not None:
                yield plan
        for record in self._service.export(self._access, project=self._project, history=False, names=self._loose):
            name = file_name(record, self._taken)
            self._taken.add(name.casefold())
            yield self._write(name, "written", record=record)

    def _look_at_files(self) -> None:
        for name in self._names:
            if name.startswith(".") or not name.endswith(MARKDOWN_ENDING) or _CONFLICT.search(name):
                continue
            try:
                data = self._folder.read(name, max_bytes=MAX_FIELD_INDEX_BYTES)
            except MemorandaError as error:
                self._problems[name] = error.message.removeprefix(f"{name}: ")
                continue
            self._digests[name] = digest(data)
            entry = self._state.entries.get(name)
            if entry is None or entry.file != self._digests[name]:
                self._edited[name] = data
                self._read(name, data)

    def _read(self, name: str, data: bytes) -> None:
        try:
            if data.lstrip(b"\xef\xbb\xbf").startswith(MARK.encode()):
                raise InvalidInput("a book of several memories; import it, or give each its own file")
            self._notes[name] = edits.read_note(data)
        except MemorandaError as error:
            self._problems[name] = error.message

    def _follow_renames(self) -> None:
        entries = self._state.entries
        missing = {entry.id: name for name, entry in entries.items() if entry.id and not self._exists(name)}
        for name, note in list(self._notes.items()):
            old = missing.pop(str(note.get("id")), None)
            if name in entries or old is None:
                continue
            entries[name] = entries.pop(old)
            if entries[name].file == self._digests[name]:
                del self._edited[name], self._notes[name]

    def _exists(self, name: str) -> bool:
        return name in self._digests or name in self._problems

    def _look_at_store(self) -> None:
        entries = self._state.entries
        holders = {entry.id: name for name, entry in entries.items() if entry.id}
        for name, note in self._notes.items():
            if name not in entries and isinstance(note.get("id"), str):
                holders.setdefault(note["id"], name)
        for record in self._service.export(self._access, project=self._project, history=False, carry=False):
            chain = (record["id"], *record.get("supersedes", ()))
            name = next((holders[each] for each in chain if each in holders), "")
            if not name or name in self._alive:
                self._loose.append(record["id"])
                continue
            self._alive.add(name)
            entry = entries.get(name)
            if entry is None or entry.record != record["integrity"]["content_hash"]:
                self._moved.add(name)
            if name in self._moved or name in self._edited or not self._exists(name):
                self._heads[name] = record

    # --- deciding ------------------------------------------------------------------------------------

    def _decide(self, name: str) -> _Plan | None:
        if name in self._problems:
            return _refused(name, self._problems[name])
        try:
            if self._exists(name):
                return self._decide_existing(name)
        except MemorandaError as error:
            return _refused(name, error.message)
        return self._decide_deleted(name)

    def _decide_existing(self, name: str) -> _Plan | None:
        entry = self._state.entries.get(name)
        if entry is not None and not entry.id and name not in self._edited:
            return None  # a twin, as before
        if name in self._alive:
            if name in self._edited:
                return self._decide_edited(name)
            return self._write(name, "written") if name in self._moved else None
        # Unknown is not forgotten: another store, or one restored from a backup, must not cost anyone a file.
        if entry is None or not entry.id or not self._is_known(entry.id):
            return self._new(name)
        if name in self._edited:
            return self._conflict(name, "edited here, but forgotten in the store")
        return _Plan(step=Step(name=name, did="removed"), do=lambda: self._remove(name))

    def _decide_deleted(self, name: str) -> _Plan | None:
        if name in self._moved:
            return self._write(name, "written", "deleted here, but changed in the store")
        entry = self._state.entries[name]
        if name not in self._alive:  # gone on both sides, or a twin
            del self._state.entries[name]
            return None
        return _Plan(step=Step(name=name, did="forgotten", detail=entry.id), do=lambda: self._forget(name, entry.id))

    def _decide_edited(self, name: str) -> _Plan | None:
        head, note = self._heads[name], self._notes[name]
        entry = self._state.entries.get(name)
        if note.get("id", head["id"]) not in (head["id"], *head.get("supersedes", ())):
            raise InvalidInput("its id is that of another memory; copies must not keep the id")
        based_on = entry.record if entry else note.get("integrity", {}).get("content_hash")
        if based_on != head["integrity"]["content_hash"] and head["id"] != (entry.id if entry else note.get("id")):
            return self._decide_both(name, entry.id if entry else str(note.get("id")))
        patch = edits.edit(note, head, self._service.get(self._access, head["id"]))
        if not patch:
            return self._same(name, head)
        if based_on != head["integrity"]["content_hash"]:
            return self._conflict(name, "edited here and changed in the store")
        if patch.get("lifecycle", {}).get("status") == "tombstoned":
            step = Step(name=name, did="forgotten", detail=head["id"])
            return _Plan(step=step, do=lambda: self._forget(name, head["id"]))
        return _Plan(step=Step(name=name, did="revised"), do=lambda: self._revise(name, head["id"], patch))

    def _same(self, name: str, head: Record) -> _Plan | None:
        """The same in other words of the format: the person's way of writing it stays.

        One that this machine did not write becomes its own first, so that it is not another who can have it forgotten.
        """
        if name not in self._state.entries and self._digests[name] != digest(markdown.render(head).encode("utf-8")):
            return self._write(name, "written")
        self._agree(name, head, self._digests[name])
        return None

    def _decide_both(self, name: str, base_id: str) -> _Plan:
        """Edited here and revised there: a conflict, unless the store already says what the person wrote."""
        base = self._shown(base_id)
        wanted = edits.edit(self._notes[name], base, self._service.get(self._access, base_id))
        if wanted.get("time", {}).get("valid_to", "") is None:
            # The store closed the old version; that the file does not say so is not an edit.
            del wanted["time"]["valid_to"]
        if not edits.edit(wanted, self._heads[name], self._heads[name]):
            return self._write(name, "written")
        return self._conflict(name, "edited here and changed in the store")

    def _new(self, name: str) -> _Plan:
        self._state.entries.pop(name, None)
        note = self._notes.get(name)
        draft = self._draft(note or edits.read_note(self._folder.read(name, max_bytes=MAX_FIELD_INDEX_BYTES)))
        return _Plan(step=Step(name=name, did="remembered"), do=lambda: self._remember(name, draft))

    def _draft(self, note: Unchecked) -> Unchecked:
        """A new file's memory; checked for what would make it vanish from this folder at once."""
        if "id" in note and (self._is_known(str(note["id"])) or not signature.verify(note)):
            note = edits.as_new(note)
        scope = note.get("scope", {})
        if not isinstance(scope, dict):
            raise InvalidInput("scope must be an object")
        if self._project is not None and scope.setdefault("project", self._project) != self._project:
            raise InvalidInput(f"scope.project: this folder is for the project {self._project}")
        consent = note.get("consent", {})
        if isinstance(consent, dict) and consent.get("exportable") is False:
            raise InvalidInput("consent.exportable: what may not leave the store cannot be kept in a folder")
        if not note["body"]["text"]:
            raise InvalidInput("the file is empty")
        # What is signed stays as it was written.
        return note if "integrity" in note else {"kind": "semantic", **note, "scope": scope}

    def _is_known(self, name: str) -> bool:
        try:
            self._service.get(self._access, name)
        except NotFound:
            return False
        return True

    # --- doing ---------------------------------------------------------------------------------------

    def _write(self, name: str, did: str, detail: str = "", record: Record | None = None) -> _Plan:
        head = record or self._heads[name]
        return _Plan(step=Step(name=name, did=did, detail=detail), do=lambda: self._put(name, head))

    def _put(self, name: str, record: Record) -> None:
        """Write a file, unless someone was at it since we looked."""
        self._require_unchanged(name)
        data = markdown.render(record).encode("utf-8")
        self._folder.write(name, data, mode=AS_THE_PERSON_CHOSE)
        self._agree(name, record, digest(data))

    def _agree(self, name: str, record: Record, file_digest: str) -> None:
        self._digests[name] = file_digest
        hashed = record["integrity"]["content_hash"]
        self._state.entries[name] = Entry(id=record["id"], file=file_digest, record=hashed)

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

    def _conflict(self, name: str, why: str) -> _Plan:
        def do() -> None:
            self._folder.write(beside, self._edited[name], mode=AS_THE_PERSON_CHOSE)
            if name in self._heads:
                self._put(name, self._heads[name])
            else:
                self._remove(name)

        beside = self._free_conflict_name(name)
        return _Plan(step=Step(name=name, did="conflict", detail=f"{why}; your text is in {beside}"), do=do)

    def _free_conflict_name(self, name: str) -> str:
        stem = name.removesuffix(MARKDOWN_ENDING)
        count = 1
        while (free := f"{stem}.conflict{f'-{count}' if count > 1 else ''}{MARKDOWN_ENDING}").casefold() in self._taken:
            count += 1
        self._taken.add(free.casefold())
        return free

    def _revise(self, name: str, record_id: str, patch: Unchecked) -> None:
        request = ReviseRequest.parse({"id": record_id, "patch": patch})
        revised = self._service.revise(self._access, request)
        self._put(name, self._shown(revised.id))

    def _forget(self, name: str, record_id: str) -> None:
        request = ForgetRequest.parse({"id": record_id, "reason": FORGET_REASON})
        self._service.forget(self._access, request)
        self._remove(name)

    def _remember(self, name: str, draft: Unchecked) -> Step | None:
        record_id, is_merged = self._taken_in(draft)
        record = self._shown(record_id)
        if is_merged:
            for other, entry in list(self._state.entries.items()):
                if entry.id == record_id and other != name:
                    # The same fact twice: one memory, one file. The second file stays, because it is the person's.
                    self._state.entries[name] = replace(entry, id="", file=self._digests[name])
                    self._put(other, record)
                    return Step(name=name, did="twin", detail=f"says the same as {other}; left as it is")
            self._loose = [each for each in self._loose if each != record_id]
        self._put(name, record)
        return None

    def _taken_in(self, draft: Unchecked) -> tuple[str, bool]:
        """The id of a new file's memory, and whether it was known: a whole record comes as from any other file."""
        if "integrity" not in draft:
            filled = self._service.with_defaults(self._access, draft, method="file")
            remembered = self._service.remember(self._access, filled)
            return remembered.id, remembered.result == "merged"
        report = self._service.import_items(self._access, numbered("ump", [draft]))
        for refusal in report.refusals:
            raise InvalidInput(refusal.message)
        return str(draft["id"]), report.created == 0

    def _shown(self, record_id: str) -> Record:
        """The record as it stands in files: without what its consent redacts."""
        for record in self._service.export(self._access, names=(record_id,)):
            return record
        raise InvalidInput(f"{record_id} may not leave the store")


def _refused(name: str, why: str) -> _Plan:
    return _Plan(step=Step(name=name, did="refused", detail=why))

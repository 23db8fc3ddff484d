"""A folder of whole records: *.ump.md files in the form of the standard (UMP §6.3), directly in the folder.

A record in a file is signed, and its front matter holds all of it; so lifecycle, relations and time can be edited
there, too. What is remembered or revised is written back to its file with its new signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec.structs import replace

from memoranda.bindings.files import edits
from memoranda.bindings.files.formats import MARKDOWN_ENDING
from memoranda.bindings.files.markdown_book import MARK
from memoranda.bindings.files.names import file_name
from memoranda.bindings.files.sync_pass import Pass, Plan, Step, plan
from memoranda.bindings.files.sync_state import digest
from memoranda.errors import InvalidInput
from memoranda.service.exchange.importing import numbered
from memoranda.standards.ump import markdown, signature
from memoranda.standards.ump.shapes import Record, Unchecked


class RecordPass(Pass[Unchecked]):
    """Records and the files that hold them."""

    ending = MARKDOWN_ENDING

    def _listed(self) -> list[str]:
        return self._folder.names()

    def _counts(self, name: str) -> bool:
        return (
            not name.startswith(".") and name.endswith(self.ending) and not self._is_conflict(name)
        )

    def _read(self, data: bytes) -> Unchecked:
        if data.lstrip(b"\xef\xbb\xbf").startswith(MARK.encode()):
            raise InvalidInput("a book of several memories; import it, or give each its own file")
        return edits.read_note(data)

    def _follow_renames(self) -> None:
        entries = self._state.entries
        missing = {
            entry.id: name for name, entry in entries.items() if entry.id and not self._exists(name)
        }
        for name, note in list(self._notes.items()):
            old = missing.pop(str(note.get("id")), None)
            if name in entries or old is None:
                continue
            entries[name] = entries.pop(old)
            if entries[name].file == self._digests[name]:
                del self._edited[name], self._notes[name]

    @cached_property
    def _holders(self) -> dict[str, str]:
        entries = self._state.entries
        holders = {entry.id: name for name, entry in entries.items() if entry.id}
        for name, note in self._notes.items():
            if name not in entries and isinstance(note.get("id"), str):
                holders.setdefault(note["id"], name)
        return holders

    def _holder(self, record: Record) -> str:
        chain = (record["id"], *record.get("supersedes", ()))
        return next((self._holders[each] for each in chain if each in self._holders), "")

    def _new_name(self, record: Record) -> str:
        return file_name(record, self._taken)

    def _rendered(self, _: str, record: Record, /) -> bytes:
        return markdown.render(record).encode("utf-8")

    def _decide_edited(self, name: str) -> Plan | None:
        head, note = self._heads[name], self._notes[name]
        entry = self._state.entries.get(name)
        if note.get("id", head["id"]) not in (head["id"], *head.get("supersedes", ())):
            raise InvalidInput("its id is that of another memory; copies must not keep the id")
        based_on = entry.record if entry else note.get("integrity", {}).get("content_hash")
        if based_on != head["integrity"]["content_hash"] and head["id"] != (
            entry.id if entry else note.get("id")
        ):
            return self._decide_both(name, entry.id if entry else str(note.get("id")))
        patch = edits.edit(note, head, self._service.get(self._access, head["id"]))
        if not patch:
            return self._same(name, head)
        if based_on != head["integrity"]["content_hash"]:
            return self._conflict(name, "edited here and changed in the store")
        if patch.get("lifecycle", {}).get("status") == "tombstoned":
            return self._forgotten(name, head["id"])
        return plan(
            name, "revised", lambda: self._put(name, self._shown(self._revise(head["id"], patch)))
        )

    def _decide_moved(self, name: str) -> Plan | None:
        return self._write(name, "written")

    def _same(self, name: str, head: Record) -> Plan | None:
        """The same in other words of the format: the person's way of writing it stays.

        One that this machine did not write becomes its own first, so that it is not another who can have it forgotten.
        """
        if name not in self._state.entries and self._digests[name] != digest(
            markdown.render(head).encode("utf-8")
        ):
            return self._write(name, "written")
        self._agree(name, head, self._digests[name])
        return None

    def _decide_both(self, name: str, base_id: str) -> Plan:
        """Edited here and revised there: a conflict, unless the store already says what the person wrote."""
        base = self._shown(base_id)
        wanted = edits.edit(self._notes[name], base, self._service.get(self._access, base_id))
        if wanted.get("time", {}).get("valid_to", "") is None:
            # The store closed the old version; that the file does not say so is not an edit.
            del wanted["time"]["valid_to"]
        if not edits.edit(wanted, self._heads[name], self._heads[name]):
            return self._write(name, "written")
        return self._conflict(name, "edited here and changed in the store")

    def _new(self, name: str) -> Plan | None:
        if (
            name in self._state.entries
            and not self._state.entries[name].id
            and name not in self._edited
        ):
            return None  # a twin, as before
        self._state.entries.pop(name, None)
        draft = self._draft(self._notes.get(name) or edits.read_note(self._bytes_of(name)))
        return plan(name, "remembered", lambda: self._remember(name, draft))

    def _draft(self, note: Unchecked) -> Unchecked:
        """A new file's memory; checked for what would make it vanish from this folder at once."""
        if "id" in note and (self._is_known(str(note["id"])) or not signature.verify(note)):
            note = edits.as_new(note)
        scope = note.get("scope", {})
        if not isinstance(scope, dict):
            raise InvalidInput("scope must be an object")
        if (
            self._project is not None
            and scope.setdefault("project", self._project) != self._project
        ):
            raise InvalidInput(f"scope.project: this folder is for the project {self._project}")
        consent = note.get("consent", {})
        if isinstance(consent, dict) and consent.get("exportable") is False:
            raise InvalidInput(
                "consent.exportable: what may not leave the store cannot be kept in a folder"
            )
        if not note["body"]["text"]:
            raise InvalidInput("the file is empty")
        # What is signed stays as it was written.
        return note if "integrity" in note else {"kind": "semantic", **note, "scope": scope}

    def _remember(self, name: str, draft: Unchecked) -> Sequence[Step] | None:
        record_id, is_merged = self._taken_in(draft)
        record = self._shown(record_id)
        if is_merged:
            for other, entry in list(self._state.entries.items()):
                if entry.id == record_id and other != name:
                    # The same fact twice: one memory, one file. The second file stays, because it is the person's.
                    self._state.entries[name] = replace(entry, id="", file=self._digests[name])
                    self._put(other, record)
                    return [
                        Step(
                            name=name, did="twin", detail=f"says the same as {other}; left as it is"
                        )
                    ]
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

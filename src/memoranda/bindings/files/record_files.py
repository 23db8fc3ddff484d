"""A folder of complete records: *.ump.md files in the form of the standard (UMP §6.3), directly in the folder.

A record in a file is signed, and its front matter holds all of it; so lifecycle, relations and time can be edited
there, too. `diff_record` turns an edited file into the patch of a revision. A part that the file leaves out is
unchanged: a person who deletes the front matter, or a line of it, edits the text alone. After a memory was written, its
file is written again with the new signature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec.structs import replace

from memoranda.bindings.files.formats import MARKDOWN_ENDING, file_name
from memoranda.bindings.files.markdown_book import MARK
from memoranda.bindings.files.sync_pass import (
    FolderPass,
    SyncPlan,
    SyncStep,
    fingerprint,
    one_step,
)
from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.model.instant import parse_instant
from memoranda.service.exchange.importing import number_items
from memoranda.standards.ump import markdown, rules, signature
from memoranda.standards.ump.shapes import Body, Record, Unchecked

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n")
# Fields of the scope that people may write directly at the top of a front matter.
_SCOPE: Final = ("user", "project", "agent", "session", "visibility")
_IDENTITY: Final = ("ump", "id", "integrity", "supersedes", "superseded_by", "time")
# UMP §3.5: these pass to the successor unchanged.
_FIXED: Final = ("kind", "scope", "consent")


class RecordFolder(FolderPass[Unchecked]):
    """One comparison of a folder of records and the store."""

    endings = (MARKDOWN_ENDING,)

    def _list_files(self) -> list[str]:
        return self._folder.names()

    def _has_form(self, name: str) -> bool:
        is_record = not name.startswith(".") and name.endswith(self.endings)
        return is_record and not self._is_conflict_copy(name)

    def _parse(self, data: bytes) -> Unchecked:
        if data.lstrip(b"\xef\xbb\xbf").startswith(MARK.encode()):
            raise InvalidInput("a book of several memories; import it, or give each its own file")
        return parse_record_file(data)

    def _follow_renames(self) -> None:
        """Match new files with missing ones by the id in their front matter."""
        entries = self._state.entries
        missing = {
            entry.id: name for name, entry in entries.items() if entry.id and not self._exists(name)
        }
        for name, fields in list(self._contents.items()):
            old_entry = missing.pop(str(fields.get("id")), None)
            if name in entries or old_entry is None:
                continue
            entries[name] = entries.pop(old_entry)
            if entries[name].file == self._digests[name]:
                del self._edited[name], self._contents[name]

    @cached_property
    def _file_by_id(self) -> dict[str, str]:
        """The file of each id, by the state and by the front matter of new files."""
        entries = self._state.entries
        files = {entry.id: name for name, entry in entries.items() if entry.id}
        for name, fields in self._contents.items():
            if name not in entries and isinstance(fields.get("id"), str):
                files.setdefault(fields["id"], name)
        return files

    def _file_of(self, record: Record) -> str:
        files = self._file_by_id
        ids = (record["id"], *record.get("supersedes", ()))
        return next((files[record_id] for record_id in ids if record_id in files), "")

    def _free_name(self, record: Record) -> str:
        return file_name(record, self._used_names)

    def _render(self, _: str, record: Record, /) -> bytes:
        return markdown.render(record).encode("utf-8")

    # --- planning ------------------------------------------------------------------------------------

    def _plan_edited(self, name: str) -> SyncPlan | None:
        """Plan to revise the memory; a conflict if it was revised in the store since the file was written."""
        record, fields = self._latest[name], self._contents[name]
        record_id, content_hash = record["id"], record["integrity"]["content_hash"]
        if fields.get("id", record_id) not in (record_id, *record.get("supersedes", ())):
            raise InvalidInput("its id is that of another memory; copies must not keep the id")
        entry = self._state.entries.get(name)
        base_id = entry.id if entry else fields.get("id")
        base_hash = entry.record if entry else fields.get("integrity", {}).get("content_hash")
        if base_hash != content_hash and base_id != record_id:
            return self._plan_both_changed(name, str(base_id))
        patch = diff_record(fields, record, self._service.get(self._access, record_id))
        if not patch:
            return self._plan_equal(name, record)
        if base_hash != content_hash:
            return self._plan_conflict(name, "edited here and changed in the store")
        if patch.get("lifecycle", {}).get("status") == "tombstoned":
            return self._plan_forget(name, record_id)

        def revise() -> None:
            new_id = self._revise(record_id, patch)
            self._write_record(name, self._export_record(new_id))

        return one_step(name, "revised", revise)

    def _plan_revised(self, name: str) -> SyncPlan | None:
        return self._plan_write(name, "written")

    def _plan_equal(self, name: str, record: Record) -> SyncPlan | None:
        """Mark a file as synced that states the record in its own way; the person's way of writing it stays.

        A file that this machine did not write is written first: only then may deleting it forget the memory.
        """
        rendered = markdown.render(record).encode("utf-8")
        if name not in self._state.entries and self._digests[name] != fingerprint(rendered):
            return self._plan_write(name, "written")
        self._mark_synced(name, record, self._digests[name])
        return None

    def _plan_both_changed(self, name: str, base_id: str) -> SyncPlan:
        """Plan a conflict, unless the store's new version has all edits of the file already."""
        base = self._export_record(base_id)
        edits = diff_record(self._contents[name], base, self._service.get(self._access, base_id))
        if edits.get("time", {}).get("valid_to", "") is None:
            # The store set the end when it closed the old version; a file without it was not edited.
            del edits["time"]["valid_to"]
        if not diff_record(edits, self._latest[name], self._latest[name]):
            return self._plan_write(name, "written")
        return self._plan_conflict(name, "edited here and changed in the store")

    def _plan_new(self, name: str) -> SyncPlan | None:
        entry = self._state.entries.get(name)
        if entry is not None and not entry.id and name not in self._edited:
            return None  # a duplicate in the last run, too
        self._state.entries.pop(name, None)
        fields = self._contents.get(name) or parse_record_file(self._read_bytes(name))
        draft = self._draft_record(fields)
        return one_step(name, "remembered", lambda: self._remember_file(name, draft))

    def _draft_record(self, fields: Unchecked) -> Unchecked:
        """Return the draft of a new file's memory.

        Raises InvalidInput for a memory that would not be in this folder after it was written.
        """
        if "id" in fields and (self._is_known(str(fields["id"])) or not signature.verify(fields)):
            fields = without_identity(fields)
        scope = fields.get("scope", {})
        if not isinstance(scope, dict):
            raise InvalidInput("scope must be an object")
        project = self._project
        if project is not None and scope.setdefault("project", project) != project:
            raise InvalidInput(f"scope.project: this folder is for the project {project}")
        consent = fields.get("consent", {})
        if isinstance(consent, dict) and consent.get("exportable") is False:
            raise InvalidInput(
                "consent.exportable: what may not leave the store cannot be kept in a folder"
            )
        if not fields["body"]["text"]:
            raise InvalidInput("the file is empty")
        # A signed record stays as it was written.
        return fields if "integrity" in fields else {"kind": "semantic", **fields, "scope": scope}

    # --- executing -----------------------------------------------------------------------------------

    def _remember_file(self, name: str, draft: Unchecked) -> Sequence[SyncStep] | None:
        """Store the memory of a new file; return another step if the file duplicates another file."""
        record_id, is_merged = self._store_draft(draft)
        record = self._export_record(record_id)
        if is_merged:
            for other, entry in list(self._state.entries.items()):
                if entry.id == record_id and other != name:
                    # One memory has one file; the person's second file stays, without an id.
                    self._state.entries[name] = replace(entry, id="", file=self._digests[name])
                    self._write_record(other, record)
                    detail = f"says the same as {other}; left as it is"
                    return [SyncStep(name=name, did="twin", detail=detail)]
            self._unfiled = [unfiled for unfiled in self._unfiled if unfiled != record_id]
        self._write_record(name, record)
        return None

    def _store_draft(self, draft: Unchecked) -> tuple[str, bool]:
        """Remember a draft, or import a signed record; return the id, and True if it was merged with a memory."""
        if "integrity" not in draft:
            complete = self._service.with_defaults(self._access, draft, method="file")
            remembered = self._service.remember(self._access, complete)
            return remembered.id, remembered.result == "merged"
        report = self._service.import_items(self._access, number_items("ump", [draft]))
        for refusal in report.refusals:
            raise InvalidInput(refusal.message)
        return str(draft["id"]), report.created == 0


# --- edited files ----------------------------------------------------------------------------------------------------


def parse_record_file(data: bytes) -> Unchecked:
    """Parse a file that has a complete record, some fields of one, or only a text. Raises InvalidInput."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at line {data.count(10, 0, error.start) + 1}") from None
    if _FRONT_MATTER.match(text):
        fields = markdown.parse(text)
    else:
        # With an empty front matter, so that the same rules hold: blank lines around a text are not part of it.
        bare_text = text.removeprefix("\ufeff")
        fields = markdown.parse(f"---{_line_end(bare_text)}{{}}\n---\n\n{bare_text}")
    scope = {name: fields.pop(name) for name in _SCOPE if name in fields}
    if scope:
        full_scope = fields.get("scope", {})
        if isinstance(full_scope, dict):
            full_scope = {**scope, **full_scope}
        fields["scope"] = full_scope
    return fields


def _line_end(text: str) -> str:
    """Return the line ending of a text: CR LF if no line ends otherwise."""
    return "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"


def without_identity(fields: Unchecked) -> Unchecked:
    """Return fields without id, times and links, for a new record: the file is a copy, or its record was deleted."""
    new_fields = {name: value for name, value in fields.items() if name not in _IDENTITY}
    time = fields.get("time", {})
    validity = {name: time[name] for name in ("valid_from", "valid_to") if name in time}
    return {**new_fields, "time": validity} if validity else new_fields


def diff_record(fields: Unchecked, exported: Record, full: Record) -> Unchecked:
    """Return the patch that gives a record the fields of an edited file; empty if it has them.

    `exported` is the record as files show it, without the parts that its consent redacts; `full` has those, too. Raises
    InvalidInput for an edit that no revision can make.
    """
    for name in _FIXED:
        if name in fields and not _is_contained(fields[name], exported.get(name, {})):
            raise InvalidInput(
                f"{name} cannot be changed by editing; delete this file and write a new one"
            )
    patch: dict[str, object] = {}
    body = _body_patch(fields.get("body", {}), exported["body"], full)
    if body is not None:
        patch["body"] = body
    lifecycle = _changed_fields(fields.get("lifecycle"), exported.get("lifecycle", {}), "lifecycle")
    if lifecycle:
        patch["lifecycle"] = lifecycle
    if "relations" in fields and not _is_equal_json(
        fields["relations"], exported.get("relations", [])
    ):
        patch["relations"] = fields["relations"]
    time = _time_patch(fields.get("time"), exported["time"])
    if time:
        patch["time"] = time
    # A patch replaces body and relations as a whole, so the file must have had all of them.
    rules.require_complete(full, [part for part in ("body", "relations") if part in patch])
    return patch


def _body_patch(body: Any, exported: Body, full: Record) -> Unchecked | None:
    """Return the body with the edits of a file; None if there are none. Raises InvalidInput."""
    text = body.get("text", exported["text"])
    if not text:
        raise InvalidInput("the text is empty; delete the file to forget the memory")
    is_data_edited = "structured" in body and not _is_equal_json(
        body["structured"], exported.get("structured")
    )
    is_redacted = not _is_equal_json(exported.get("structured"), full["body"].get("structured"))
    if is_data_edited and is_redacted:
        raise InvalidInput(
            "body.structured is redacted here and cannot be edited; use 'memoranda revise'"
        )
    if text == exported["text"] and not is_data_edited:
        return None
    edited: Unchecked = {**rules.drop_original(full)["body"], "text": text}
    if is_data_edited:
        edited["structured"] = body["structured"]
    return edited


def _changed_fields(edited: object, current: Mapping[str, object], name: str) -> Unchecked:
    """Return the fields of an object that differ from the record. Raises InvalidInput for another value."""
    if edited is None:
        return {}
    if not isinstance(edited, dict):
        raise InvalidInput(f"{name} must be an object")
    return {
        field: value
        for field, value in edited.items()
        if field not in current or not _is_equal_json(value, current[field])
    }


def _time_patch(edited: object, current: Mapping[str, object]) -> Unchecked:
    """Return the changed times; those of writing and observing cannot be edited and are ignored."""
    changed_times = _changed_fields(edited, current, "time")
    return {
        name: value
        for name, value in changed_times.items()
        if name not in ("created", "observed") and not _is_same_instant(value, current.get(name))
    }


def _is_same_instant(one: object, other: object) -> bool:
    try:
        return parse_instant(one) == parse_instant(other)
    except (TypeError, ValueError, OverflowError):
        return bool(one == other)


def _is_contained(part: object, value: object) -> bool:
    """Return True if a value has every field of a part, with equal values."""
    if isinstance(part, dict) and isinstance(value, dict):
        return all(
            name in value and _is_contained(inner, value[name]) for name, inner in part.items()
        )
    return _is_equal_json(part, value)


def _is_equal_json(one: object, other: object) -> bool:
    # As JSON: Python takes True and 1 for equal.
    return canonical(one) == canonical(other)

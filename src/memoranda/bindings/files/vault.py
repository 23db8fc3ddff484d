"""A folder of notes as people write them, with subfolders: an Obsidian vault, or any other Markdown (`note.py`).

A person's file is not rewritten because it was read. A file changes when its memory did, and then only its text and our
properties (title, kind, tags, id). The rest of a memory (signature, hash, the file that holds it) is kept in the data
directory.

The state of the last run is the common base of a three-way merge, part by part (text, title, tags, links): if each
side changed another part, the changes are combined; if both changed the text or the title, it is a conflict, and both
versions are kept. Links between notes become relations `links_to` between memories, by the first id of the memory.

Steps of a run (`sync_pass.FolderPass`): scan the files, follow renames, scan the store, plan for each file, run the
plans, and store the state. A plan is only a description until it runs, so a dry run shows exactly what would happen.
Every step can fail alone; the state is written for what succeeded, and the next run continues.

Be careful with three things: never write a file that the person may have edited since it was read
(`_require_unchanged`), never bring back a text that was forgotten or erased (copies, renames and the trash are checked
for it), and never treat an unreadable property as a removed one. `tests/bindings/files` has a scenario for each fault
that people met.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.bindings.files.formats import MARKDOWN_ENDING, file_name
from memoranda.bindings.files.note import ENDINGS, Links, Note, links_in, plain_text, stem
from memoranda.bindings.files.sync_pass import (
    TRASH,
    FileEntry,
    FolderPass,
    SyncPlan,
    SyncStep,
    one_step,
)
from memoranda.errors import InvalidInput, NotFound, TooLarge
from memoranda.model.titles import NAMES_KEY
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import LISTED_LIMIT
from memoranda.standards.ump import rules
from memoranda.standards.ump.mapping import TAG_PREFIX, is_tag
from memoranda.standards.ump.record import MAX_RELATIONS, MAX_TEXT_BYTES
from memoranda.standards.ump.shapes import MAX_NAME_CHARS, Record, Relation, Unchecked
from memoranda.standards.ump.signature import encode_random_id

LINK: Final = "links_to"
TITLE: Final = "title"
DEFAULT_KIND: Final = "semantic"
# Share of common words from which a new file is a missing one, renamed and edited; git requires 0.5.
_RENAME_SIMILARITY: Final = 0.6
# Files on each side that are compared by their words: a pair takes a millisecond.
_MAX_COMPARED: Final = 50
# Characters of a title that is made from the text; one line in most editors.
_HEADLINE_CHARS: Final = 80
# Links of one note that become relations: half of the relations of a memory, so that tags have room.
_MAX_LINKS: Final = MAX_RELATIONS // 2


class NoteContent(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that a note and a record have in common.

    `names` are other names by which links find the note. They are stored with the memory, but changing one is no edit
    of the text.
    """

    text: str
    title: str | None
    tags: tuple[str, ...]
    links: tuple[str, ...]
    # Other names under which people look for it: the aliases, and the name of the file. Only the file decides them.
    names: tuple[str, ...] = ()


class NoteFolder(FolderPass[Note]):
    """One comparison of a folder of notes and the store."""

    endings = ENDINGS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Renamed files: new name → old name.
        self._old_names: dict[str, str] = {}
        # Link targets in the text of each file, True for paths; links that the memory of a file has already.
        self._link_targets: dict[str, list[tuple[bool, str]]] = {}
        self._known_links: dict[str, set[str]] = {}
        # Files by the id of their memory, and by the key that is equal for duplicates.
        self._file_by_id: dict[str, str] = {}
        self._file_by_text: dict[tuple[str, str], str] = {}
        # New files with the id of a memory in their properties, by that memory: its old file, or copies of it.
        self._claiming_files: dict[str, list[str]] = {}
        # New files: the ids that their memories will have; and for duplicates the file with the same text.
        self._new_ids: dict[str, str] = {}
        self._duplicates: dict[str, str] = {}
        # Files with the text of a memory that was forgotten in the store, by that text; they follow its note.
        self._forgotten_files: dict[tuple[str, str], FileEntry] = {}
        self._forgotten_roots: dict[str, FileEntry] = {}
        self._forgotten_copies: dict[str, FileEntry] = {}
        # Notes in the trash, by the hash of the file.
        self._discarded: dict[str, FileEntry] = {}
        # Files whose memory was written in this run, by name, with its id: their agreement is noted at the end.
        self._pending: dict[str, str] = {}

    def _list_files(self) -> list[str]:
        return self._folder.files()

    def _has_form(self, name: str) -> bool:
        lowered = name.casefold()
        return (
            lowered.endswith(self.endings)
            and not lowered.endswith(MARKDOWN_ENDING)
            and not self._is_conflict_copy(name)
        )

    # --- scanning both sides -------------------------------------------------------------------------

    def _scan_file(self, name: str, data: bytes) -> None:
        super()._scan_file(name, data)
        if name not in self._problems:
            self._link_targets[name] = list(links_in(data.decode("utf-8", "replace")))

    def _parse(self, data: bytes) -> Note:
        note = Note.parse(data)
        if len(note.text.encode()) > MAX_TEXT_BYTES:
            raise TooLarge(f"its text is over the limit of {MAX_TEXT_BYTES} bytes")
        return note

    def _load_note(self, name: str) -> Note:
        """Return the parsed note of a file, edited or not."""
        if name not in self._contents:
            self._contents[name] = self._parse(self._read_bytes(name))
        return self._contents[name]

    def _follow_renames(self) -> None:
        """Match new files with missing ones: by the id in the properties, by their bytes, then by their words.

        A rename is recognised in three ways, the surest first. A file that only moved keeps its memory without a new
        version.
        """
        entries = self._state.entries
        missing = {
            name: entry for name, entry in entries.items() if entry.id and not self._exists(name)
        }
        new_notes = {name: note for name, note in self._contents.items() if name not in entries}
        if not missing or not new_notes:
            return
        name_by_id = {
            record_id: name
            for name, entry in missing.items()
            for record_id in (entry.id, entry.root)
        }
        name_by_digest = {entry.file: name for name, entry in missing.items()}
        for name, note in list(new_notes.items()):
            old_name = name_by_id.get(note.id or "") or name_by_digest.get(self._digests[name])
            if old_name in missing:
                self._move_entry(old_name, name)
                del missing[old_name], new_notes[name]
        self._follow_edited_renames(
            dict(list(missing.items())[:_MAX_COMPARED]),
            dict(list(new_notes.items())[:_MAX_COMPARED]),
        )

    def _follow_edited_renames(
        self, missing: dict[str, FileEntry], new_notes: dict[str, Note]
    ) -> None:
        """Match each new file with the missing file that shares most words with it, if it shares enough."""
        if not new_notes:
            return
        missing_words = {
            name: _count_words(self._stored_text(entry.id)) for name, entry in missing.items()
        }
        for name, note in new_notes.items():
            words = _count_words(note.text)
            similarities = {
                old_name: _similarity(old_words, words)
                for old_name, old_words in missing_words.items()
            }
            best = max(
                similarities,
                key=lambda old_name: (similarities[old_name], stem(old_name) == stem(name)),
                default="",
            )
            if best and similarities[best] >= _RENAME_SIMILARITY:
                self._move_entry(best, name)
                del missing_words[best]

    def _move_entry(self, old_name: str, name: str) -> None:
        """Give the entry of a renamed file to its new name; a file that was only moved counts as not edited."""
        self._state.entries[name] = self._state.entries.pop(old_name)
        self._old_names[name] = old_name
        if stem(old_name) == stem(name) and self._state.entries[name].file == self._digests[name]:
            del self._edited[name], self._contents[name]

    def _stored_text(self, record_id: str) -> str:
        """Return the text of a memory; empty if it is unknown."""
        try:
            return plain_text(self._service.get(self._access, record_id)["body"]["text"])
        except NotFound:
            return ""

    def _scan_store(self) -> None:
        """Find the files of memories, then sort the new files into new memories and duplicates."""
        entries = self._state.entries
        self._file_by_id = {entry.id: name for name, entry in entries.items() if entry.id}
        for name, note in self._contents.items():
            if name in entries and entries[name].id:
                continue
            latest = self._latest_id(note.id) if note.id else None
            if latest:
                self._claiming_files.setdefault(latest, []).append(name)
            if note.text:
                self._file_by_text.setdefault(_duplicate_key(note.kind, note.text), name)
        super()._scan_store()
        for latest, names in self._claiming_files.items():
            # A paired file with this id is a copy that was edited into another memory.
            unpaired = [name for name in names if name not in self._paired]
            if latest in self._unfiled and unpaired:
                self._unfiled.remove(latest)
                self._pair(unpaired[0], self._export_record(latest))
        self._find_forgotten()
        for name in sorted(self._digests):
            if name in self._paired or name in self._problems:
                continue
            record_id = entries[name].id if name in entries else ""
            if not record_id or not self._is_known(record_id):
                self._classify_new(name, self._load_note(name))

    def _find_forgotten(self) -> None:
        """Collect the notes whose memory was forgotten in the store, by their texts; the trash has earlier ones."""
        for name, entry in self._state.entries.items():
            if not entry.id or name in self._paired or self._digests.get(name) != entry.file:
                continue
            if self._is_known(entry.id):
                note = self._load_note(name)
                self._forgotten_files[_duplicate_key(note.kind, note.text)] = entry
                self._forgotten_roots[entry.root] = entry
        in_trash = set(self._folder.files_in(TRASH)) if self._state.copies else set()
        for name in in_trash & self._state.copies.keys():
            entry = self._state.copies[name]
            latest = self._latest_id(entry.id)
            if latest not in self._files_by_id and latest not in self._unfiled:
                self._discarded[entry.file] = entry

    def _classify_new(self, name: str, note: Note) -> None:
        """Note whether a new file is a new memory or a copy of another file; an empty file is neither."""
        if not note.text:
            return
        key = _duplicate_key(note.kind, note.text)
        forgotten = (
            self._forgotten_files.get(key)
            or self._discarded.get(self._digests[name])
            or self._forgotten_roots.get(self._root_of_copy(name))
        )
        if forgotten is not None:
            self._forgotten_copies[name] = forgotten
            return
        if original := self._find_original(name):
            self._duplicates[name] = original
            return
        first = self._file_by_text.setdefault(_duplicate_key(note.kind, note.text), name)
        has_memory = first in self._paired or first in self._new_ids
        if first != name and has_memory and self._exists(first):
            self._duplicates[name] = first
        else:
            self._new_ids[name] = encode_random_id(secrets.token_bytes(16))

    def _find_original(self, name: str) -> str:
        """Return the note of which a file was a copy in the last run, if nobody edited the copy since.

        An earlier text of a memory that was revised since is no memory of its own. Empty if there is no such note.
        """
        root = self._root_of_copy(name)
        latest = self._latest_id(root) if root else None
        original = self._files_by_id.get(latest or "", "")
        return original if original and self._exists(original) else ""

    def _root_of_copy(self, name: str) -> str:
        """Return the first id of the memory that an unedited copy of a note has; empty for other files."""
        entry = self._state.entries.get(name)
        if entry is None or entry.id or entry.file != self._digests[name]:
            return ""
        return entry.root

    def _file_of(self, record: Record) -> str:
        """Return the file with the id of a memory or of a version before, or else one with the same text."""
        key = _duplicate_key(record["kind"], plain_text(record["body"]["text"]))
        ids = (record["id"], *record.get("supersedes", ()))
        files = self._file_by_id
        name = next((files[record_id] for record_id in ids if record_id in files), "")
        name = name or self._file_by_text.get(key, "")
        if name and name not in self._paired:
            # Other files with the same text are duplicates of this one.
            self._file_by_text[key] = name
            self._known_links[name] = {
                relation["target"]
                for relation in record.get("relations", ())
                if relation["type"] == LINK
            }
        return name

    # --- planning ------------------------------------------------------------------------------------

    def _plan_edited(self, name: str) -> SyncPlan | None:
        return self._plan_merge(name)

    def _plan_revised(self, name: str) -> SyncPlan | None:
        return self._plan_merge(name)

    def _plan_merge(self, name: str) -> SyncPlan | None:
        """Plan to combine the changes of both sides. Raises InvalidInput for an edit that is not allowed.

        If the merge is a conflict, the person's file stays and the version of the store is written beside it.
        """
        note, record = self._load_note(name), self._latest[name]
        if note.kind not in (None, record["kind"]):
            raise InvalidInput(
                "kind cannot be changed by editing; delete this file and write a new one"
            )
        if not note.text:
            raise InvalidInput("the text is empty; delete the file to forget the memory")
        in_store = note_content(record)
        base = self._common_base(name, record, in_store, note)
        in_file = self._file_content(name, note, base)
        merged_content = _merge_contents(in_file, base, in_store)
        if merged_content is None:
            return self._plan_conflict(name, "edited here and changed in the store")
        data = self._render_into(name, note, merged_content, base.text)
        patch = self._build_patch(record, in_store, merged_content)
        if not patch and data == note.data():
            self._mark_synced(name, record, self._digests[name])
            return None

        def merge() -> None:
            if data != note.data():
                self._digests[name] = self._write_file(name, data)
            if patch:
                self._pending[name] = self._revise(record["id"], patch)
            else:
                self._mark_synced(name, record, self._digests[name])

        did = "revised" if patch else "written"
        return one_step(name, did, merge, _property_warning(note))

    def _common_base(
        self, name: str, record: Record, in_store: NoteContent, note: Note
    ) -> NoteContent:
        """Return the content that both sides agreed on last.

        Where that is unknown, the base has no tags and links, so that the merge removes none of either side.
        """
        entry = self._state.entries.get(name)
        if entry is None or not entry.id:
            text = in_store.text if note.text == in_store.text else ""
            return replace(in_store, text=text, tags=(), links=())
        if entry.id != record["id"]:
            try:
                return note_content(self._export_record(entry.id))
            except InvalidInput:
                # This version was forgotten. A file that nobody edited since still has its content.
                is_unedited = self._digests.get(name) == entry.file
                text, tags = (note.text, note.tags or ()) if is_unedited else ("", ())
                return replace(in_store, text=text, tags=tags, links=())
        if entry.record != record["integrity"]["content_hash"]:
            return replace(in_store, tags=(), links=())
        return in_store

    def _file_content(self, name: str, note: Note, base: NoteContent) -> NoteContent:
        """Return the content of a file; a title that we derived from its name or text is no edit."""
        tags, title = note.tags, note.title
        if title is None and base.title == stem(self._old_names.get(name, name)):
            title = _default_title(name)
        elif title is None or (base.title is None and title == _headline(base.text)):
            title = base.title
        return NoteContent(
            text=note.text,
            title=title,
            tags=base.tags if tags is None else tags,
            links=tuple(self._linked_roots(name)),
            names=_other_names(note, name),
        )

    def _build_patch(
        self, record: Record, in_store: NoteContent, merged_content: NoteContent
    ) -> Unchecked:
        """Return the patch that gives a record the merged content; empty if it has it."""
        if merged_content == in_store:
            return {}
        full = self._service.get(self._access, record["id"])
        patch: Unchecked = {}
        parts = (merged_content.text, merged_content.title, merged_content.names)
        if parts != (in_store.text, in_store.title, in_store.names):
            body: dict[str, Any] = dict(rules.drop_original(full)["body"])
            if merged_content.text != in_store.text:
                body["text"] = merged_content.text
            if merged_content.title != in_store.title:
                body["structured"] = {**(body.get("structured") or {}), TITLE: merged_content.title}
            if merged_content.names != in_store.names:
                body["structured"] = {
                    **(body.get("structured") or {}),
                    NAMES_KEY: list(merged_content.names),
                }
            patch["body"] = body
        if (set(merged_content.tags), set(merged_content.links)) != (
            set(in_store.tags),
            set(in_store.links),
        ):
            new_relations = _build_relations(merged_content.tags, merged_content.links)
            remaining = [
                relation
                for relation in full.get("relations", ())
                if not _is_synced(relation) or relation in new_relations
            ]
            added = [relation for relation in new_relations if relation not in remaining]
            patch["relations"] = [*remaining, *added]
        rules.require_complete(full, list(patch))
        return patch

    def _render_into(self, name: str, note: Note, content: NoteContent, base_text: str) -> bytes:
        """Return the bytes of a file with a new content; parts that it has already stay as the person wrote them."""
        title = None
        if content.title not in (None, note.title, stem(name)):
            title = content.title
        if content.title is None and note.title == _headline(base_text):
            title = _headline(content.text)
        return note.with_changes(
            text=content.text if content.text != note.text else None,
            title=title,
            tags=content.tags if set(content.tags) != set(note.tags or ()) else None,
        ).data()

    def _linked_roots(self, name: str) -> list[str]:
        """Return the first ids of the memories that a note links to."""
        files = self._links.resolve(name, self._link_targets.get(name, ()))
        roots = [self._root_id(file) for file in files]
        return list(dict.fromkeys(filter(None, roots)))[:_MAX_LINKS]

    @cached_property
    def _links(self) -> Links:
        return Links(self._digests)

    def _root_id(self, name: str) -> str:
        """Return the first id of the memory of a file, or the id that it will have; empty if there is none."""
        file = self._duplicates.get(name, name)
        if file in self._new_ids:
            return self._new_ids[file]
        entry = self._state.entries.get(file)
        return entry.root if entry is not None and entry.id else ""

    def _plan_new(self, name: str) -> SyncPlan | None:
        """Plan for a copy; new memories are planned together later, and an empty file is ignored."""
        if name in self._forgotten_copies:
            discard = partial(self._discard, name, self._forgotten_copies[name])
            return one_step(name, "removed", discard, "a copy of a note whose memory was forgotten")
        if name not in self._duplicates:
            return None
        entry = self._state.entries.get(name)
        if entry is not None and not entry.id and name not in self._edited:
            return None  # a duplicate in the last run, too
        first = self._duplicates[name]

        def note_duplicate() -> None:
            root = self._root_id(first)
            new_entry = FileEntry(id="", file=self._digests[name], record="", root=root)
            self._state.entries[name] = new_entry

        return one_step(name, "twin", note_duplicate, f"says the same as {first}; left as it is")

    # --- executing -----------------------------------------------------------------------------------

    def _plan_remaining(self) -> Iterator[SyncPlan]:
        """Yield plans for new memories in batches, for links whose note is new, and for the state."""
        steps = [
            SyncStep(name=name, did="remembered", detail=_property_warning(self._load_note(name)))
            for name in self._new_ids
        ]
        for start in range(0, len(steps), LISTED_LIMIT):
            batch = steps[start : start + LISTED_LIMIT]
            yield SyncPlan(steps=batch, run=partial(self._import_notes, batch))
        for name, links in self._known_links.items():
            # A link may be written before its note is.
            if name in self._edited or name in self._revised or not self._exists(name):
                continue
            new_links = [root for root in self._linked_roots(name) if root not in links]
            if new_links and len(links) < _MAX_LINKS:
                add_links = partial(self._add_links, name, new_links)
                yield one_step(name, "revised", add_links, "a link found its note")
        yield SyncPlan(steps=(), run=self._mark_pending_synced)

    def _import_notes(self, steps: Sequence[SyncStep]) -> Sequence[SyncStep]:
        """Import the notes of some steps, and return the steps with the refusals among them.

        Batches are imported like any other file, so a note that equals a memory is joined with it.
        """
        drafts = [
            self._service.with_defaults(self._access, self._draft_note(step.name), method="file")
            for step in steps
        ]
        items = [
            Item(form="ump", value=draft, where=step.name, number=number)
            for number, (step, draft) in enumerate(zip(steps, drafts, strict=True), start=1)
        ]
        report = self._service.import_items(self._access, items)
        messages = {refusal.where: refusal.message for refusal in report.refusals}
        taken_steps: list[SyncStep] = []
        for step in steps:
            self._state.entries.pop(step.name, None)
            if step.name in messages:
                taken_steps.append(replace(step, did="refused", detail=messages[step.name]))
            else:
                self._pending[step.name] = self._new_ids[step.name]
                taken_steps.append(step)
        return taken_steps

    def _draft_note(self, name: str) -> Unchecked:
        """Return the draft of a record for a new file."""
        note = self._load_note(name)
        structured: Unchecked = {TITLE: note.title or _default_title(name)}
        if names := _other_names(note, name):
            structured[NAMES_KEY] = list(names)
        draft: Unchecked = {
            "id": self._new_ids[name],
            "kind": note.kind or DEFAULT_KIND,
            "body": {"text": note.text, "structured": structured},
            "scope": {"project": self._project} if self._project else {},
        }
        relations = _build_relations(note.tags or (), self._linked_roots(name))
        return {**draft, "relations": relations} if relations else draft

    def _add_links(self, name: str, links: Sequence[str]) -> None:
        """Add relations for links to the memory of a file."""
        record_id = self._state.entries[name].id
        full = self._service.get(self._access, record_id)
        rules.require_complete(full, ("relations",))
        relations = [*full.get("relations", ()), *_build_relations((), links)][:MAX_RELATIONS]
        self._pending[name] = self._revise(record_id, {"relations": relations})

    def _mark_pending_synced(self) -> None:
        """Note in the state that the memories written in this run agree with their files."""
        name_by_id = {record_id: name for name, record_id in self._pending.items()}
        if not name_by_id:
            return
        for record in self._service.export(self._access, names=list(name_by_id)):
            name = name_by_id[record["id"]]
            self._mark_synced(name, record, self._digests[name])

    def _free_name(self, record: Record) -> str:
        return file_name(record, self._used_names, self.endings[0])

    def _render(self, name: str, record: Record, /) -> bytes:
        content = note_content(record)
        if name in self._digests:
            entry = self._state.entries.get(name)
            base_text = self._stored_text(entry.id) if entry is not None and entry.id else ""
            return self._render_into(name, self._load_note(name), content, base_text)
        title = content.title or _headline(content.text)
        return Note.create(
            content.text, title=title, kind=record["kind"], tags=content.tags, name=record["id"]
        ).data()

    def _remove_file(self, name: str) -> None:
        """Move the file of a forgotten memory to the trash; delete it if the memory was erased."""
        entry = self._state.entries.get(name)
        if name not in self._digests or entry is None:
            self._delete_file(name)
        else:
            self._discard(name, entry)

    def _discard(self, name: str, entry: FileEntry) -> None:
        """Move a note to the trash; delete it if the version of its entry was erased."""
        if self._is_erased(entry.id):
            self._delete_file(name)
            return
        self._require_unchanged(name)
        self._state.copies[self._folder.move_into(name, TRASH)] = replace(
            entry, file=self._digests[name]
        )
        self._state.entries.pop(name, None)


def _property_warning(note: Note) -> str:
    """Return the warning for properties that cannot be read; empty if they can."""
    return f"{note.problem}; they are left as they are" if note.problem else ""


def note_content(record: Record) -> NoteContent:
    """Return the parts of a record that a note has, too."""
    structured = record["body"].get("structured") or {}
    title, names = structured.get(TITLE), structured.get(NAMES_KEY)
    relations = record.get("relations", ())
    return NoteContent(
        text=plain_text(record["body"]["text"]),
        title=title if isinstance(title, str) and title else None,
        tags=tuple(
            relation["target"].removeprefix(TAG_PREFIX)
            for relation in relations
            if is_tag(relation["type"], relation["target"])
        ),
        links=tuple(relation["target"] for relation in relations if relation["type"] == LINK),
        names=tuple(names) if isinstance(names, list | tuple) else (),
    )


def _other_names(note: Note, name: str) -> tuple[str, ...]:
    """Return the aliases of a note, and the name of its file if neither title nor text begins with its words.

    A note with an id was written here, and its name may repeat an earlier text, which can be forgotten or erased.
    """
    if note.id is not None:
        return note.aliases
    file_name = _default_title(name)
    beginning = f"{note.title or file_name} {note.text[:_HEADLINE_CHARS]}".casefold()
    is_known = all(word in beginning for word in file_name.casefold().split())
    return note.aliases if is_known else (*note.aliases, file_name)


def _is_synced(relation: Relation) -> bool:
    """Return True for a relation that a note shows: a link or a tag."""
    return relation["type"] == LINK or is_tag(relation["type"], relation["target"])


def _build_relations(tags: Sequence[str], links: Sequence[str]) -> list[dict[str, str]]:
    """Return the relations for tags and links; tags come first, since links remain in the text anyway."""
    tag_relations = [{"type": "about", "target": f"{TAG_PREFIX}{tag}"} for tag in tags]
    room = max(0, MAX_RELATIONS - len(tag_relations))
    return [*tag_relations, *({"type": LINK, "target": target} for target in links[:room])]


def _merge_contents(
    in_file: NoteContent, base: NoteContent, in_store: NoteContent
) -> NoteContent | None:
    """Merge the changes of both sides; None if both changed the text, or the title, in different ways.

    Texts are merged as a whole, not line by line: two different edits of one text are a conflict.
    """
    for file_part, base_part, store_part in (
        (in_file.text, base.text, in_store.text),
        (in_file.title, base.title, in_store.title),
    ):
        if file_part != store_part and file_part != base_part != store_part:
            return None
    return NoteContent(
        text=in_store.text if in_file.text == base.text else in_file.text,
        title=in_store.title if in_file.title == base.title else in_file.title,
        tags=_merge_lists(in_file.tags, base.tags, in_store.tags),
        links=_merge_lists(in_file.links, base.links, in_store.links),
        names=in_file.names,
    )


def _merge_lists(
    in_file: Sequence[str], base: Sequence[str], in_store: Sequence[str]
) -> tuple[str, ...]:
    """Return the store's list without the entries removed from the file, and with those added to it."""
    removed = set(base) - set(in_file)
    remaining = [entry for entry in in_store if entry not in removed]
    added = [entry for entry in in_file if entry not in base]
    return tuple(dict.fromkeys([*remaining, *added]))


def _duplicate_key(kind: str | None, text: str) -> tuple[str, str]:
    """Return a key that is equal for duplicates: kind and normalised text."""
    return kind or DEFAULT_KIND, unicodedata.normalize("NFC", text).strip().casefold()


def _headline(text: str) -> str:
    """Return a title made from a text: the beginning of its first line with more than Markdown signs."""
    first = next((line for line in text.splitlines() if line.strip(" #*->\t")), text)
    words = " ".join(first.strip(" #*->\t").split())
    if len(words) <= _HEADLINE_CHARS:
        return words
    return words[:_HEADLINE_CHARS].rsplit(" ", 1)[0] + "…"


def _default_title(name: str) -> str:
    return stem(name)[:MAX_NAME_CHARS]


def _count_words(text: str) -> Counter[str]:
    return Counter(text.split())


def _similarity(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of common words, from 0 to 1."""
    return (one & other).total() / max(one.total(), other.total(), 1)

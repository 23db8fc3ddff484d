"""A folder of notes as people write them, subfolders and all: an Obsidian vault, or any other Markdown (`note`).

Nothing is written into a person's file because it was read. A file changes where its memory did, and then only in its
text and in the properties of ours (title, kind, tags, id). What else belongs to a memory (signature, hash, which file
holds it) is kept in the data directory.

Both sides are compared part by part with what they agreed on last (text, title, tags, links): where each changed
something else, the changes meet; where both changed the text or the title, it is a conflict, and both are kept.
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

from memoranda.bindings.files.formats import MARKDOWN_ENDING
from memoranda.bindings.files.names import file_name
from memoranda.bindings.files.note import Links, Note, links_in, plain_text, stem
from memoranda.bindings.files.sync_pass import Pass, Plan, Step, plan
from memoranda.bindings.files.sync_state import Entry
from memoranda.errors import InvalidInput, NotFound, TooLarge
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import LISTED_LIMIT
from memoranda.standards.ump import rules
from memoranda.standards.ump.canonical import encode_random_id
from memoranda.standards.ump.mapping import TAG_PREFIX, is_tag
from memoranda.standards.ump.record import MAX_RELATIONS, MAX_TEXT_BYTES
from memoranda.standards.ump.shapes import MAX_NAME_CHARS, Record, Relation, Unchecked

# Where Obsidian puts what was deleted, if it is told to keep it in the vault.
TRASH: Final = ".trash"
LINK: Final = "links_to"
TITLE: Final = "title"
DEFAULT_KIND: Final = "semantic"
# Of the words of two texts: as much as git asks for, and a little more.
_SIMILAR: Final = 0.6
# A pair of files takes a millisecond to compare.
_MAX_COMPARED: Final = 50
_HEADLINE_CHARS: Final = 80


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a note and a record have in common."""

    text: str
    title: str | None
    tags: tuple[str, ...]
    links: tuple[str, ...]


class NotePass(Pass[Note]):
    """Memories and the notes that hold them."""

    ending = ".md"

    def __init__(self, *looked_at: Any) -> None:
        super().__init__(*looked_at)
        # What files were called before, what they link to, and what their memories link to already.
        self._renamed: dict[str, str] = {}
        self._targets: dict[str, list[tuple[bool, str]]] = {}
        self._linked: dict[str, set[str]] = {}
        # Files that hold a memory, by its id and by what it says.
        self._by_id: dict[str, str] = {}
        # New files that name a memory by its id: one that was there before, or copies of it.
        self._claims: dict[str, list[str]] = {}
        self._by_text: dict[tuple[str, str], str] = {}
        # New files with the ids of their memories to be, and those that say what another one says.
        self._fresh: dict[str, str] = {}
        self._twins: dict[str, str] = {}
        # Memories that were written and are to be agreed on.
        self._pending: dict[str, str] = {}

    def _listed(self) -> list[str]:
        return self._folder.files()

    def _counts(self, name: str) -> bool:
        lowered = name.casefold()
        return (
            lowered.endswith(self.ending)
            and not lowered.endswith(MARKDOWN_ENDING)
            and not self._is_conflict(name)
        )

    # --- looking -------------------------------------------------------------------------------------

    def _look_at(self, name: str, data: bytes) -> None:
        super()._look_at(name, data)
        if name not in self._problems:
            self._targets[name] = list(links_in(data.decode("utf-8", "replace")))

    def _read(self, data: bytes) -> Note:
        note = Note.read(data)
        if len(note.text.encode()) > MAX_TEXT_BYTES:
            raise TooLarge(f"its text is over the limit of {MAX_TEXT_BYTES} bytes")
        return note

    def _note(self, name: str) -> Note:
        """What a file says, whether it was edited or not."""
        if name not in self._notes:
            self._notes[name] = self._read(self._bytes_of(name))
        return self._notes[name]

    def _follow_renames(self) -> None:
        entries = self._state.entries
        missing = {
            name: entry for name, entry in entries.items() if entry.id and not self._exists(name)
        }
        new = {name: note for name, note in self._notes.items() if name not in entries}
        if not missing or not new:
            return
        by_id = {each: name for name, entry in missing.items() for each in (entry.id, entry.root)}
        by_bytes = {entry.file: name for name, entry in missing.items()}
        for name, note in list(new.items()):
            old = by_id.get(note.id or "") or by_bytes.get(self._digests[name])
            if old in missing:
                self._rename(old, name)
                del missing[old], new[name]
        self._follow_edited(
            dict(list(missing.items())[:_MAX_COMPARED]), dict(list(new.items())[:_MAX_COMPARED])
        )

    def _follow_edited(self, missing: dict[str, Entry], new: dict[str, Note]) -> None:
        """Renamed and edited at once: the file whose words are most of those that the missing one had."""
        texts = (
            {name: _words(self._text_of(entry.id)) for name, entry in missing.items()}
            if new
            else {}
        )
        for name, note in new.items():
            words = _words(note.text)
            likeness = {old: _likeness(known, words) for old, known in texts.items()}
            best = max(
                likeness, key=lambda old: (likeness[old], stem(old) == stem(name)), default=""
            )
            if best and likeness[best] >= _SIMILAR:
                self._rename(best, name)
                del texts[best]

    def _rename(self, old: str, name: str) -> None:
        self._state.entries[name] = self._state.entries.pop(old)
        self._renamed[name] = old
        if stem(old) == stem(name) and self._state.entries[name].file == self._digests[name]:
            del self._edited[name], self._notes[name]

    def _text_of(self, record_id: str) -> str:
        try:
            return plain_text(self._service.get(self._access, record_id)["body"]["text"])
        except NotFound:
            return ""

    def _look_at_store(self) -> None:
        entries = self._state.entries
        self._by_id = {entry.id: name for name, entry in entries.items() if entry.id}
        for name, note in self._notes.items():
            if name in entries and entries[name].id:
                continue
            if note.id and (head := self._head_of(note.id)):
                self._claims.setdefault(head, []).append(name)
            if note.text:
                self._by_text.setdefault(_sameness(note.kind, note.text), name)
        super()._look_at_store()
        for head, names in self._claims.items():
            # Whoever says what another memory says is a copy that became that one.
            claiming = [name for name in names if name not in self._alive]
            if head in self._loose and claiming:
                self._loose.remove(head)
                self._hold(claiming[0], self._shown(head))
        for name in sorted(self._digests):
            held = entries[name].id if name in entries else ""
            if (
                name not in self._alive
                and name not in self._problems
                and not (held and self._is_known(held))
            ):
                self._sort_new(name, self._note(name))

    def _sort_new(self, name: str, note: Note) -> None:
        """A new file is a new memory, says what another one says, or is empty."""
        if not note.text:
            return
        holder = self._by_text.setdefault(_sameness(note.kind, note.text), name)
        if (
            holder != name
            and self._exists(holder)
            and (holder in self._alive or holder in self._fresh)
        ):
            self._twins[name] = holder
        else:
            self._fresh[name] = encode_random_id(secrets.token_bytes(16))

    def _holder(self, record: Record) -> str:
        key = _sameness(record["kind"], plain_text(record["body"]["text"]))
        chain = (record["id"], *record.get("supersedes", ()))
        name = next((self._by_id[each] for each in chain if each in self._by_id), "")
        name = name or self._by_text.get(key, "")
        if name and name not in self._alive:
            # Whoever says the same from now on is its twin.
            self._by_text[key] = name
            self._linked[name] = {
                each["target"] for each in record.get("relations", ()) if each["type"] == LINK
            }
        return name

    # --- deciding ------------------------------------------------------------------------------------

    def _decide_edited(self, name: str) -> Plan | None:
        return self._merge(name)

    def _decide_moved(self, name: str) -> Plan | None:
        return self._merge(name)

    def _merge(self, name: str) -> Plan | None:
        """Let what changed here and what changed there meet."""
        note, head = self._note(name), self._heads[name]
        if note.kind not in (None, head["kind"]):
            raise InvalidInput(
                "kind cannot be changed by editing; delete this file and write a new one"
            )
        if not note.text:
            raise InvalidInput("the text is empty; delete the file to forget the memory")
        there = _said_by(head)
        base = self._base(name, head, there, note)
        here = self._said_here(name, note, base)
        merged = _merged(here, base, there)
        if merged is None:
            return self._conflict(name, "edited here and changed in the store")
        data = self._shown_in(name, note, merged, base.text)
        patch = self._patch(head, there, merged)
        if not patch and data == note.data():
            self._agree(name, head, self._digests[name])
            return None

        def do() -> None:
            if data != note.data():
                self._digests[name] = self._save(name, data)
            if patch:
                self._pending[name] = self._revise(head["id"], patch)
            else:
                self._agree(name, head, self._digests[name])

        return plan(name, "revised" if patch else "written", do, self._unread(note))

    def _base(self, name: str, head: Record, there: _Said, note: Note) -> _Said:
        """What both sides agreed on; where nobody knows any more, nothing that either of them says is taken away."""
        entry = self._state.entries.get(name)
        if entry is None or not entry.id:
            return replace(
                there, text=there.text if note.text == there.text else "", tags=(), links=()
            )
        if entry.id == head["id"] and entry.record != head["integrity"]["content_hash"]:
            return replace(there, tags=(), links=())
        return there if entry.id == head["id"] else _said_by(self._shown(entry.id))

    def _said_here(self, name: str, note: Note, base: _Said) -> _Said:
        tags, title = note.tags, note.title
        if title is None and base.title == stem(self._renamed.get(name, name)):
            title = _title(name)
        elif title is None or (base.title is None and title == _headline(base.text)):
            title = base.title
        links = tuple(self._roots(name))
        return _Said(
            text=note.text, title=title, tags=base.tags if tags is None else tags, links=links
        )

    def _patch(self, head: Record, there: _Said, merged: _Said) -> Unchecked:
        if merged == there:
            return {}
        full = self._service.get(self._access, head["id"])
        patch: Unchecked = {}
        if (merged.text, merged.title) != (there.text, there.title):
            body = rules.drop_original(full)["body"]
            patch["body"] = {**body, **({"text": merged.text} if merged.text != there.text else {})}
            if merged.title != there.title:
                patch["body"]["structured"] = {
                    **(body.get("structured") or {}),
                    TITLE: merged.title,
                }
        if (set(merged.tags), set(merged.links)) != (set(there.tags), set(there.links)):
            wanted = _relations(merged.tags, merged.links)
            known = [
                each for each in full.get("relations", ()) if not _is_ours(each) or each in wanted
            ]
            patch["relations"] = [*known, *(each for each in wanted if each not in known)]
        rules.require_complete(full, list(patch))
        return patch

    def _shown_in(self, name: str, note: Note, wanted: _Said, before: str) -> bytes:
        """The file with what it is to say."""
        title = wanted.title if wanted.title not in (None, note.title, stem(name)) else None
        if wanted.title is None and note.title == _headline(before):
            title = _headline(wanted.text)
        return note.changed(
            text=wanted.text if wanted.text != note.text else None,
            title=title,
            tags=wanted.tags if set(wanted.tags) != set(note.tags or ()) else None,
        ).data()

    def _roots(self, name: str) -> list[str]:
        """The memories that a note links to, by the ids that they had first."""
        files = self._links.resolve(name, self._targets.get(name, ()))
        return list(dict.fromkeys(root for file in files if (root := self._root(file))))[
            : MAX_RELATIONS // 2
        ]

    @cached_property
    def _links(self) -> Links:
        return Links(self._digests)

    def _root(self, name: str) -> str:
        file = self._twins.get(name, name)
        entry = self._state.entries.get(file)
        return self._fresh.get(file) or (entry.root if entry is not None and entry.id else "")

    def _new(self, name: str) -> Plan | None:
        if name not in self._twins:
            return (
                None  # remembered with all others that are new; an empty one is nothing to remember
            )
        known = self._state.entries.get(name)
        if known is not None and not known.id and name not in self._edited:
            return None  # a twin, as before
        entry = Entry(id="", file=self._digests[name], record="")
        return plan(
            name,
            "twin",
            lambda: self._state.entries.update({name: entry}),
            f"says the same as {self._twins[name]}; left as it is",
        )

    def _unread(self, note: Note) -> str:
        return f"{note.problem}; they are left as they are" if note.problem else ""

    # --- doing ---------------------------------------------------------------------------------------

    def _remaining(self) -> Iterator[Plan]:
        fresh = [
            Step(name=name, did="remembered", detail=self._unread(self._note(name)))
            for name in self._fresh
        ]
        for start in range(0, len(fresh), LISTED_LIMIT):
            steps = fresh[start : start + LISTED_LIMIT]
            yield Plan(steps=steps, do=partial(self._remember, steps))
        for name, known in self._linked.items():
            # A link may be there before its note is.
            if name in self._edited or name in self._moved or not self._exists(name):
                continue
            if (found := [each for each in self._roots(name) if each not in known]) and len(
                known
            ) < MAX_RELATIONS // 2:
                yield plan(
                    name, "revised", partial(self._link, name, found), "a link found its note"
                )
        yield Plan(steps=(), do=self._settle)

    def _remember(self, steps: Sequence[Step]) -> Sequence[Step]:
        drafts = [
            self._service.with_defaults(self._access, self._draft(each.name), method="file")
            for each in steps
        ]
        items = [
            Item(form="ump", value=draft, where=step.name, number=number)
            for number, (step, draft) in enumerate(zip(steps, drafts, strict=True), start=1)
        ]
        refused = {
            each.where: each.message
            for each in self._service.import_items(self._access, items).refusals
        }
        for step in steps:
            self._state.entries.pop(step.name, None)
            if step.name not in refused:
                self._pending[step.name] = self._fresh[step.name]
        return [
            replace(each, did="refused", detail=refused[each.name])
            if each.name in refused
            else each
            for each in steps
        ]

    def _draft(self, name: str) -> Unchecked:
        note = self._note(name)
        draft: Unchecked = {
            "id": self._fresh[name],
            "kind": note.kind or DEFAULT_KIND,
            "body": {"text": note.text, "structured": {TITLE: note.title or _title(name)}},
            "scope": {"project": self._project} if self._project else {},
        }
        relations = _relations(note.tags or (), self._roots(name))
        return {**draft, "relations": relations} if relations else draft

    def _link(self, name: str, found: Sequence[str]) -> None:
        record_id = self._state.entries[name].id
        full = self._service.get(self._access, record_id)
        rules.require_complete(full, ("relations",))
        relations = [*full.get("relations", ()), *_relations((), found)][:MAX_RELATIONS]
        self._pending[name] = self._revise(record_id, {"relations": relations})

    def _settle(self) -> None:
        """Put down what was written as agreed."""
        names = {record_id: name for name, record_id in self._pending.items()}
        for record in self._service.export(self._access, names=list(names)) if names else ():
            self._agree(names[record["id"]], record, self._digests[names[record["id"]]])

    def _new_name(self, record: Record) -> str:
        return file_name(record, self._taken, self.ending)

    def _rendered(self, name: str, record: Record, /) -> bytes:
        there = _said_by(record)
        if name in self._digests:
            entry = self._state.entries.get(name)
            before = self._text_of(entry.id) if entry is not None and entry.id else ""
            return self._shown_in(name, self._note(name), there, before)
        title = there.title or _headline(there.text)
        return Note.new(
            there.text, title=title, kind=record["kind"], tags=there.tags, name=record["id"]
        ).data()

    def _remove(self, name: str) -> None:
        """What was forgotten goes to the trash, where its text can be found again; what was erased is gone."""
        entry = self._state.entries.get(name)
        is_there = name in self._digests and entry is not None
        if not is_there or entry is None or self._note(name).text != self._text_of(entry.id):
            super()._remove(name)
            return
        self._require_unchanged(name)
        self._folder.set_aside(name, TRASH)
        del self._state.entries[name]


def _said_by(record: Record) -> _Said:
    title = (record["body"].get("structured") or {}).get(TITLE)
    relations = record.get("relations", ())
    return _Said(
        text=plain_text(record["body"]["text"]),
        title=title if isinstance(title, str) and title else None,
        tags=tuple(
            each["target"].removeprefix(TAG_PREFIX)
            for each in relations
            if is_tag(each["type"], each["target"])
        ),
        links=tuple(each["target"] for each in relations if each["type"] == LINK),
    )


def _is_ours(relation: Relation) -> bool:
    return relation["type"] == LINK or is_tag(relation["type"], relation["target"])


def _relations(tags: Sequence[str], links: Sequence[str]) -> list[dict[str, str]]:
    """Return the relations for tags and links; links take what room the tags leave, as they stand in the text, too."""
    tagged = [{"type": "about", "target": f"{TAG_PREFIX}{tag}"} for tag in tags]
    room = max(0, MAX_RELATIONS - len(tagged))
    return [*tagged, *({"type": LINK, "target": target} for target in links[:room])]


def _merged(here: _Said, base: _Said, there: _Said) -> _Said | None:
    """What changed on either side; None if both changed the text, or the title."""
    texts, titles = (here.text, base.text, there.text), (here.title, base.title, there.title)
    if any(one != three and one != two != three for one, two, three in (texts, titles)):
        return None
    return _Said(
        text=there.text if here.text == base.text else here.text,
        title=there.title if here.title == base.title else here.title,
        tags=_joined(here.tags, base.tags, there.tags),
        links=_joined(here.links, base.links, there.links),
    )


def _joined(here: Sequence[str], base: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """What is there, without what was taken away here, and with what was added here."""
    gone = set(base) - set(here)
    kept = [each for each in there if each not in gone]
    return tuple(dict.fromkeys([*kept, *(each for each in here if each not in base)]))


def _sameness(kind: str | None, text: str) -> tuple[str, str]:
    return kind or DEFAULT_KIND, unicodedata.normalize("NFC", text).strip().casefold()


def _headline(text: str) -> str:
    """A title for what has none: the beginning of its first line that says something."""
    first = next((line for line in text.splitlines() if line.strip(" #*->\t")), text)
    words = " ".join(first.strip(" #*->\t").split())
    if len(words) <= _HEADLINE_CHARS:
        return words
    return words[:_HEADLINE_CHARS].rsplit(" ", 1)[0] + "…"


def _title(name: str) -> str:
    return stem(name)[:MAX_NAME_CHARS]


def _words(text: str) -> Counter[str]:
    return Counter(text.split())


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    return (one & other).total() / max(one.total(), other.total(), 1)

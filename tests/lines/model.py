"""A plain model of memories with lines of versions, and the effect of every verb on them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

Names = Mapping[str, str]
ChangeKind = Literal["created", "revised", "merged", "forgotten"]
VISIBILITIES: Final = ("private", "shared", "public")


class Refused(Exception):
    """A verb that the rules of lines forbid."""


@dataclass(slots=True)
class Version:
    """One version: its word, which no other text has, and its restrictions."""

    word: str
    visibility: str = "private"
    is_exportable: bool = True
    ends: int | None = None
    # The time of its writing: before it, after a clock was set back, it is not current yet.
    begins: int = 0
    is_held: bool = False
    is_erased: bool = False
    # True if its text holds what looks like a secret.
    has_secret: bool = False
    # The forgetting that hides it; 0 if nothing does.
    tombstone: int = 0
    names: Names = field(default_factory=dict)


@dataclass(slots=True)
class Line:
    """A memory: its versions, oldest first."""

    label: int
    standard: str
    versions: list[Version]

    @property
    def head(self) -> Version:
        return self.versions[-1]

    @property
    def is_held(self) -> bool:
        return any(version.is_held for version in self.versions)

    @property
    def is_forgotten(self) -> bool:
        return self.head.tombstone > 0 or self.head.is_erased

    def is_expired(self, now: int) -> bool:
        return self.head.ends is not None and self.head.ends <= now

    def is_live(self, now: int) -> bool:
        return not self.is_forgotten and not self.is_expired(now)

    def visibility(self, version: Version) -> str:
        """Return who may see a version: the head restricts every earlier version."""
        return min(version.visibility, self.head.visibility, key=VISIBILITIES.index)


@dataclass(slots=True)
class Change:
    """What an action did to one memory; `index` is the number of the version."""

    kind: ChangeKind
    label: int
    index: int


@dataclass(slots=True)
class Action:
    """The changes of one verb, which one undo reverts."""

    changes: list[Change]
    # What the undo of it wrote; None while it is not undone.
    undo: list[Change] | None = None
    is_redoable: bool = False


@dataclass(slots=True)
class Model:
    """The memories of one owner."""

    lines: dict[int, Line] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    # True while nothing was written after the last undo or redo.
    is_after_undo: bool = False
    _forgettings: int = 0

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def _note(self, changes: list[Change]) -> None:
        if changes:
            self.actions.append(Action(changes))
            self.is_after_undo = False

    # --- verbs -------------------------------------------------------------------------------------------------------

    def write(self, *lines: Line) -> None:
        """Write new memories as one action."""
        self.lines |= {line.label: line for line in lines}
        self._note([Change("created", line.label, 0) for line in lines])

    def revise(
        self,
        label: int,
        word: str,
        now: int,
        *,
        visibility: str | None = None,
        is_exportable: bool = True,
        ends: int | None = None,
    ) -> None:
        """Write the next version; None keeps the visibility."""
        line = self._changeable(label, now)
        head = line.head
        if ends is not None and head.ends is not None and ends > head.ends:
            raise Refused("the retention cannot be longer")
        version = Version(
            word,
            visibility=head.visibility if visibility is None else visibility,
            is_exportable=head.is_exportable and is_exportable,
            begins=max(now, head.begins),
            ends=min((end for end in (head.ends, ends) if end is not None), default=None),
        )
        if version.visibility == "public" and not version.is_exportable:
            raise Refused("what may not be exported cannot be public")
        line.versions.append(version)
        self._note([Change("revised", label, len(line.versions) - 1)])

    def revert(self, label: int, now: int) -> None:
        """Write the content of the version before the last one again."""
        line = self._changeable(label, now)
        head = line.head
        earlier = line.versions[-2] if len(line.versions) > 1 else None
        if earlier is None or earlier.is_erased or earlier.tombstone:
            raise Refused("there is no earlier version")
        visibility = min(earlier.visibility, head.visibility, key=VISIBILITIES.index)
        line.versions.append(replace(head, word=earlier.word, visibility=visibility, begins=max(now, head.begins)))
        line.head.has_secret, line.head.names = earlier.has_secret, {}
        self._note([Change("revised", label, len(line.versions) - 1)])

    def merge(self, label: int) -> None:
        """Remember the text of a memory again, which changes its state only."""
        self._note([Change("merged", label, len(self.lines[label].versions) - 1)])

    def redact(self, label: int, now: int) -> None:
        """Write a memory without the secret in it, and erase what held it."""
        line = self._changeable(label, now)
        if line.is_held:
            raise Refused("it is on hold")
        self.revise(label, line.head.word, now)
        self.forget_earlier(label, len(line.versions) - 2, is_hard=True)

    def _changeable(self, label: int, now: int) -> Line:
        line = self.lines[label]
        if not line.is_live(now):
            raise Refused("it is gone")
        if line.head.is_held:
            raise Refused("it is on hold")
        return line

    def forget(self, labels: Iterable[int], now: int) -> None:
        """Forget memories as one action; those that may not be forgotten stay."""
        changes: list[Change] = []
        errors: list[Refused] = []
        for label in labels:
            try:
                changes += self._forget_line(self._changeable(label, now))
            except Refused as error:
                errors.append(error)
        if errors and not changes:
            raise errors[0]
        self._note(changes)

    def _forget_line(self, line: Line) -> list[Change]:
        if line.is_held:
            raise Refused("it is on hold")
        self._forgettings += 1
        for version in line.versions:
            if not version.is_erased and not version.tombstone:
                version.tombstone = self._forgettings
        return [Change("forgotten", line.label, len(line.versions) - 1)]

    def erase(self, label: int) -> None:
        line = self.lines[label]
        if line.is_held:
            raise Refused("it is on hold")
        if line.head.is_erased:
            raise Refused("it is gone")
        for version in line.versions:
            version.is_erased = True
        self._note([Change("forgotten", label, len(line.versions) - 1)])

    def forget_earlier(self, label: int, index: int, *, is_hard: bool) -> None:
        """Forget or erase a superseded version with those before it."""
        line = self.lines[label]
        if line.is_held:
            raise Refused("it is on hold")
        self._forgettings += 1
        for version in line.versions[: index + 1]:
            if is_hard:
                version.is_erased = True
            elif not version.tombstone and not version.is_erased:
                version.tombstone = self._forgettings
        self._note([Change("forgotten", label, index)])

    def hold(self, label: int, index: int, *, is_held: bool) -> None:
        self.lines[label].versions[index].is_held = is_held

    def purge(self, now: int) -> None:
        """Erase what has ended; what is on hold is only hidden."""
        for line in self.lines.values():
            if line.is_expired(now) and not line.is_held:
                for version in line.versions:
                    version.is_erased = True

    # --- undo --------------------------------------------------------------------------------------------------------

    def undo(self, now: int) -> None:
        """Revert the last action that is not undone and of which something is left."""
        while True:
            action = next((action for action in reversed(self.actions) if action.undo is None), None)
            if action is None:
                raise Refused("there is nothing to undo")
            changes = self._invert(action.changes, now)
            if changes:
                break
            action.undo = []
        if not self.is_after_undo:
            for other in self.actions:
                other.is_redoable = False
        action.undo, action.is_redoable, self.is_after_undo = changes, True, True

    def redo(self, now: int) -> None:
        """Do the action again that was undone last, if nothing was written since."""
        # The action that was undone last is the oldest one: undos go back.
        action = next((action for action in self.actions if action.is_redoable), None)
        if action is None or action.undo is None or not self.is_after_undo:
            raise Refused("there is nothing to redo")
        if not self._invert(action.undo, now):
            raise Refused("nothing of it is left")
        action.undo, action.is_redoable = None, False

    def _invert(self, changes: list[Change], now: int) -> list[Change]:
        written: list[Change] = []
        errors: list[Refused] = []
        for change in reversed(changes):
            try:
                written += self._invert_change(change, now)
            except Refused as error:
                errors.append(error)
        if errors and not written:
            raise errors[0]
        return written

    def _invert_change(self, change: Change, now: int) -> list[Change]:
        line = self.lines[change.label]
        version = line.versions[change.index]
        if line.is_expired(now):
            return []
        if version.is_erased:
            raise Refused("it is erased")
        if change.kind == "forgotten":
            return self._restore(line, version)
        if line.head.tombstone or line.head.is_erased:
            return []
        if change.kind == "created":
            return self._forget_line(line)
        if line.head.is_held:
            raise Refused("it is on hold")
        before = change.index if change.kind == "merged" else change.index - 1
        earlier = next((version for version in line.versions[before::-1] if not version.is_erased), None)
        if earlier is None:
            raise Refused("the earlier versions were erased")
        head = line.head
        line.versions.append(
            Version(
                earlier.word,
                visibility=earlier.visibility,
                is_exportable=head.is_exportable,
                ends=head.ends,
                begins=max(now, head.begins),
                has_secret=earlier.has_secret,
            )
        )
        return [Change("revised", line.label, len(line.versions) - 1)]

    @staticmethod
    def _restore(line: Line, version: Version) -> list[Change]:
        tombstone = version.tombstone
        if not tombstone:
            return []
        for other in line.versions:
            if other.tombstone == tombstone:
                other.tombstone = 0
        return [Change("created", line.label, len(line.versions) - 1)]

    # --- what readers see --------------------------------------------------------------------------------------------

    def live(self, now: int) -> Iterator[Line]:
        return (line for line in self.lines.values() if line.is_live(now))

    def heads(self, now: int, *visibilities: str) -> set[str]:
        """Return the words of the memories that are current, for readers of some visibilities."""
        return {line.head.word for line in self.live(now) if line.head.visibility in visibilities}

    def shown(self, line: Line, now: int, *visibilities: str) -> set[str]:
        """Return the words of all versions of a memory that are shown."""
        if not line.is_live(now):
            return set()
        return {version.word for version in self.visible(line, *visibilities)}

    @staticmethod
    def visible(line: Line, *visibilities: str) -> Iterator[Version]:
        """Yield the versions that are neither erased nor forgotten by themselves, in some visibilities."""
        for version in line.versions:
            if not version.is_erased and not version.tombstone and line.visibility(version) in visibilities:
                yield version

    def exported(self, now: int, *, history: bool) -> set[str]:
        """Return the words that an export holds."""
        words: set[str] = set()
        for line in self.live(now):
            if line.head.is_exportable:
                words |= self.shown(line, now, *VISIBILITIES) if history else {line.head.word}
        return words

    def told_to_owner(self, now: int) -> set[str]:
        """Return the words that the owner may still see, forgotten memories included."""
        return {
            version.word
            for line in self.lines.values()
            if not line.is_expired(now)
            for version in line.versions
            if not version.is_erased
        }


@dataclass(slots=True)
class Copy:
    """Another store of the same memories: for each memory the newest version that was brought there."""

    heads: dict[int, int] = field(default_factory=dict)
    forgotten: dict[int, int] = field(default_factory=dict)
    # Memories of which the import of a later version was undone.
    uncertain: set[int] = field(default_factory=set)

    def copy(self) -> Copy:
        return copy.deepcopy(self)

    def bring(self, label: int, index: int) -> None:
        """Import a version."""
        self.heads[label] = max(index, self.heads.get(label, index))

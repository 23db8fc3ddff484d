"""Actions: the changes that one verb made, so that they can be undone and redone together.

A unit of work is one action, unless it continues the action of an earlier unit (`Action`). The change feed orders all
changes of an owner, so an action is a few ranges of it: an item of the kind ACTION names the ranges of each unit with
more than one change, or with an earlier part. Nothing is stored for the others.

The history of undos (`History`) is one item. It holds the ranges that undoing and redoing wrote themselves, and the
actions that are undone: both are skipped by the next undo, which therefore goes one step further back. An action that
is undone can be redone until something else is written.

What is undone is computed from the change feed; how each kind of change is reverted is in `service/ump/undo.py`. Only
the newest REACH changes count, because older items are deleted. Everything is per owner: two people with one owner undo
each other's actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from memoranda.errors import NotFound
from memoranda.model.memory import Change
from memoranda.service.core.context import Context
from memoranda.storage.engine.contract import ACTION, Snapshot, Unit

T = TypeVar("T")

_HISTORY: Final = "undo"
_HISTORY_NAME: Final = "history"
# Changes that can be undone: the newest ones, counted in the change feed.
REACH: Final = 10_000


class Part(NamedTuple):
    """The changes of one unit of work: a range of the change feed, both ends included."""

    first: int
    last: int
    # The first version that the unit appended; 0 if it appended none.
    new_from: int


class UndoneAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that is undone, and the parts that undoing it wrote."""

    parts: tuple[Part, ...]
    by: tuple[Part, ...] = ()
    is_redoable: bool = True


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The undos and redos of an owner, within reach."""

    undone: tuple[UndoneAction, ...] = ()
    # Parts that undos and redos wrote.
    undo_parts: tuple[Part, ...] = ()

    def skipped(self) -> list[Part]:
        """Return the parts that the next undo leaves out, the newest first."""
        parts = [*self.undo_parts, *(part for action in self.undone for part in action.parts)]
        return sorted(parts, key=lambda part: -part.last)

    def last_own(self) -> int:
        """Return the position of the last change that an undo or a redo wrote; 0 if there is none."""
        return max((part.last for part in self.undo_parts), default=0)


class Action:
    """An action in progress, whose units of work are undone together.

    A verb that writes in several units creates one `Action` and writes through it. One unit alone needs none.
    """

    def __init__(self, note: Callable[[Unit, Part], None] | None = None) -> None:
        """Begin an action. `note` is called in each unit that changes something, with its part."""
        self._note = note
        self._last = 0

    def write(self, context: Context, tenant: str, work: Callable[[Unit], T]) -> T:
        """Run `work` as the next unit of work of this action."""

        def run_unit(unit: Unit) -> tuple[T, int]:
            before = unit.find_last_change()
            result = work(unit)
            last = unit.find_last_change()
            if last == before:
                return result, self._last
            if self._last:
                unit.continue_action(self._last)
            if self._note is not None:
                self._note(unit, Part(before + 1, last, unit.first_appended()))
            return result, last

        result, self._last = context.engine.write(tenant, run_unit)
        return result


def load_history(snapshot: Snapshot) -> History:
    """Return the history of undos, without what is out of reach.

    Entries out of reach are dropped, so the item stays small.
    """
    item = snapshot.load_item(_HISTORY, _HISTORY_NAME)
    if item is None:
        return History()
    history = msgspec.json.decode(item, type=History)
    oldest = snapshot.find_last_change() - REACH
    return History(
        undone=tuple(
            action for action in history.undone if action.parts and action.parts[0].last > oldest
        ),
        undo_parts=tuple(part for part in history.undo_parts if part.last > oldest),
    )


def save_history(unit: Unit, history: History) -> None:
    """Store the history of undos."""
    unit.put_item(_HISTORY, _HISTORY_NAME, msgspec.json.encode(history))


def load_action(snapshot: Snapshot, last: int) -> tuple[Part, ...]:
    """Return the parts of the action whose last change is at a position, the newest first."""
    parts: list[Part] = []
    while last:
        item = snapshot.load_item(ACTION, f"{last:015d}")
        if item is None:
            (change,) = snapshot.list_changes(last - 1, 1)
            is_new = change.type in ("created", "revised", "merged")
            parts.append(Part(last, last, change.version.version_id if is_new else 0))
            break
        first, previous, new_from = msgspec.json.decode(item, type=tuple[int, int, int])
        parts.append(Part(first, last, new_from))
        last = previous
    return tuple(parts)


def find_undoable(snapshot: Snapshot, history: History) -> tuple[Part, ...]:
    """Return the last action that is not undone. Raises NotFound if there is none within reach."""
    position = newest = snapshot.find_last_change()
    for part in history.skipped():
        if part.first <= position <= part.last:
            position = part.first - 1
    if not position:
        raise NotFound("nothing was changed yet" if not newest else "there is no earlier change")
    if position <= newest - REACH:
        raise NotFound(f"only the last {REACH:,} changes can be undone")
    return load_action(snapshot, position)


def load_changes(snapshot: Snapshot, parts: Iterable[Part]) -> list[tuple[Change, Part]]:
    """Return the changes of an action, the newest first, each with its part."""
    changes: list[tuple[Change, Part]] = []
    for part in parts:
        position, of_part = part.first - 1, list[Change]()
        while page := snapshot.list_changes(position, part.last - position):
            of_part += page
            position = page[-1].seq
            if position == part.last:
                break
        changes += [(change, part) for change in reversed(of_part)]
    return changes


def begin_undo(parts: tuple[Part, ...]) -> Action:
    """Return the action that undoes these parts; the history of undos is kept in each of its units."""

    def note(unit: Unit, part: Part) -> None:
        history = load_history(unit)
        undone = list(history.undone)
        if undone and undone[-1].parts == parts:
            undone[-1] = UndoneAction(parts=parts, by=(part, *undone[-1].by))
        else:
            undone = [*_close_redos(undone, history, parts), UndoneAction(parts=parts, by=(part,))]
        save_history(unit, History(undone=tuple(undone), undo_parts=(*history.undo_parts, part)))

    return Action(note)


def begin_redo(undone_action: UndoneAction) -> Action:
    """Return the action that does an undone action again."""

    def note(unit: Unit, part: Part) -> None:
        history = load_history(unit)
        undone = tuple(other for other in history.undone if other.parts != undone_action.parts)
        save_history(unit, History(undone=undone, undo_parts=(*history.undo_parts, part)))

    return Action(note)


def skip_action(unit: Unit, parts: tuple[Part, ...]) -> None:
    """Note an action of which nothing is left to undo."""
    history = load_history(unit)
    save_history(
        unit,
        History(
            undone=(*history.undone, UndoneAction(parts=parts, is_redoable=False)),
            undo_parts=history.undo_parts,
        ),
    )


def find_redoable(snapshot: Snapshot) -> UndoneAction:
    """Return the action that was undone last. Raises NotFound if something was written since."""
    history = load_history(snapshot)
    redoable = [action for action in history.undone if action.is_redoable and action.by]
    if not redoable or snapshot.find_last_change() != history.last_own():
        raise NotFound(
            "there is nothing to redo: nothing was undone, or something was written since"
        )
    return redoable[-1]


def _close_redos(
    undone: Sequence[UndoneAction], history: History, parts: tuple[Part, ...]
) -> Sequence[UndoneAction]:
    """Return the undone actions; if one that is newer is undone now, they cannot be redone any more."""
    if parts[0].last < history.last_own():
        return undone
    return [UndoneAction(parts=action.parts, by=action.by, is_redoable=False) for action in undone]

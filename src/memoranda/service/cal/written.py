"""What a RECALL says as it was written: without its shortcuts, and of which time it asks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.selection import Selection, StatusFilter
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.desugar import desugar_recall
from memoranda.standards.cal.language.syntax import (
    OrderBy,
    Project,
    Recall,
    Select,
    Subquery,
    WhereCondition,
)


def desugared(written: Recall) -> Recall:
    """Without shortcuts, but for those of subqueries: their turn comes when they run, or ABOUT could not fall back."""
    recall = desugar_recall(written)
    asked = (each for each in written.where if isinstance(each.value, Subquery))
    where = tuple(
        next(asked) if isinstance(each.value, Subquery) else each for each in recall.where
    )
    # THREAD FROM has no other spelling and stays; like every thread it is told from its beginning.
    first = (OrderBy(field="time"),) if recall.thread is not None else ()
    return replace(recall, where=where, stages=(*first, *recall.stages))


def about_searched(recall: Recall, lost: Sequence[WhereCondition]) -> Recall:
    """With the subject that ABOUT asks for as a text to search, if it is lost; a written condition stays."""
    about = next((each for each in lost if each.field == "subject"), None)
    if about is None:
        return recall
    place = recall.where.index(about)
    searched = WhereCondition(field="query", operator="=", value=about.value)
    return replace(recall, where=(*recall.where[:place], searched, *recall.where[place + 1 :]))


def standing(recall: Recall) -> StatusFilter:
    return (
        "unforgotten" if any(option.name == "superseded" for option in recall.options) else "live"
    )


def timed(selection: Selection, recall: Recall, now: Instant) -> Selection:
    """A context states what is true now, or what was true, or known, at an instant that the query names.

    Who asks for what was superseded, or for when something ends, is told of what is past and to come as well.
    """
    at, known_at = (
        times.time_option(recall.options, name, now) for name in (times.VALID_AT, times.KNOWN_AT)
    )
    if at is not None or known_at is not None:
        known = None if known_at is None else Instant(known_at)
        return structs.replace(selection, at=now if at is None else Instant(at), known_at=known)
    asks_for_ends = any(condition.field == "expires_at" for condition in recall.where)
    return structs.replace(
        selection, in_force=selection.status_filter == "live" and not asks_for_ends
    )


def tells(name: str, recall: Recall) -> bool:
    """Whether the answer depends on a field beyond the conditions."""
    return any(option.word == name for option in recall.options) or any(
        (isinstance(stage, Select) and name in stage.fields)
        or (
            isinstance(stage, Project)
            and name in (*(stage.content or ()), *(stage.attributes or ()))
        )
        for stage in recall.stages
    )

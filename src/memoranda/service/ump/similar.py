"""Memories that another one may replace: those that state nearly the same in other words.

They are found by the keyword index, without an embedding model, and only named to the caller. Agents and people, who
write one memory at a time, get them with the answer to each write (`remember`); programs ask for them (`similar`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec

from memoranda.errors import MemorandaError, describe_error
from memoranda.model.memory import Projection, Version, has_ended
from memoranda.model.selection import KeywordQuery, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import can_see, find_visible, resolve_name
from memoranda.service.core.views import is_intact, project, run_unless_damaged, scope_of
from memoranda.service.retrieve import restrict_selection
from memoranda.standards.ump import mapping
from memoranda.standards.ump.mapping import derive_view_id

# Results that are compared with the new memory, and similar memories that are returned.
_COMPARED: Final = 6
_RETURNED: Final = 3
# Characters: a longer text is no single fact.
_FACT_CHARS: Final = 400
# Characters of the text of a similar memory.
_SHOWN_CHARS: Final = 200

_log = logging.getLogger(__name__)


class SimilarMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that states nearly the same as another one."""

    id: str
    text: str


def similar(context: Context, access: Access, name: str) -> list[SimilarMemory]:
    """Return the visible memories that state nearly the same as one of any standard, at most three."""
    now, name = context.clock(), resolve_name(context, access, name)
    version, record = find_visible(context, access, name, now)
    is_gone = version.state.is_forgotten or has_ended(version.state, now)
    projection = None if is_gone else _load_projection(context, version)
    memories = () if projection is None else find_similar(context, access, projection, record["id"])
    entry = audit_entry(
        access,
        "get",
        now=now,
        targets=(record["id"], *(memory.id for memory in memories)),
        scope=scope_of(record),
        result="ok",
    )
    context.audit_read(version.tenant, entry)
    return list(memories)


def find_similar(
    context: Context, access: Access, projection: Projection, name: str
) -> tuple[SimilarMemory, ...]:
    """Return the visible memories of the same kind and project that state nearly the same as a stored one.

    Its write succeeded whether or not this search does, so nothing that fails here is an error.
    """
    if not 0 < len(projection.text) <= _FACT_CHARS or access.is_peer or "read" not in access.verbs:
        return ()
    try:
        return _search(context, access, projection, name)
    except (MemorandaError, OSError) as error:
        _log.warning("no search for similar memories: %s", describe_error(error))
        return ()


def _search(
    context: Context, access: Access, projection: Projection, name: str
) -> tuple[SimilarMemory, ...]:
    """Return the similar memories among the best keyword matches."""
    # Loaded here, because NumPy takes long to load.
    from memoranda.retrieval.newest import states_same_fact

    scope, now = projection.scope, context.clock()
    memories = []
    with context.engine.open_snapshot(scope.tenant) as snapshot:
        selection = restrict_selection(context, access, snapshot, Selection(space=scope.space))
        query = KeywordQuery(text=projection.text)
        matches = snapshot.match(
            selection, (query,), limit=_COMPARED, now=now, count_if_cheap=False
        )
        for version in snapshot.load_versions([hit.version_id for hit in matches.hits]):
            other = _load_projection(context, version)
            if other is None or other.kind != projection.kind or other.scope.user != scope.user:
                continue
            other_name = _name_of(version, other)
            # As in recall (UMP §5.3): a text that does not verify is dropped.
            is_shown = is_intact(version) and can_see(context, access, snapshot, version)
            if other_name != name and is_shown and states_same_fact(projection.text, other.text):
                memories.append(SimilarMemory(id=other_name, text=other.text[:_SHOWN_CHARS]))
    return tuple(memories[:_RETURNED])


def _load_projection(context: Context, version: Version) -> Projection | None:
    """Return the reading of a version; None if it is erased or damaged."""
    if version.state.erased:
        return None
    return run_unless_damaged(version, partial(project, context, version))


def _name_of(version: Version, projection: Projection) -> str:
    """Return the id of the record that shows a version."""
    if mapping.owns(version.document):
        return version.document.name
    return derive_view_id(projection.scope, version.document)

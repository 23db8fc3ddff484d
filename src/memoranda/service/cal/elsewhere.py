"""Where else a query finds something, for who found nothing in the namespace that was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import QueryError
from memoranda.service.cal.cal import Given, run
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE

# Each is asked once.
NAMESPACES_LIMIT: Final = 20


def elsewhere(
    context: Context,
    access: Access,
    /,
    given: Given,
    answer: Mapping[str, Any],
    *,
    params: Mapping[str, object] | None = None,
    namespace: str | None = None,
) -> dict[str, int]:
    """In which other namespaces a query has results, and how many, if its answer has none and no place was named."""
    if namespace is not None or answer.get("results") != [] or "project" in access.limits:
        return {}
    here = access.default_project or DEFAULT_NAMESPACE
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        spaces = [space or DEFAULT_NAMESPACE for space in snapshot.list_spaces()]
    found: dict[str, int] = {}
    for place in [each for each in spaces if each != here][:NAMESPACES_LIMIT]:
        try:
            other = run(context, access, given, params=params, namespace=place)
        except QueryError:
            # What is no namespace for CAL is none to look into.
            continue
        if count := len(other.get("results", ())):
            found[place] = count
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

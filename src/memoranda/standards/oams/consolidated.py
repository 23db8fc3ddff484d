"""Memories that a consolidation run wrote, and a digest that shows if one was changed since.

A digest over all but the run and the times stands in the memory itself. It also tells whether two runs came to the
same result.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.standards.oams.memory import DREAM_KEY, Memory, metadata_of

_TIMES: Final = ("created_at", "updated_at")


def synthetic_source(strategy: str, run_id: str) -> str:
    """Return the source that a result of several inputs names (section 5)."""
    return f"dream:{strategy}:{run_id}"


def digest_of(result: Memory) -> str:
    """Return a digest of a result that does not depend on the run and its time. Raises InvalidInput for bad JSON."""
    metadata = metadata_of(result)
    mark = {name: member for name, member in metadata[DREAM_KEY].items() if name != "digest"}
    content: dict[str, Any] = {
        name: member for name, member in result.items() if name not in _TIMES
    }
    content["metadata"] = {
        **{name: member for name, member in metadata.items() if name != "dream_run_id"},
        DREAM_KEY: mark,
    }
    if content.get("source_id") == synthetic_source(
        str(metadata["dream_strategy"]), str(metadata["dream_run_id"])
    ):
        del content["source_id"]
    return hashlib.sha256(json_text.canonical(content)).hexdigest()


def strategy_of(memory: Memory) -> str | None:
    """Return the strategy that made a memory; None if no run made it, or if somebody edited it since."""
    metadata = metadata_of(memory)
    strategy, mark = metadata.get("dream_strategy"), metadata.get(DREAM_KEY)
    if (
        not isinstance(mark, dict)
        or not isinstance(strategy, str)
        or "dream_run_id" not in metadata
    ):
        return None
    try:
        return strategy if mark.get("digest") == digest_of(memory) else None
    except InvalidInput:
        return None


def is_of_run(memory: Memory) -> bool:
    """Return True if a consolidation run of this or another implementation wrote a memory and nobody changed it."""
    metadata = metadata_of(memory)
    return "dream_strategy" in metadata and (
        DREAM_KEY not in metadata or strategy_of(memory) is not None
    )

"""The page docs/standards/mapping.md, generated from the mappings of the importers.

    python -m memoranda.bindings.files.importers.reference > docs/standards/mapping.md

A test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from memoranda.bindings.files.importers.registry import IMPORTERS

_HEAD = """\
# Fields of imported memories

<!-- Written by `python -m memoranda.bindings.files.importers.reference`; edit the importers instead. -->

For people who import from another system and miss a field.

Every imported memory becomes an OAMS memory and is visible through every standard. It keeps its original document,
which also holds all fields missing in these tables: `metadata.imported_from` has `system`, `id` and `document`.
Memories without a user are yours, in a scope named after the system. A name that cannot be a key or a part of a
namespace is percent-encoded, or replaced by a digest if it is too long. See [how to import](../howto/moving-in.md).
"""


def reference() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for importer in sorted(IMPORTERS.values(), key=lambda importer: importer.title.lower()):
        yield f"## {importer.title}\n"
        yield f"`--format {importer.name}`\n"
        yield "| source | Memoranda |\n|---|---|"
        yield from (f"| {their_field} | {ours} |" for their_field, ours in importer.mapping)
        yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())

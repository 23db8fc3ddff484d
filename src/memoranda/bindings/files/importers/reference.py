"""The page docs/standards/mapping.md, generated from the mappings of the importers.

    python -m memoranda.bindings.files.importers.reference > docs/standards/mapping.md

A test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from memoranda.bindings.files.importers.registry import IMPORTERS

_HEAD = """\
# What becomes of memories of other systems

<!-- Written by `python -m memoranda.bindings.files.importers.reference`; edit the importers instead. -->

Every one becomes a memory of OAMS, and is read through every standard. Whatever a table does not name stays in the
original document, which each memory keeps whole: `metadata.imported_from` has `system`, `id` and `document`. What
belongs to no user is yours, in a scope named after the system. A name that cannot be a key or a part of a namespace
stands there percent-encoded, or by its digest if it is too long. How to use it: [moving in](../howto/moving-in.md).
"""


def reference() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for importer in sorted(IMPORTERS.values(), key=lambda importer: importer.title.lower()):
        yield f"## {importer.title}\n"
        yield f"`--format {importer.name}`\n"
        yield "| there | here |\n|---|---|"
        yield from (f"| {theirs} | {ours} |" for theirs, ours in importer.mapping)
        yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())

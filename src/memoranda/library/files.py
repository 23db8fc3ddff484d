"""Files in another form: what needs no store, and so no `Memoranda`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memoranda.bindings.files.convert import Converted


def convert(
    source: str | Path,
    target: str | Path,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    owner: str | None = None,
    dry_run: bool = False,
) -> Converted:
    """Write what a file, a folder, an archive or a database holds in another form; what could not go, the report tells.

    The formats are those of `memoranda convert --from` and `--to`, where names and contents do not tell them.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "notes.csv")
    ...     _ = table.write_text("id,text,date\\n1,use pnpm,2026-01-15\\n")
    ...     convert(table, Path(folder, "notes.mg")).written
    1
    """
    from memoranda.bindings.files.convert import convert_file
    from memoranda.bindings.files.exchange import form_of

    return convert_file(
        str(source),
        str(target),
        target_format or form_of(str(target)),
        known=source_format,
        owner=owner,
        exported_at=time.time_ns() // 1_000_000,
        is_dry=dry_run,
    )

"""purge, reindex and migrate-store: maintenance of the whole store."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import counted, line, progress, progress_steps
from memoranda.opening import open_service
from memoranda.settings import without_password
from memoranda.stores import move_store


def purge(*, run: GivenRun) -> int:
    """Erase memories past their retention period now, of all owners. A server does this when each is due."""
    with closing(open_service(run.settings())) as service:
        count = service.purge()
    text = (
        f"{counted(count, 'version')} erased" if count else "Nothing was past its retention period"
    )
    run.answer({"erased": count}, lambda: line(text))
    return 0


def reindex(*, run: GivenRun) -> int:
    """Rebuild the search index of every owner from the documents.

    Searches and writes work meanwhile. After an interruption, run it again; it starts from the beginning.
    """
    with closing(open_service(run.settings())) as service, progress("indexing") as done:
        count = service.reindex(progress=done)
    run.answer({"indexed": count}, lambda: line(f"{counted(count, 'version')} indexed"))
    return 0


def migrate_store(
    source: Annotated[
        str, Parameter(name="FROM", help="The existing store: sqlite:///PATH or postgresql://…")
    ],
    target: Annotated[
        str, Parameter(name="TO", help="The new store: sqlite:///PATH or postgresql://…")
    ],
    /,
    *,
    run: GivenRun,
) -> None:
    """Copy the whole store to another database: memories with their ids, keys, credentials, vectors and audit log.

    Stop its servers first. All rows are compared afterwards, and the existing store stays unchanged; after an
    interruption the same command continues. The keys in the data directory (--data) work for both.
    """
    with progress_steps("copying", "comparing") as (copied, compared):
        rows = move_store(source, target, copied=copied, compared=compared)
    document = {"from": without_password(source), "to": without_password(target), "rows": rows}
    summary = (
        f"{counted(rows, 'row')} copied and compared; from now on use: --store {document['to']}"
    )
    run.answer(document, lambda: line(summary))

"""migrate-store: copy the whole store from one database to another."""

from __future__ import annotations

from typing import Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, progress_steps
from memoranda.settings import without_password
from memoranda.stores import move_store


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

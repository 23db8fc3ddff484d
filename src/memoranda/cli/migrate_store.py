"""migrate-store: the whole store from one database to another."""

from __future__ import annotations

from typing import Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, progress_steps
from memoranda.settings import without_password


def migrate_store(
    source: Annotated[str, Parameter(name="FROM", help="The store that is there: sqlite:///PATH or postgresql://…")],
    target: Annotated[str, Parameter(name="TO", help="Where there is none yet: sqlite:///PATH or postgresql://…")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Move the whole store to another database: memories with their ids, keys, credentials, vectors and audit log.

    Stop every server of it first. All rows are compared afterwards, and the store that is there stays as it is; who is
    interrupted calls the same again, and it goes on. The keys in the data directory (--data) serve both.
    """
    from memoranda.stores import move_store

    with progress_steps("copying", "comparing") as (copied, compared):
        rows = move_store(source, target, copied=copied, compared=compared)
    document = {"from": without_password(source), "to": without_password(target), "rows": rows}
    said = f"{counted(rows, 'row')} moved and compared; from now on: --store {document['to']}"
    run.answer(document, lambda: line(said))

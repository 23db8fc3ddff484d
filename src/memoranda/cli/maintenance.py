"""purge and reindex: maintenance of the whole store, which a server does without being asked."""

from __future__ import annotations

from contextlib import closing

from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, progress
from memoranda.opening import open_service


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

"""doctor looks for what is wrong and says how to mend it, and changes nothing; purge erases what is past its end;
reindex makes the word index anew.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memoranda import __version__
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line
from memoranda.errors import MemorandaError
from memoranda.settings import Settings

if TYPE_CHECKING:
    from memoranda.service.service import Service

# Below this the database could not even rewrite its own log.
_FREE_BYTES_LEAST = 64 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at; `mend` says what to do if it is not well."""

    what: str
    ok: bool
    seen: str
    mend: str = ""


def doctor(*, run: GivenRun) -> int:
    """Look at the data directory, the keys, the database and the audit log; say what is wrong and how to mend it."""
    settings = run.settings()
    findings = list(_findings(settings))
    well = all(each.ok for each in findings)
    document = {
        "ok": well,
        "version": __version__,
        "findings": [
            {"what": each.what, "ok": each.ok, "seen": each.seen, **({"mend": each.mend} if each.mend else {})}
            for each in findings
        ],
    }

    def say() -> None:
        for each in findings:
            line(f"{'ok   ' if each.ok else 'WRONG'}  {each.what}: {each.seen}", "" if each.ok else "bold red")
            if each.mend:
                line(f"       to mend it: {each.mend}")

    run.answer(document, say)
    return 0 if well else 1


def purge(*, run: GivenRun) -> int:
    """Erase now what is past its retention, of every owner of the store; a server does it by itself, on time."""
    from memoranda.cli.show import counted
    from memoranda.opening import open_service

    service = open_service(run.settings())
    try:
        count = service.purge()
    finally:
        service.close()
    run.answer({"erased": count}, lambda: line(f"{counted(count, 'version')} past its end erased"))
    return 0


def reindex(*, run: GivenRun) -> int:
    """Make the word index of every owner anew from the documents: what recall finds by.

    Searches go on meanwhile, and so may everything else. An interrupted run is begun again from the start.
    """
    from memoranda.cli.show import counted, progress
    from memoranda.opening import open_service

    service = open_service(run.settings())
    try:
        with progress("indexing") as done:
            count = service.reindex(progress=done)
    finally:
        service.close()
    run.answer({"indexed": count}, lambda: line(f"{counted(count, 'version')} indexed"))
    return 0


def _findings(settings: Settings) -> Iterator[Finding]:
    from memoranda.keys import OPERATOR_KEY_FILE
    from memoranda.opening import OWNER_CREDENTIAL_FILE

    yield Finding(what="version", ok=True, seen=f"Memoranda {__version__}, Python {platform.python_version()}")
    if not settings.home.is_dir():
        yield Finding(what="data directory", ok=True, seen=f"{settings.home} does not exist yet; first use creates it")
        return
    yield _private(settings.home, "data directory", 0o700)
    yield _space(settings.home)
    yield from (
        _private(path, path.name, 0o600)
        for path in (settings.home / OPERATOR_KEY_FILE, settings.home / OWNER_CREDENTIAL_FILE, settings.database_path)
        if path is not None and path.exists()
    )
    yield from _store(settings)


def _meaning(service: Service) -> Finding:
    """Look for vectors that are missing, and for what keeps them from being made."""
    if not service.context.meaning.is_on:
        seen = "memories are found by their words alone (memoranda models add brings a model)"
        return Finding(what="meaning", ok=True, seen=seen)
    from memoranda.cli.show import counted
    from memoranda.model.instant import format_instant

    queue, model = service.embedding, service.context.meaning.model
    count, aside, failure = queue.waiting(), queue.aside(), queue.failure()
    if failure is not None:
        return Finding(
            what="meaning",
            ok=False,
            seen=f"{counted(count, 'version')} without vectors, as embedding has failed since "
            f"{format_instant(failure.since)} (last {format_instant(failure.tried)}): {failure.error} ({model})",
            mend="set right what the message names, then run 'memoranda models embed'",
        )
    if aside:
        return Finding(
            what="meaning",
            ok=False,
            seen=f"{counted(aside, 'version')} could not be embedded and found by words alone ({model})",
            mend="run 'memoranda models embed', which tries again; the log of the server names the errors",
        )
    waiting = f"{counted(count, 'version')} to be given vectors by a server or 'memoranda models embed'"
    seen = waiting if count else "everything has its vectors"
    return Finding(what="meaning", ok=True, seen=f"{seen} ({model})")


def _clear(service: Service) -> Iterator[Finding]:
    """Vectors that PostgreSQL keeps in clear."""
    found = service.context.engine.vectors.in_clear()
    if found is None or not (found.is_wanted or found.copies):
        return
    what, seen = "vectors in clear", f"{found.copies} of {found.vectors} for pgvector {found.version}"
    if not found.is_wanted:
        mend = "start a server, which removes them, or set vector_search to pgvector"
        yield Finding(what=what, ok=False, seen=f"{seen}, though vector_search is process", mend=mend)
    elif found.orphans:
        mend = "start a server with vector_search set to process, which removes them all, and then with pgvector again"
        yield Finding(what=what, ok=False, seen=f"{found.orphans} are of what is not there any more", mend=mend)
    else:
        yield Finding(what=what, ok=True, seen=seen)


def _private(path: Path, what: str, mode: int) -> Finding:
    found = path.stat().st_mode & 0o777
    if found & 0o077:
        mend = f"chmod {mode:o} {path}"
        return Finding(what=what, ok=False, seen=f"{path} is open to others (mode {found:o})", mend=mend)
    return Finding(what=what, ok=True, seen=f"{path} is yours alone (mode {found:o})")


def _space(home: Path) -> Finding:
    free = shutil.disk_usage(home).free
    seen = f"{free // 1_048_576} MiB free"
    if free < _FREE_BYTES_LEAST:
        return Finding(what="disk", ok=False, seen=seen, mend="make room on this disk before writing more")
    return Finding(what="disk", ok=True, seen=seen)


def _credential(service: Service, settings: Settings) -> Finding:
    """Check the key with which the owner signs in."""
    from memoranda.opening import OWNER_CREDENTIAL_FILE, credential_problem

    path = settings.home / OWNER_CREDENTIAL_FILE
    if problem := credential_problem(service, path):
        mend = "run 'memoranda console' or 'memoranda serve', which make a new key"
        return Finding(what="owner's key", ok=False, seen=f"the key in {path} is not valid: {problem}", mend=mend)
    seen = f"the key in {path} is valid" if path.exists() else "none yet; the first 'memoranda serve' makes it"
    return Finding(what="owner's key", ok=True, seen=seen)


def _mend_losses(settings: Settings) -> str:
    from memoranda.storage.heads import losses_path

    assert settings.database_path is not None
    return (
        "the database lost the end of its log: import what is missing from an export, or restore a backup that is "
        f"newer; then delete {losses_path(settings.database_path)}"
    )


def _store(settings: Settings) -> Iterator[Finding]:
    from memoranda.cli.show import audit_entries, counted
    from memoranda.opening import open_service

    restore = "restore the data directory from a backup, or export what still reads and import it into a new one"
    try:
        service = open_service(settings, checks_queries=True)
    except MemorandaError as error:
        yield Finding(what="store", ok=False, seen=str(error), mend=restore if error.code == "corrupt" else "")
        return
    try:
        credential = _credential(service, settings)
        report = service.verify_store()
        due = service.due()
        meaning = [_meaning(service), *_clear(service)]
    except MemorandaError as error:
        yield Finding(what="store", ok=False, seen=str(error), mend=restore)
        return
    finally:
        service.close()
    yield Finding(what="operator", ok=True, seen=service.operator_did)
    yield credential
    damage = "; ".join(report.database[:3])
    yield Finding(what="database", ok=not damage, seen=damage or "sound", mend=restore if damage else "")
    lost = "; ".join(each.words for each in report.losses[:3])
    yield Finding(
        what="log", ok=not lost, seen=lost or "nothing is missing", mend=_mend_losses(settings) if lost else ""
    )
    index = "; ".join(report.index[:3])
    mend = "run 'memoranda reindex'" if index else ""
    yield Finding(what="word index", ok=not index, seen=index or "as the documents say", mend=mend)
    bad = len(report.unverified)
    yield Finding(
        what="signatures",
        ok=not bad,
        seen=f"{report.records - bad} of {report.records} records of {counted(report.owners, 'owner')} verify",
        mend="run 'memoranda verify' to see which do not, and restore those from an export" if bad else "",
    )
    yield Finding(what="retention", ok=True, seen=f"{due} past their end, to be erased" if due else "kept on time")
    yield from meaning
    chain = report.audit
    yield Finding(
        what="audit log",
        ok=chain.ok,
        seen=audit_entries(chain) if chain.ok else f"broken at entry {chain.broken_at}: {chain.reason}",
        mend="" if chain.ok else "someone changed the database by other means; compare it with a backup",
    )

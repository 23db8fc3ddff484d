"""doctor, purge and reindex: look for problems with the store, and repair what can be repaired at any time.

A check returns a `Diagnosis` and never raises: `doctor` must be able to report a broken store. Each problem says what
to do next (`mend`), in a command that can be copied. A new check is a function that is called from `_findings`; keep it
fast, because people run it when something is wrong.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memoranda import __version__
from memoranda.build import build_id, version_and_build
from memoranda.cli.run import GivenRun
from memoranda.cli.show import audit_entries, count_phrase, line, progress
from memoranda.errors import MemorandaError
from memoranda.keys import OPERATOR_KEY_FILE, OWNER_CREDENTIAL_FILE
from memoranda.model.instant import format_instant
from memoranda.opening import credential_problem, open_service
from memoranda.settings import Settings
from memoranda.storage.sqlite.heads import losses_path

if TYPE_CHECKING:
    from memoranda.service.service import Service
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.ump.signature import ChainReport

# Bytes free on the disk: with less, SQLite could not write its log back into the database.
_FREE_BYTES_NEEDED = 64 * 1_048_576
# Problems of one kind that are shown; `memoranda verify` shows all.
_PROBLEMS_SHOWN = 3
_RESTORE = "restore the data directory from a backup, or export what is still readable and import it into a new one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check; `mend` says how to fix a problem."""

    subject: str
    ok: bool
    seen: str
    mend: str = ""


def doctor(*, run: GivenRun) -> int:
    """Check the data directory, the keys, the database and the audit log; say how to fix each problem."""
    settings = run.settings()
    findings = list(_findings(settings))
    is_ok = all(finding.ok for finding in findings)
    document = {
        "ok": is_ok,
        "version": __version__,
        "build": build_id(),
        "findings": [
            {
                "what": finding.subject,
                "ok": finding.ok,
                "seen": finding.seen,
                **({"mend": finding.mend} if finding.mend else {}),
            }
            for finding in findings
        ],
    }

    def show() -> None:
        for finding in findings:
            verdict, style = ("ok   ", "") if finding.ok else ("WRONG", "bold red")
            line(f"{verdict}  {finding.subject}: {finding.seen}", style)
            if finding.mend:
                line(f"       to fix it: {finding.mend}")

    run.answer(document, show)
    return 0 if is_ok else 1


def _findings(settings: Settings) -> Iterator[Diagnosis]:
    yield Diagnosis(
        subject="version",
        ok=True,
        seen=f"Memoranda {version_and_build()}, Python {platform.python_version()}",
    )
    if not settings.home.is_dir():
        yield Diagnosis(
            subject="data directory",
            ok=True,
            seen=f"{settings.home} does not exist yet; first use creates it",
        )
        return
    yield _check_private(settings.home, "data directory", 0o700)
    yield _check_disk(settings.home)
    files = (
        settings.home / OPERATOR_KEY_FILE,
        settings.home / OWNER_CREDENTIAL_FILE,
        settings.database_path,
    )
    yield from (
        _check_private(path, path.name, 0o600)
        for path in files
        if path is not None and path.exists()
    )
    yield from _check_store(settings)


def _check_embeddings(service: Service) -> Diagnosis:
    """Report the embedding model, the versions without a vector, and what keeps them from getting one."""
    if not service.context.semantic_search.is_enabled:
        observation = "keyword search only; to add a model: memoranda models add"
        return Diagnosis(subject="semantic search", ok=True, seen=observation)
    queue, model = service.embedding, service.context.semantic_search.model
    count, aside, failure = queue.count_waiting(), queue.count_set_aside(), queue.failure()
    if failure is not None:
        since, last = format_instant(failure.since), format_instant(failure.last_try)
        return Diagnosis(
            subject="semantic search",
            ok=False,
            seen=f"embedding has failed since {since} (last {last}), {count_phrase(count, 'version')} without vectors: "
            f"{failure.error} ({model})",
            mend="correct what the message names, then run 'memoranda models embed'",
        )
    if aside:
        return Diagnosis(
            subject="semantic search",
            ok=False,
            seen=f"{count_phrase(aside, 'version')} could not be embedded; only keyword search finds them ({model})",
            mend="run 'memoranda models embed', which tries again; the server's log names the errors",
        )
    waiting = (
        f"{count_phrase(count, 'version')} without vectors of this model (new, or theirs are outdated); "
        "a server or 'memoranda models embed' makes them"
    )
    observation = waiting if count else "every version has its vectors"
    return Diagnosis(subject="semantic search", ok=True, seen=f"{observation} ({model})")


def _check_clear_vectors(service: Service) -> Iterator[Diagnosis]:
    """Report unencrypted vectors on PostgreSQL, which only pgvector needs."""
    vectors = service.context.engine.vectors.clear_copies()
    if vectors is None or not (vectors.is_wanted or vectors.copies):
        return
    subject = "unencrypted vectors"
    observation = f"{vectors.copies} of {vectors.vectors} for pgvector {vectors.version}"
    if not vectors.is_wanted:
        mend = "start a server, which removes them, or set vector_search to pgvector"
        yield Diagnosis(
            subject=subject,
            ok=False,
            seen=f"{observation}, though vector_search is process",
            mend=mend,
        )
    elif vectors.orphans:
        mend = "start a server with vector_search set to process, which removes them all, and then with pgvector again"
        yield Diagnosis(
            subject=subject,
            ok=False,
            seen=f"{vectors.orphans} belong to deleted memories",
            mend=mend,
        )
    else:
        yield Diagnosis(subject=subject, ok=True, seen=observation)


def _check_private(path: Path, subject: str, mode: int) -> Diagnosis:
    """Check that only its owner can open a file; `mode` is the mode that fixes it."""
    current = path.stat().st_mode & 0o777
    if current & 0o077:
        mend = f"chmod {mode:o} {path}"
        return Diagnosis(
            subject=subject,
            ok=False,
            seen=f"other users can open {path} (mode {current:o})",
            mend=mend,
        )
    return Diagnosis(subject=subject, ok=True, seen=f"only you can open {path} (mode {current:o})")


def _check_disk(home: Path) -> Diagnosis:
    free = shutil.disk_usage(home).free
    observation = f"{free // 1_048_576} MiB free"
    if free < _FREE_BYTES_NEEDED:
        return Diagnosis(
            subject="disk",
            ok=False,
            seen=observation,
            mend="free space on this disk before writing more",
        )
    return Diagnosis(subject="disk", ok=True, seen=observation)


def _check_credential(service: Service, settings: Settings) -> Diagnosis:
    """Check the API key with which the owner signs in."""
    path = settings.home / OWNER_CREDENTIAL_FILE
    if problem := credential_problem(service, path):
        mend = "run 'memoranda console' or 'memoranda serve', which make a new key"
        return Diagnosis(
            subject="owner's key",
            ok=False,
            seen=f"the key in {path} is not valid: {problem}",
            mend=mend,
        )
    observation = (
        f"the key in {path} is valid"
        if path.exists()
        else "none yet; the first 'memoranda serve' makes it"
    )
    return Diagnosis(subject="owner's key", ok=True, seen=observation)


def _check_keys(service: Service) -> Iterator[Diagnosis]:
    """Report the API keys that expire soon or have just expired, and were not replaced."""
    gate, now = service.gate, service.context.clock()
    expiring_keys = gate.expiring_keys()
    for expiring in expiring_keys[:_PROBLEMS_SHOWN]:
        key_id = expiring.key.key_id
        mend = f"replace it with 'memoranda key rotate {key_id}', or extend it with 'memoranda key change {key_id}'"
        if expiring.expires <= now:
            mend = f"make a new one with 'memoranda key add', or revoke it with 'memoranda key revoke {key_id}'"
        yield Diagnosis(subject="API key", ok=False, seen=expiring.describe(now), mend=mend)
    if (excess := len(expiring_keys) - _PROBLEMS_SHOWN) > 0:
        yield Diagnosis(
            subject="API keys",
            ok=False,
            seen=f"{excess} more expire soon, or have just expired",
            mend="see 'memoranda key list'",
        )
    if not expiring_keys:
        keys = gate.keys()
        count = sum(key.is_open(now) for key in keys)
        yield Diagnosis(
            subject="API keys",
            ok=True,
            seen=f"{count_phrase(count, 'key')}, none of which expires within two weeks",
        )


def _losses_remedy(settings: Settings) -> str:
    assert settings.database_path is not None
    return (
        "the database lost its latest changes: import them from an export, or restore a newer backup; "
        f"then delete {losses_path(settings.database_path)}"
    )


def _check_store(settings: Settings) -> Iterator[Diagnosis]:
    """Open the store and check everything in it."""
    try:
        service = open_service(settings, checks_queries=True)
    except MemorandaError as error:
        yield Diagnosis(
            subject="store",
            ok=False,
            seen=str(error),
            mend=_RESTORE if error.code == "corrupt" else "",
        )
        return
    try:
        credential = _check_credential(service, settings)
        keys = list(_check_keys(service))
        report = service.verify_store()
        overdue_count, doubt = service.count_due(), _find_clock_doubt(service)
        vectors = [_check_embeddings(service), *_check_clear_vectors(service)]
    except MemorandaError as error:
        yield Diagnosis(subject="store", ok=False, seen=str(error), mend=_RESTORE)
        return
    finally:
        service.close()
    yield Diagnosis(subject="operator", ok=True, seen=service.operator_did)
    yield credential
    yield from keys
    damage = "; ".join(report.database[:_PROBLEMS_SHOWN])
    yield Diagnosis(
        subject="database", ok=not damage, seen=damage or "intact", mend=_RESTORE if damage else ""
    )
    losses = "; ".join(loss.message for loss in report.losses[:_PROBLEMS_SHOWN])
    remedy = _losses_remedy(settings) if losses else ""
    yield Diagnosis(subject="log", ok=not losses, seen=losses or "complete", mend=remedy)
    problems = "; ".join(report.index[:_PROBLEMS_SHOWN])
    remedy = "run 'memoranda reindex'" if problems else ""
    summary = problems or "; ".join(report.outdated) or "up to date"
    yield Diagnosis(subject="search index", ok=not problems, seen=summary, mend=remedy)
    yield _signatures_finding(report)
    overdue = f"{count_phrase(overdue_count, 'version')} overdue; the next purge erases them"
    yield doubt or Diagnosis(
        subject="retention", ok=True, seen=overdue if overdue_count else "nothing overdue"
    )
    yield from vectors
    yield _audit_finding(report.audit)


def _find_clock_doubt(service: Service) -> Diagnosis | None:
    """Report a clock that erasures do not follow; None if they do."""
    clock = service.context.retention_clock
    doubt = None if clock is None else clock.doubt()
    if doubt is None:
        return None
    hours = doubt.ahead_ms / 3_600_000
    return Diagnosis(
        subject="retention",
        ok=False,
        seen=f"the clock jumped {hours:.1f} hours forward; erasures go by {format_instant(doubt.believed)} "
        f"until {format_instant(doubt.until)}",
        mend="set the clock of this machine right, or wait if it is right",
    )


def _signatures_finding(report: VerifyReport) -> Diagnosis:
    """Return how many signed records verify."""
    invalid = len(report.unverified)
    valid = report.records - invalid
    owners = count_phrase(report.owners, "owner")
    remedy = "run 'memoranda verify' to list the others, and restore them from an export"
    return Diagnosis(
        subject="signatures",
        ok=not invalid,
        seen=f"{valid} of {report.records} records of {owners} verify",
        mend=remedy if invalid else "",
    )


def _audit_finding(audit: ChainReport) -> Diagnosis:
    """Return whether the chain of the audit log is unbroken."""
    if audit.ok:
        return Diagnosis(subject="audit log", ok=True, seen=audit_entries(audit), mend="")
    return Diagnosis(
        subject="audit log",
        ok=False,
        seen=f"broken at entry {audit.broken_at}: {audit.reason}",
        mend="another program changed the database; compare it with a backup",
    )


def purge(*, run: GivenRun) -> int:
    """Erase memories past their retention period now, of all owners. A server does this when each is due."""
    with closing(open_service(run.settings())) as service:
        count = service.purge()
    text = (
        f"{count_phrase(count, 'version')} erased"
        if count
        else "Nothing was past its retention period"
    )
    run.answer({"erased": count}, lambda: line(text))
    return 0


def reindex(*, run: GivenRun) -> int:
    """Rebuild the search index of every owner from the documents.

    Searches and writes work meanwhile. After an interruption, run it again; it starts from the beginning.
    """
    with (
        closing(open_service(run.settings())) as service,
        progress("indexing", service.count_versions) as bar,
    ):
        count = service.reindex(progress=bar)
    run.answer({"indexed": count}, lambda: line(f"{count_phrase(count, 'version')} indexed"))
    return 0

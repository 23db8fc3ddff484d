"""Open a service from settings: its database, keys, models and limits.

The order of opening: folder, lock and upgrade of the database, key ring and master keys, operator's key, engine,
context, service. Errors before the service exists are raised as StoreUnavailable or StoreCorrupt with a sentence that
says what to do; a half-opened store is closed again. Only this module knows both settings and services.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memoranda.embedding.catalogue import (
    CATALOGUE,
    EMBEDDER,
    can_run,
    embedder_model,
    load_embedder,
)
from memoranda.embedding.embedder import Embedder
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import parse
from memoranda.encoding.lazy import LazyModule
from memoranda.errors import InvalidInput, MemorandaError, StoreUnavailable, Unauthorized
from memoranda.keys import (
    BACKUP_PREFIX,
    DID_FOLDER,
    OPERATOR_KEY_FILE,
    OWNER_CREDENTIAL_FILE,
    RESTORE_PREFIX,
    locked_folder,
    make_private_folder,
    operator_key,
    replace_private,
)
from memoranda.model.instant import Instant, parse_duration_ms
from memoranda.service.cal.session import CalSettings, Switches
from memoranda.service.core.access import ALL_VERBS, key_parts
from memoranda.service.core.audit import create_sealer
from memoranda.service.core.context import AuditReads, Context, SteadyClock
from memoranda.service.core.limits import Quotas
from memoranda.service.core.people import People, parse_rule
from memoranda.service.core.retention_clock import RetentionClock, read_uptime
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.openwop.secrets import (
    CommandResolver,
    EnvironmentResolver,
    FileResolver,
    Resolver,
    Vault,
)
from memoranda.service.service import Service
from memoranda.settings import Settings
from memoranda.standards.cal.printing.counter import make_counter
from memoranda.storage.engine.database import Database
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.engine.system import last_recorded
from memoranda.storage.sqlite.migrating import backup_before
from memoranda.stores import open_cipher, open_database

if TYPE_CHECKING:
    from memoranda import backup
    from memoranda.embedding import endpoint as endpoints
    from memoranda.service import verify
    from memoranda.standards.openwop.redaction import Policy
else:
    # Almost no command needs them.
    backup = LazyModule("memoranda.backup")
    endpoints = LazyModule("memoranda.embedding.endpoint")
    verify = LazyModule("memoranda.service.verify")

# Bytes of the largest database whose search index is rebuilt at once, which takes seconds.
REBUILT_AT_ONCE = 32 * 1_048_576
# Seconds for which a search waits at most for the vectors of its owner's last writes.
OWN_WRITES_SECONDS = 0.1
# The name under which the database keeps the operator's DID.
_OPERATOR = "operator"
_log = logging.getLogger(__name__)


def system_clock() -> Instant:
    """Return the current time, in whole milliseconds."""
    return Instant(time.time_ns() // 1_000_000)


def open_service(
    settings: Settings,
    *,
    patience_seconds: float = 0.0,
    embedder: Embedder | None = None,
    checks_queries: bool = False,
) -> Service:
    """Open the store that the settings name, creating what is missing.

    A question waits up to `patience_seconds` for the vectors of what was written before it. `embedder` replaces the one
    that the settings name. With `checks_queries` the database parses every query first, as a server wants it to: a
    query that it refuses is an error now, and not at the first request that needs it.

    `checks_queries` lets the database check every named query, which `doctor` and servers do at start.
    """
    make_private_folder(settings.home)
    path = settings.database_path
    if path is not None and path.parent != settings.home:
        make_private_folder(path.parent)
    upgrade = Upgrade(settings)
    database = open_database(settings, before_upgrade=upgrade.back_up)
    try:
        if checks_queries:
            database.check_queries()
        service = _service(settings, database, patience_seconds, embedder)
        if path is not None:
            engine = service.context.engine
            assert isinstance(engine, SqlEngine)
            engine.remove_copies = partial(_remove_leftovers, settings.home, path)
            engine.remove_copies()
        upgrade.rebuild_index(service)
    except BaseException:
        database.close()
        raise
    return service


def _remove_leftovers(home: Path, database: Path) -> None:
    """Remove the copies of killed backups and restores, in which memories would stay that are erased in the store."""
    if any(home.glob(f"{BACKUP_PREFIX}*")) or any(home.glob(f"{RESTORE_PREFIX}*")):
        backup.remove_leftovers(home, database)


class Upgrade:
    """The upgrade of a store on SQLite: the backup before it, and the search index after it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_upgraded = False

    def back_up(self, number: int) -> None:
        """Write a backup that the version before can restore."""
        path = self._settings.database_path
        assert path is not None
        target = backup_before(path, number)
        try:
            backup.back_up(self._settings, target)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"this store has to be upgraded, and no backup could be written first: {error.message}",
                path=target,
            ) from error
        self._is_upgraded = True
        _log.warning("a backup of the store before its upgrade is in %s", target)

    def rebuild_index(self, service: Service) -> None:
        """Rebuild outdated parts of the search index of a small store; a server rebuilds that of a large one."""
        if self._is_upgraded and service.context.engine.system.measure_size() <= REBUILT_AT_ONCE:
            verify.reindex(service.context, outdated=True)


def _service(
    settings: Settings, database: Database, patience_seconds: float, embedder: Embedder | None
) -> Service:
    documents = did_documents(settings.home / DID_FOLDER)
    operator = _operator_of(database, settings.home)
    engine = SqlEngine(
        database,
        create_sealer(settings.ump_version),
        open_cipher(settings),
        document_key=operator.derive(b"document seal"),
    )
    last_write = last_recorded(database)
    context = Context(
        engine=engine,
        operator=operator,
        did_documents=documents,
        clock=SteadyClock(lambda: system_clock(), last_write),
        retention_clock=RetentionClock(lambda: system_clock(), read_uptime, engine, last_write),
        ump_version="1.0" if settings.ump_version == "1.0" else "0.1",
        audit_reads=_audit_reads(settings.audit_reads),
        audit_retention_ms=_audit_retention(settings),
        run_retention_ms=_retention("run_retention", settings.run_retention),
        presets=frozenset(settings.compliance),
        grain_profile=settings.grain_profile,
        encrypts_users=settings.coverage is not None,
        encrypts_all=settings.coverage == "all",
        secrets=_vault(settings),
        cal=_cal_host(settings),
        semantic_search=_meaning(settings, patience_seconds)
        if embedder is None
        else SemanticSearch(
            embedder.model,
            lambda: embedder,
            patience_seconds=patience_seconds,
            own_writes_seconds=OWN_WRITES_SECONDS,
        ),
        people=_people(settings, operator.did),
        open_registration=settings.open_registration == "on",
        allowed_owners=settings.allowed_owners,
        webhooks_anywhere=settings.webhook_addresses == "any",
        quotas=Quotas(
            memories=settings.max_memories,
            bytes=settings.max_bytes,
            writes_per_minute=settings.writes_per_minute,
            runs_per_minute=settings.runs_per_minute,
            schedules=settings.max_schedules,
        ),
    )
    return Service(context)


def _people(settings: Settings, operator_did: str) -> People | None:
    """Return the rules for people who sign in with an account; None if no provider is set."""
    if not settings.oidc_issuer:
        return None
    rules = [parse_rule(text) for text in settings.oidc_roles]
    return People(rules, settings.owner or operator_did)


def _meaning(settings: Settings, patience_seconds: float) -> SemanticSearch:
    """Return the embedding provider: the installed model, a model of the catalogue, an endpoint, or none."""
    waits = {"patience_seconds": patience_seconds, "own_writes_seconds": OWN_WRITES_SECONDS}
    if settings.embedder == "off":
        return SemanticSearch()
    model_info = CATALOGUE.get(settings.embedder)
    if model_info is not None and model_info.kind == "embedder":
        # If it is not installed, searches use keywords, and `doctor` reports the reason.
        return SemanticSearch(
            embedder_model(model_info),
            lambda: load_embedder(model_info),
            **waits,
        )
    if settings.embedder != "auto":
        endpoint = endpoints.Endpoint(
            settings.embedder,
            settings.embedder_model,
            key=settings.embedder_key,
            prefix=settings.embedder_prefix,
        )
        return SemanticSearch(endpoint.model, lambda: endpoint, **waits)
    if not can_run(EMBEDDER):
        return SemanticSearch()
    return SemanticSearch(embedder_model(), load_embedder, **waits)


def _cal_host(settings: Settings) -> CalSettings:
    """Return the options of the query language."""
    return CalSettings(
        switches=Switches(master=settings.cal == "on", tier1=settings.cal_evolve != "off"),
        evolves_locally_only=settings.cal_evolve != "on",
        auto_toon=settings.cal_auto_toon == "on",
        dialect=settings.cal_dialect,
        counter=make_counter(settings.token_counter),
    )


def _vault(settings: Settings) -> Vault:
    """Return the sources of secrets for runs: first the user's command, then the tenant's folder, then the platform."""
    resolvers: list[Resolver] = []
    if settings.secret_command:
        resolvers.append(CommandResolver(settings.secret_command))
    if settings.secret_folder:
        resolvers.append(FileResolver(Path(settings.secret_folder).expanduser()))
    if settings.secret_prefix:
        resolvers.append(EnvironmentResolver(settings.secret_prefix))
    policy: Policy = (
        "redact"
        if settings.secrets == "redact"
        else "warn"
        if settings.secrets == "warn"
        else "off"
    )
    return Vault(resolvers, policy=policy, is_alone=settings.workers == 1)


def did_documents(folder: Path) -> dict[str, object]:
    """Read the DID documents in a folder, by id. Signatures of did:web are checked against them.

    Raises StoreUnavailable for a file that is not a DID document: a wrong one must not be left out silently.
    """
    documents: dict[str, object] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            document = parse(path.read_bytes())
            documents[document["id"]] = document
        except (OSError, KeyError, TypeError, MemorandaError):
            raise StoreUnavailable(
                "this is not a DID document; correct or remove it", path=path
            ) from None
    return documents


def _audit_reads(value: str) -> AuditReads:
    return "durable" if value == "durable" else "deferred"


# HIPAA asks for six years of what documents access (45 CFR 164.316(b)(2)(i)).
AUDIT_RETENTION = "P365D"
HIPAA_AUDIT_RETENTION = "P2192D"


def _audit_retention(settings: Settings) -> int | None:
    value = settings.audit_retention or (
        HIPAA_AUDIT_RETENTION if "hipaa" in settings.compliance else AUDIT_RETENTION
    )
    return _retention("audit_retention", value)


def _retention(name: str, value: str) -> int | None:
    if value == "forever":
        return None
    try:
        return parse_duration_ms(value)
    except ValueError:
        raise InvalidInput(f"{name}: {value!r} is not a duration such as P90D") from None


def _operator_of(database: Database, home: Path) -> SigningKey:
    """Return the operator's key, which signs the records of this store; it is made for a new store only.

    Raises StoreUnavailable if the key of an existing store is missing, or if it is another operator's.
    """
    path = home / OPERATOR_KEY_FILE
    with database.open_snapshot() as connection:
        row = connection.query_one("meta_get", {"name": _OPERATOR})
        is_used = bool(connection.query("tenant_list", {}))
    signer = None if row is None else bytes(row[0]).decode()
    if not path.exists() and (signer is not None or is_used):
        raise StoreUnavailable(
            f"the operator's key is missing, and the memories here were signed with it ({signer or 'an unknown key'}): "
            "put it back from a backup. Without it they are not readable as yours, so no new one is made in its place",
            path=path,
        )
    key = operator_key(home)
    if signer is None:
        identity = {"name": _OPERATOR, "value": key.did.encode()}
        database.write(lambda connection: connection.execute("meta_claim", identity))
    elif signer != key.did:
        raise StoreUnavailable(
            f"this is another operator's key ({key.did}): the memories here were identity by {signer}. Put that key "
            "back from a backup, or use another data directory (--data)",
            path=path,
        )
    return key


def signing_key(settings: Settings) -> SigningKey:
    """Return the operator's key for signing files; it is made only if there is no store yet.

    Raises StoreUnavailable.
    """
    path = settings.database_path
    if (settings.home / OPERATOR_KEY_FILE).exists() or path is None or not path.exists():
        return operator_key(settings.home)
    service = open_service(settings)
    service.close()
    return service.context.operator


def owner_credential(
    service: Service, settings: Settings, say: Callable[[str], object] = _log.warning
) -> Path:
    """Return the file with the local owner's API key, readable by its owner alone.

    The key is made if there is none, and again if the one in the file is not valid any more; `say` is told of that.

    Used by `serve` and `console`. `say` gets one sentence if the key had to be replaced.
    """
    path = settings.home / OWNER_CREDENTIAL_FILE
    with locked_folder(settings.home):
        problem = credential_problem(service, path)
        if path.exists() and not problem:
            return path
        tenant = settings.owner or service.operator_did
        key = service.gate.add_key("owner", tenant=tenant, scopes=tuple(sorted(ALL_VERBS)))
        replace_private(path, key + "\n")
    if problem:
        say(
            f"the key in {path} is not valid any more ({problem}), so a new one was made: programs read it there"
        )
    return path


def replace_credential(settings: Settings, key: str) -> Path:
    """Store a key in the owner's file, and return the file."""
    path = settings.home / OWNER_CREDENTIAL_FILE
    with locked_folder(settings.home):
        replace_private(path, key + "\n")
    return path


def credential_problem(service: Service, path: Path) -> str:
    """Return why the key in the owner's file is not valid; empty if it is, or if there is no file yet."""
    if not path.exists():
        return ""
    try:
        access = service.gate.authenticate(_stored_key(path))
    except Unauthorized as error:
        return error.message
    return "" if access.credential.startswith("key:") else "it is no API key"


def credential_id(settings: Settings) -> str | None:
    """Return the id of the key in the owner's file, if there is a file."""
    path = settings.home / OWNER_CREDENTIAL_FILE
    return key_parts(_stored_key(path))[0] if path.exists() else None


def _stored_key(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()

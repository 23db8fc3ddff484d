"""Wiring: settings become an open service; and `Memoranda`, the library's front door."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memoranda.embedding.embedder import Embedder, EmbedTexts, of_callable
from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import InvalidInput, MemorandaError, StoreUnavailable
from memoranda.keys import MasterKeyFile, refuse_readable_by_others, write_private_once
from memoranda.model.instant import Instant, parse_duration_ms
from memoranda.service.cal.session import Host, Switches
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.service.core.audit import sealer
from memoranda.service.core.clock import SteadyClock
from memoranda.service.core.context import AuditReads, Context
from memoranda.service.core.meaning import Meaning
from memoranda.service.core.quotas import Quotas
from memoranda.service.openwop.secrets import CommandResolver, EnvironmentResolver, FileResolver, Resolver, Vault
from memoranda.service.service import Service
from memoranda.service.ump.ump import Ump
from memoranda.settings import Settings, load_settings, sqlite_path
from memoranda.standards.cal.printing.counter import counter_named
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import (
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
)
from memoranda.storage.cipher import Cipher, Coverage, NoCipher, RingCipher
from memoranda.storage.key_ring import SqliteKeyRing
from memoranda.storage.sql_engine import SqlEngine
from memoranda.storage.sqlite import SqliteDatabase
from memoranda.storage.system import last_recorded

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Cal
    from memoranda.service.consolidation.dreams import DreamRun
    from memoranda.service.consolidation.runs import Undone
    from memoranda.service.core.ranking import Ranked
    from memoranda.service.exchange import Report
    from memoranda.service.oams.memories import Stored as StoredMemory
    from memoranda.service.oams.recall import Page
    from memoranda.service.oams.views import Shown
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.redact import Suspect
    from memoranda.service.ump.remember import Remembered
    from memoranda.service.ump.revise import Forgotten, Revised
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.oams.memory import Memory
    from memoranda.standards.openwop.redaction import Policy
    from memoranda.standards.ump.rehydrate import Rehydrated

OPERATOR_KEY_FILE = "operator.key"
OWNER_CREDENTIAL_FILE = "owner.credential"
MASTER_KEY_FILE = "master.key"
KEY_RING_FILE = "memoranda.keys"
DID_FOLDER = "dids"
# Under which name the database says whose store it is.
_OPERATOR = "operator"
# Whoever wrote something and asks at once is the same person, mostly: so long the question waits for the vectors.
PATIENCE_SECONDS = 2.0


def system_clock() -> Instant:
    """Now, in whole milliseconds."""
    return Instant(time.time_ns() // 1_000_000)


def open_service(settings: Settings, *, patience_seconds: float = 0.0, embedder: Embedder | None = None) -> Service:
    """Open the store that the settings name, creating what is missing.

    A question waits so long for what was written before it to have its vectors; by another embedder than the settings
    name, if one is given.
    """
    _make_private_folder(settings.home)
    path = settings.database_path
    if path is not None and path.parent != settings.home:
        _make_private_folder(path.parent)
    database = SqliteDatabase(path, refuses_unrecorded=settings.audit_unwritable == "refuse")
    try:
        return _service(settings, database, patience_seconds, embedder)
    except BaseException:
        database.close()
        raise


def _service(
    settings: Settings, database: SqliteDatabase, patience_seconds: float, embedder: Embedder | None
) -> Service:
    documents = did_documents(settings.home / DID_FOLDER)
    operator = _operator_of(database, settings.home)
    context = Context(
        engine=SqlEngine(
            database,
            sealer(settings.ump_version),
            _cipher(settings, settings.database_path),
            document_key=operator.derive(b"document seal"),
        ),
        operator=operator,
        did_documents=documents,
        clock=SteadyClock(lambda: system_clock(), last_recorded(database)),
        ump_version="1.0" if settings.ump_version == "1.0" else "0.1",
        audit_reads=_audit_reads(settings.audit_reads),
        audit_retention_ms=_audit_retention(settings),
        run_retention_ms=_retention("run_retention", settings.run_retention),
        presets=frozenset(settings.compliance),
        grain_profile=settings.grain_profile,
        encrypts_users=settings.encryption != "off",
        encrypts_all=settings.encryption == "all",
        secrets=_vault(settings),
        cal=_cal_host(settings),
        meaning=_meaning(settings, patience_seconds)
        if embedder is None
        else Meaning(embedder.model, lambda: embedder, patience_seconds=patience_seconds),
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


def _meaning(settings: Settings, patience_seconds: float) -> Meaning:
    """What tells the meaning of texts: the model of this installation, an endpoint, or nothing."""
    if settings.embedder == "off":
        return Meaning()
    if settings.embedder != "auto":
        from memoranda.embedding.endpoint import Endpoint

        endpoint = Endpoint(
            settings.embedder, settings.embedder_model, key=settings.embedder_key, prefix=settings.embedder_prefix
        )
        return Meaning(endpoint.model, lambda: endpoint, patience_seconds=patience_seconds)
    from memoranda.embedding.catalogue import EMBEDDER, can_run, embedder_model, load_embedder

    if not can_run(EMBEDDER):
        return Meaning()
    return Meaning(embedder_model(), load_embedder, patience_seconds=patience_seconds)


def _cal_host(settings: Settings) -> Host:
    """What the settings say about the query language."""
    return Host(
        switches=Switches(master=settings.cal == "on", tier1=settings.cal_evolve != "off"),
        evolves_locally_only=settings.cal_evolve != "on",
        auto_toon=settings.cal_auto_toon == "on",
        counter=counter_named(settings.token_counter),
    )


def _vault(settings: Settings) -> Vault:
    """Where runs get secrets from: the user's command first, then the tenant's folder, then the platform."""
    resolvers: list[Resolver] = []
    if settings.secret_command:
        resolvers.append(CommandResolver(settings.secret_command))
    if settings.secret_folder:
        resolvers.append(FileResolver(Path(settings.secret_folder).expanduser()))
    if settings.secret_prefix:
        resolvers.append(EnvironmentResolver(settings.secret_prefix))
    policy: Policy = "redact" if settings.secrets == "redact" else "warn" if settings.secrets == "warn" else "off"
    return Vault(resolvers, policy=policy, is_alone=settings.workers == 1)


def _cipher(settings: Settings, database: Path | None) -> Cipher:
    """The key ring beside the database. It is opened even when nothing new is encrypted: something may be."""
    ring = None if database is None else database.with_name(KEY_RING_FILE)
    if settings.encryption == "off" and (ring is None or not ring.exists()):
        return NoCipher()
    coverage: Coverage | None = None
    if settings.encryption in ("users", "all"):
        coverage = "all" if settings.encryption == "all" else "users"
    return RingCipher(SqliteKeyRing(ring), MasterKeyFile(settings.home / MASTER_KEY_FILE if ring else None), coverage)


def did_documents(folder: Path) -> dict[str, object]:
    """The DID documents that the owner put there, by their id: signatures of did:web are checked against them."""
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            document = parse(path.read_bytes())
            found[document["id"]] = document
        except (OSError, KeyError, TypeError, MemorandaError):
            raise StoreUnavailable(f"{path} is not a DID document; mend it or take it away") from None
    return found


def _audit_reads(value: str) -> AuditReads:
    return "durable" if value == "durable" else "deferred"


# HIPAA asks for six years of what documents access (45 CFR 164.316(b)(2)(i)).
AUDIT_RETENTION = "P365D"
HIPAA_AUDIT_RETENTION = "P2192D"


def _audit_retention(settings: Settings) -> int | None:
    value = settings.audit_retention or (HIPAA_AUDIT_RETENTION if "hipaa" in settings.compliance else AUDIT_RETENTION)
    return _retention("audit_retention", value)


def _retention(name: str, value: str) -> int | None:
    if value == "forever":
        return None
    try:
        return parse_duration_ms(value)
    except ValueError:
        raise InvalidInput(f"{name}: {value!r} is not a duration such as P90D") from None


def operator_key(home: Path) -> SigningKey:
    """The operator's Ed25519 key: made on first use, readable by its owner alone."""
    path = home / OPERATOR_KEY_FILE
    if not path.exists():
        _make_private_folder(home)
        seed = base64_encode(secrets.token_bytes(32))
        write_private_once(path, dump_pretty({"kind": "ed25519", "seed": seed}) + "\n")
    refuse_readable_by_others(path)
    try:
        return SigningKey(base64_decode(parse(path.read_bytes())["seed"]))
    except (KeyError, TypeError, ValueError, MemorandaError):
        raise StoreUnavailable(f"{path} is not an operator key any more; restore it from a backup") from None


def _operator_of(database: SqliteDatabase, home: Path) -> SigningKey:
    """The key that signs for this store. Beside one that another signed for, none is made and none other is used."""
    path = home / OPERATOR_KEY_FILE
    with database.reading() as connection:
        row = connection.row("meta_get", {"name": _OPERATOR})
        is_used = bool(connection.rows("tenant_list", {}))
    signer = None if row is None else bytes(row[0]).decode()
    if not path.exists() and (signer is not None or is_used):
        raise StoreUnavailable(
            f"{path} is missing, and the memories here were signed with it ({signer or 'by an unknown key'}): put "
            "it back from a backup. Without it they are not readable as yours, so no new one is made in its place"
        )
    key = operator_key(home)
    if signer is None:
        signed = {"name": _OPERATOR, "value": key.did.encode()}
        database.write(lambda connection: connection.run("meta_claim", signed))
    elif signer != key.did:
        raise StoreUnavailable(
            f"{path} is another operator's ({key.did}): the memories here were signed by {signer}. Put that key "
            "back from a backup, or use another data directory (--data)"
        )
    return key


def signing_key(settings: Settings) -> SigningKey:
    """The operator's key for whoever signs files: made only where there is no store that another signed for."""
    path = settings.database_path
    if (settings.home / OPERATOR_KEY_FILE).exists() or path is None or not path.exists():
        return operator_key(settings.home)
    service = open_service(settings)
    service.close()
    return service.context.operator


def owner_credential(service: Service, settings: Settings) -> Path:
    """The file with the API key of the local owner: made on first use, readable by its owner alone."""
    path = settings.home / OWNER_CREDENTIAL_FILE
    if not path.exists():
        tenant = settings.owner or service.operator_did
        key = service.gate.add_key("owner", tenant=tenant, scopes=tuple(sorted(ALL_VERBS)))
        write_private_once(path, key + "\n")
    return path


def _make_private_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"cannot create the folder {folder}: {error.strerror}") from error


class Memoranda:
    """One person's memory: the verbs, bound to an owner.

    >>> with Memoranda.open(":memory:") as m:
    ...     remembered = m.remember("use pnpm, never npm", kind="procedural", project="p")
    ...     m.recall("pnpm", project="p")[0].record["body"]["text"]
    'use pnpm, never npm'
    """

    def __init__(self, service: Service, access: Access) -> None:
        self.service = service
        self.access = access

    @classmethod
    def open(
        cls,
        path_or_url: str | Path | None = None,
        *,
        owner: str | None = None,
        embedder: tuple[str, EmbedTexts] | None = None,
    ) -> Self:
        """Open a data directory, a `.db` file, `sqlite:///PATH`, or ":memory:"; the default data directory if none.

        `embedder`: the name of a model of your own, and a function from texts to as many lists of numbers.
        """
        settings = load_settings(**_place(path_or_url))
        own = None if embedder is None else of_callable(*embedder)
        service = open_service(settings, patience_seconds=PATIENCE_SECONDS, embedder=own)
        return cls(service, service.gate.local(owner or settings.owner or None))

    @cached_property
    def ump(self) -> Ump[Access]:
        """UMP's verbs as they are, with its own requests."""
        return Ump(self.service.context, self.access)

    @cached_property
    def grains(self) -> Grains[Access]:
        """The same memory through OMS.

        >>> with Memoranda.open(":memory:") as m:
        ...     tea = {"type": "belief", "subject": "alice", "relation": "prefers", "object": "tea", "confidence": 0.9}
        ...     stored = m.grains.put({**tea, "created_at": "2026-01-15T10:00:00Z"})
        ...     m.grains.get(stored.address).grain.fields["object"]
        'tea'
        """
        from memoranda.service.oms.oms import Grains

        return Grains(self.service.context, self.access)

    @cached_property
    def openwop(self) -> Openwop[Access]:
        """The same memory through openwop."""
        from memoranda.service.openwop.openwop import Openwop

        return Openwop(self.service.context, self.access)

    @cached_property
    def oams(self) -> Memories:
        """The same memory through OAMS."""
        return Memories(self.service, self.access)

    @cached_property
    def cal(self) -> Cal[Access]:
        """The same memory through CAL: `m.cal(query, params)`, and its other verbs.

        `options`: cursor, namespace, user; approve=True for ADD, SUPERSEDE and REVERT.

        >>> with Memoranda.open(":memory:") as m:
        ...     tea = {"type": "belief", "subject": "alice", "relation": "prefers", "object": "tea", "confidence": 0.9}
        ...     stored = m.grains.put({**tea, "created_at": "2026-01-15T10:00:00Z"})
        ...     m.cal("RECALL beliefs ABOUT $who AS text", {"who": "alice"})["formatted"]
        '[belief] alice prefers tea (0.9)'
        """
        from memoranda.service.cal.cal import Cal

        return Cal(self.service.context, self.access)

    @property
    def owner(self) -> str:
        return self.access.default_tenant

    def remember(
        self,
        memory: str | Mapping[str, Any],
        *,
        kind: str = "semantic",
        project: str | None = None,
        structured: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Remembered:
        """Remember a text, or a whole draft record. Other record fields can be given by name."""
        draft = _draft(memory, kind, project, structured, fields) if isinstance(memory, str) else dict(memory)
        return self.ump.remember(self.ump.with_defaults(draft, method="library"))

    def recall(self, query: str, *, limit: int = 8, prefer: Sequence[str] = (), **where: Any) -> list[Ranked]:
        """The best memories for a query. `where`: project, user, agent, session, visibility, kind, valid_at …

        Of a project come its own memories and those of none, of a user the same; agent and session only rank, unless
        `strict=True`: then every one of these must match exactly. `explain=True` says what each score is made of,
        `words_only=True` leaves meaning out, `rerank=True` reads the best ones once more, `floor=False` leaves nothing
        out for being too far away, `weights={"date": 0}` changes what a part counts. `asked_at` and `zone` say when and
        where it is asked, for "yesterday" and "last May"; by default now, in the time zone of this machine.
        """
        return self.ump.recall(RecallRequest.parse(_asked(query, limit, prefer, where)))

    def for_prompt(
        self,
        query: str,
        *,
        limit: int = 12,
        max_chars: int = 500,
        budget_chars: int | None = None,
        **where: Any,
    ) -> Rehydrated:
        """Recalled memories as one framed, neutralised block for a model's context."""
        options = {"max_chars": max_chars, "max_visibility": where.pop("max_visibility", "public")}
        if budget_chars is not None:
            options["budget_chars"] = budget_chars
        return self.ump.for_prompt(RehydrateRequest.parse({**_asked(query, limit, (), where), **options}))

    def get(self, name: str) -> Record:
        """One record by its id."""
        return self.ump.get(name)

    def history(self, name: str) -> list[dict[str, object]]:
        """All versions of a memory, oldest first."""
        return self.ump.history(name)

    def revise(self, name: str, text: str | None = None, **patch: Any) -> Revised:
        """Replace a memory's text, or patch body, lifecycle, relations or time."""
        if text is not None:
            patch["body"] = {"text": text}
        return self.ump.revise(ReviseRequest.parse({"id": name, "patch": patch}))

    def forget(self, name: str, *, reason: str = "", hard: bool = False) -> Forgotten:
        """Tombstone a memory, or erase it for good."""
        return self.ump.forget(ForgetRequest.parse({"id": name, "reason": reason, "hard": hard}))

    def suspects(self) -> list[Suspect]:
        """Memories that look as if they held a secret."""
        return list(self.ump.suspects())

    def redact(self, name: str) -> str:
        """Take out of a memory what looks like a secret, for good; the id that it has now."""
        return self.ump.redact(name)

    def feedback(self, name: str, outcome: str, *, session: str | None = None) -> None:
        """Say what became of a recalled memory: followed, overridden, ignored or contradicted."""
        asked = {"id": name, "outcome": outcome, **({"session": session} if session else {})}
        self.ump.feedback(FeedbackRequest.parse(asked))

    def export(
        self, *, project: str | None = None, history: bool = True, report: Report | None = None
    ) -> Iterator[Record]:
        """Every record that may leave; `report` is told what stays behind, and why."""
        return self.ump.export(project=project, history=history, report=report)

    def import_records(self, records: Iterable[object], *, restore: bool = False) -> Report:
        """Take records in; `restore` also those that were forgotten here."""
        from memoranda.service.exchange import numbered

        return self.ump.import_items(numbered("ump", records), restore=restore)

    def verify(self) -> VerifyReport:
        """Check every signature, the audit chain and the database."""
        return self.ump.verify()

    def consolidate(
        self, strategy: str, *, namespace: str | None = None, dry_run: bool = True, **options: Any
    ) -> DreamRun:
        """What a strategy makes of a namespace: shown, or written too. `options`: those of `Options`."""
        from memoranda.consolidation.strategies.dream import Options

        place = self.oams.namespace(namespace)
        return self.oams.verbs.consolidate(place, strategy, is_dry=dry_run, options=Options(**options))

    def undo(self, run_id: str) -> Undone:
        """Take back what a run of `consolidate` wrote."""
        return self.oams.verbs.undo(run_id)

    def close(self) -> None:
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Memories:
    """One person's memory as OAMS memories, for a program: keyword arguments become requests.

    A namespace is named whole (`user-x123ab:personal`), or by its scope alone if it is the owner's own; without one,
    the owner's default namespace is meant. `verbs` are OAMS's own, with its own requests.

    >>> with Memoranda.open(":memory:") as m:
    ...     stored = m.oams.store("tea", "green, no sugar", tags=["Drinks"], source_id="slack:CH123:1700000000.1")
    ...     m.oams.recall("with or without sugar?")[0]["value"]
    'green, no sugar'
    """

    def __init__(self, service: Service, access: Access) -> None:
        from memoranda.service.oams.oams import Oams

        self.verbs = Oams(service.context, access)
        self.namespace = self.verbs.namespace

    @property
    def namespaces(self) -> Sequence[str]:
        """Where there is anything."""
        return self.verbs.namespaces()

    def store(
        self,
        key: str,
        value: str,
        *,
        namespace: str | None = None,
        tags: Sequence[str] | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
        **fields: Any,
    ) -> StoredMemory:
        """Write a memory: a new one, or the next version of what is under the key. `fields`: metadata, source_id …"""
        memory = {"key": key, "namespace": str(self.namespace(namespace)), "value": value, **fields}
        if tags is not None:
            memory["tags"] = [*tags]
        return self.verbs.store(memory, if_match=if_match, if_absent=if_absent)

    def batch_store(
        self, memories: Sequence[Mapping[str, Any]], *, namespace: str | None = None
    ) -> Sequence[StoredMemory]:
        """Write many memories, all or none; those that name no namespace go into this one."""
        place = str(self.namespace(namespace))
        return self.verbs.batch_store([{"namespace": place, **memory} for memory in memories])

    def recall(
        self, query: str, *, namespace: str | Sequence[str] | None = None, k: int = 8, **where: Any
    ) -> Sequence[Memory]:
        """The best memories for a query, each with `metadata.score`. `where`: tags, since, until."""
        from memoranda.standards.oams.requests import RecallRequest

        named = [namespace] if namespace is None or isinstance(namespace, str) else namespace
        asked = {"query": query, "namespaces": [str(self.namespace(each)) for each in named], "k": k, **where}
        return self.verbs.recall(RecallRequest.parse(asked))

    def get(self, key: str, *, namespace: str | None = None) -> Shown:
        """One memory by its key, with the tag of its version."""
        return self.verbs.get(self.namespace(namespace), key)

    def forget(self, key: str, *, namespace: str | None = None, if_match: str | None = None) -> None:
        """Take a memory out of every answer."""
        self.verbs.forget(self.namespace(namespace), key, if_match=if_match)

    def list(self, *, namespace: str | None = None, **where: Any) -> Page:
        """A page of a namespace, last updated first. `where`: limit, cursor, since, tags."""
        from memoranda.standards.oams.requests import ListRequest

        asked = {"namespace": str(self.namespace(namespace)), **where}
        return self.verbs.list_memories(ListRequest.parse(asked))


def _place(path_or_url: str | Path | None) -> dict[str, Any]:
    if path_or_url is None:
        return {}
    text = str(path_or_url)
    if text == ":memory:":
        return {"store": "sqlite:///:memory:"}
    if "://" in text:
        path = sqlite_path(text)
        return {"store": text, **({"home": path.parent} if path is not None else {})}
    path = Path(text).expanduser()
    if path.suffix in (".db", ".sqlite"):
        return {"store": f"sqlite:///{path}", "home": path.parent}
    return {"home": path}


def _draft(
    text: str, kind: str, project: str | None, structured: dict[str, Any] | None, fields: dict[str, Any]
) -> dict[str, Any]:
    body: dict[str, Any] = {"text": text, **({"structured": structured} if structured else {})}
    scope = {**({"project": project} if project else {}), **fields.pop("scope", {})}
    return {"kind": kind, "body": body, "scope": scope, **fields}


_FILTER_FIELDS = ("valid_at", "known_at", "status")
_SCOPE_FIELDS = ("owner", "project", "user", "agent", "session", "visibility")
_HINTS = ("asked_at", "zone", "weights", "words_only", "floor", "rerank", "explain")


def _asked(query: str, limit: int, prefer: Sequence[str], where: dict[str, Any]) -> dict[str, Any]:
    """A recall request from keyword arguments; None means "not asked for"."""
    given = {name: value for name, value in where.items() if value is not None}
    if unknown := set(given) - {*_SCOPE_FIELDS, *_FILTER_FIELDS, *_HINTS, "kind", "strict"}:
        raise InvalidInput(f"unknown filter: {min(unknown)}")
    filters = {name: given[name] for name in _FILTER_FIELDS if name in given}
    if given.get("strict"):
        filters["scope"] = "strict"
    if "kind" in given:
        filters["kind"] = [given["kind"]] if isinstance(given["kind"], str) else list(given["kind"])
    asked: dict[str, Any] = {
        "query": query,
        "limit": limit,
        "scope": {name: given[name] for name in _SCOPE_FIELDS if name in given},
        "filter": filters,
    }
    hints: dict[str, Any] = {name: given[name] for name in _HINTS if name in given}
    if prefer:
        hints["prefer"] = list(prefer)
    return {**asked, "ranking_hints": hints} if hints else asked

"""Settings: from memoranda.toml in the data directory, the environment and the command line, each over the one before.

Names, meanings and defaults in one place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from memoranda.errors import InvalidInput
from memoranda.model.owner import check_owner

SETTINGS_FILE: Final = "memoranda.toml"

Unit = Literal["text", "path", "whole number", "list"]


def _setting(default: Any, meaning: str, kind: Unit, *, choices: tuple[str, ...] = ()) -> Any:
    metadata = {"meaning": meaning, "kind": kind, "choices": choices}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each is read from MEMORANDA_<NAME> in capitals, or from its name in memoranda.toml."""

    home: Path = _setting(lambda: Path.home() / ".memoranda", "the data directory", "path")
    store: str = _setting(
        "",
        "the store: sqlite:///PATH or postgresql://USER@HOST/DATABASE; by default memoranda.db in the data directory",
        "text",
    )
    owner: str = _setting("", "whose memory local commands use; by default the operator's DID", "text")
    host: str = _setting("127.0.0.1", "the address to listen on; loopback unless told otherwise", "text")
    port: int = _setting(8420, "the port to listen on", "whole number")
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "addresses of proxies that are believed when they say who calls, and over https (X-Forwarded-For, -Proto)",
        "list",
    )
    tls_cert: str = _setting("", "a file with the certificate, and those above it, to serve https with", "text")
    tls_key: str = _setting("", "the file with the certificate's private key", "text")
    workers: int = _setting(1, "server processes that share the port and the store", "whole number")
    allowed_hosts: tuple[str, ...] = _setting(
        (), "further Host names to answer to, besides the loopback names and the address listened on", "list"
    )
    allowed_origins: tuple[str, ...] = _setting((), "further web origins that may call the API", "list")
    ump_version: str = _setting("0.1", "the UMP version to advertise", "text", choices=("0.1", "1.0"))
    encryption: str = _setting(
        "auto",
        "which documents are encrypted at rest: those that name a user, all, or none (off); auto: users, and on "
        "PostgreSQL all",
        "text",
        choices=("auto", "users", "all", "off"),
    )
    compliance: tuple[str, ...] = _setting((), "compliance presets in force: gdpr, ccpa, hipaa", "list")
    grain_profile: str = _setting(
        "extended",
        "the profile of OMS that grains must fit to be taken in, by the devices that are to read them",
        "text",
        choices=("extended", "standard", "lightweight"),
    )
    audit_reads: str = _setting(
        "deferred",
        "whether a read is answered before (deferred) or after (durable) its audit entry is on disk",
        "text",
        choices=("deferred", "durable"),
    )
    audit_unwritable: str = _setting(
        "later",
        "what becomes of reads that cannot be put on record, because the disk is full or read-only: they are answered "
        "and recorded as soon as that is possible (later), or refused",
        "text",
        choices=("later", "refuse"),
    )
    audit_retention: str = _setting(
        "",
        "how long the audit log is kept: an ISO 8601 duration, or `forever`; by default a year, with hipaa six",
        "text",
    )
    run_retention: str = _setting(
        "P365D", "how long runs of openwop are kept with their logs: an ISO 8601 duration, or `forever`", "text"
    )
    webhook_addresses: str = _setting(
        "open",
        "where events may be sent: to https on the open Internet (open), or anywhere (any), for a network of one's own",
        "text",
        choices=("open", "any"),
    )
    cal: str = _setting("on", "whether CAL queries are answered at all", "text", choices=("on", "off"))
    cal_evolve: str = _setting(
        "local",
        "who may change memories through CAL: the person at this machine (local), every writer (on), or nobody (off)",
        "text",
        choices=("local", "on", "off"),
    )
    cal_auto_toon: str = _setting(
        "off",
        "whether an ASSEMBLE without FORMAT is written as toon when its budget is tight",
        "text",
        choices=("off", "on"),
    )
    token_counter: str = _setting(
        "estimate",
        "what a budget in tokens counts: an estimate on the safe side, four bytes each, or a model's own tokens (these "
        "with memoranda[tokens])",
        "text",
        choices=("estimate", "bytes/4", "o200k_base", "cl100k_base"),
    )
    mcp_names: str = _setting(
        "plain",
        "how tools are named for agents: as every host accepts it (ump_recall), or as UMP reserves it (ump.recall)",
        "text",
        choices=("plain", "reserved"),
    )
    mcp_tools: tuple[str, ...] = _setting(
        (), "tools that agents are shown beside the usual ones: names of tools or of standards, or `all`", "list"
    )
    mcp_schemas: str = _setting(
        "brief",
        "how fully tools are described to agents: briefly, or with all their fields and the schemas of their answers",
        "text",
        choices=("brief", "full"),
    )
    embedder: str = _setting(
        "auto",
        "what tells the meaning of texts: the model of this installation if there is one (auto), none (off), or the "
        "address of an endpoint that speaks the OpenAI interface, such as http://127.0.0.1:11434/v1",
        "text",
    )
    embedder_model: str = _setting("", "the model that an endpoint is asked for; it is kept with every vector", "text")
    embedder_key: str = _setting("", "the key for that endpoint, where it wants one", "text")
    embedder_prefix: str = _setting("", "what is put before a question, where the endpoint's model wants it", "text")
    vector_search: str = _setting(
        "process",
        "where vectors are compared: by each server process, which decrypts them for it (process), or by PostgreSQL "
        "with pgvector, which keeps a copy of them in clear (pgvector)",
        "text",
        choices=("process", "pgvector"),
    )
    max_memories: int = _setting(
        0, "memories that one owner may keep, whichever standard wrote them; 0 means no limit", "whole number"
    )
    max_bytes: int = _setting(
        0, "bytes that one owner may keep, whichever standard wrote them; 0 means no limit", "whole number"
    )
    writes_per_minute: int = _setting(
        0, "memories that one owner may write in a minute, through any standard; 0 means no limit", "whole number"
    )
    runs_per_minute: int = _setting(
        6_000, "runs of openwop that one owner may begin in a minute; 0 means no limit", "whole number"
    )
    max_schedules: int = _setting(
        1_000, "what one owner may have done by itself, again and again; 0 means no limit", "whole number"
    )
    allowed_owners: tuple[str, ...] = _setting(
        (),
        "DIDs of owners whose own tokens are taken, beside the operator's and those of owners that have a key",
        "list",
    )
    open_registration: str = _setting(
        "off",
        "whether anyone who signs a token for himself is let in as a new owner",
        "text",
        choices=("on", "off"),
    )
    oauth: str = _setting(
        "off",
        "whether programs can be let in at /mcp by a person with a key (OAuth): programs that the operator registered "
        "(known), also those on the person's own machine (on), or any (open)",
        "text",
        choices=("off", "known", "on", "open"),
    )
    rate_limit: int = _setting(
        5_000,
        "requests a second that one credential may make; more is answered with rate_limited",
        "whole number",
    )
    max_body_bytes: int = _setting(
        2_097_152, "bytes a request body may have: one record of 1 MiB, escaped", "whole number"
    )
    secrets: str = _setting(
        "warn",
        "what happens to texts that look like secrets, in every write: a warning, redaction, or nothing (off)",
        "text",
        choices=("warn", "redact", "off"),
    )
    secret_folder: str = _setting(
        "", "a folder with secrets of the tenant for runs, one file each, named by id", "text"
    )
    secret_command: str = _setting("", "a command that prints a user's secret for a run, given its id", "text")
    secret_prefix: str = _setting(
        "", "what names of environment variables with the platform's secrets begin with; none unless said", "text"
    )
    log_level: str = _setting(
        "info", "how much is logged to standard error", "text", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "text", "how it is logged: lines for people, or one JSON object a line", "text", choices=("text", "json")
    )
    log_requests: str = _setting(
        "off",
        "whether each request is logged: its operation, status and time, and nothing that was asked or answered",
        "text",
        choices=("off", "on"),
    )
    metrics: str = _setting(
        "operator",
        "who may read /metrics: the operator, with a credential; anyone who reaches the port (open); or nobody (off)",
        "text",
        choices=("operator", "open", "off"),
    )

    @property
    def mcp_offer(self) -> dict[str, str]:
        """What agents are shown, as the query of /mcp would ask for it."""
        return {"names": self.mcp_names, "schemas": self.mcp_schemas, "tools": ",".join(self.mcp_tools)}

    @property
    def database_path(self) -> Path | None:
        """Where the SQLite file is; None for a store in memory, or on PostgreSQL."""
        if not self.store:
            return self.home / "memoranda.db"
        return None if self.address is not None else sqlite_path(self.store)

    @property
    def address(self) -> str | None:
        """Where the PostgreSQL database is; None for a store of SQLite."""
        return self.store if is_postgres(self.store) else None

    @property
    def coverage(self) -> Literal["users", "all"] | None:
        """Which documents are encrypted. PostgreSQL leaves copies of what was erased: there a key must be destroyed."""
        if self.encryption == "auto":
            return "users" if self.address is None else "all"
        return "users" if self.encryption == "users" else "all" if self.encryption == "all" else None


def is_postgres(url: str) -> bool:
    """Whether a store URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def without_password(url: str) -> str:
    """A store URL as it may be shown."""
    place, at, rest = url.rpartition("@")
    scheme, _, who = place.partition("://")
    user, colon, _ = who.partition(":")
    return f"{scheme}://{user}:(not shown)@{rest}" if at and colon else url


def sqlite_path(url: str) -> Path | None:
    """The file a store URL names; None for `sqlite:///:memory:`."""
    if not url.startswith("sqlite:///"):
        raise InvalidInput(
            f"store: {url.split(':', 1)[0]!r} is not a kind of store; use sqlite:///PATH or postgresql://…"
        )
    rest = url.removeprefix("sqlite:///")
    return None if rest == ":memory:" else Path(rest).expanduser()


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings: overrides that are not None, then the environment, then memoranda.toml in the data directory."""
    source = os.environ if environ is None else environ
    values = {name: value for name, value in overrides.items() if value is not None}
    for each in fields(Settings):
        text = source.get(variable_of(each.name))
        if each.name not in values and text:
            values[each.name] = _read(text, each.metadata["kind"], variable_of(each.name))
    settings = Settings(**values)
    settings = replace(settings, **{**_from_file(settings.home / SETTINGS_FILE), **values})
    _check(settings)
    return settings


# What is not shown to who looks at the settings.
SECRET_SETTINGS: Final = frozenset(("embedder_key",))


def origins(home: Path) -> dict[str, str]:
    """Where settings that are not the default come from: the environment, or the file in the data directory."""
    named = (each.name for each in fields(Settings))
    from_environment = {
        name: f"environment, {variable_of(name)}" for name in named if os.environ.get(variable_of(name))
    }
    return {**dict.fromkeys(_from_file(home / SETTINGS_FILE), SETTINGS_FILE), **from_environment}


def _check(settings: Settings) -> None:
    for each in fields(Settings):
        choices = each.metadata["choices"]
        if choices and getattr(settings, each.name) not in choices:
            raise InvalidInput(f"{variable_of(each.name)}: must be one of {', '.join(choices)}")
    if unknown := set(settings.compliance) - {"gdpr", "ccpa", "hipaa"}:
        raise InvalidInput(f"MEMORANDA_COMPLIANCE: there is no preset {min(unknown)!r}; there are gdpr, ccpa, hipaa")
    for name in ("max_memories", "max_bytes", "writes_per_minute", "runs_per_minute", "max_schedules"):
        if getattr(settings, name) < 0:
            raise InvalidInput(f"{variable_of(name)}: must be a whole number, 0 for no limit")
    if settings.owner:
        check_owner(settings.owner, "MEMORANDA_OWNER or --owner")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise InvalidInput("MEMORANDA_TLS_CERT and MEMORANDA_TLS_KEY go together")
    if not 0 <= settings.port <= 65_535:
        raise InvalidInput("MEMORANDA_PORT: must be from 0 to 65535")


def variable_of(name: str) -> str:
    """What a setting is called in the environment."""
    return f"MEMORANDA_{name.upper()}"


def _read(text: str, kind: Unit, where: str) -> Any:
    if kind == "path":
        return Path(text).expanduser()
    if kind == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind == "whole number":
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(f"{where}: {text!r} is not a whole number") from None
    return text


def _from_file(path: Path) -> dict[str, Any]:
    """What the file says; nothing when there is none."""
    if not path.is_file():
        return {}
    import tomllib

    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from None
    return _fitting_all(found, path)


def _fitting_all(found: Mapping[str, object], path: Path) -> dict[str, Any]:
    kinds = {each.name: each.metadata["kind"] for each in fields(Settings) if each.name != "home"}
    values = {}
    for name, value in found.items():
        if name not in kinds:
            raise InvalidInput(f"{path}: there is no setting {name!r}")
        values[name] = _fitting(value, kinds[name], f"{path}: {name}")
    return values


def _fitting(value: object, kind: Unit, where: str) -> Any:
    """A value of TOML's as the setting has it."""
    if kind == "list" and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if kind == "whole number" and type(value) is int:
        return value
    if kind == "text" and isinstance(value, str):
        return value
    raise InvalidInput(f"{where}: must be a {kind}{' of texts' if kind == 'list' else ''}")


# --- writing ------------------------------------------------------------------------------------------


def write_setting(home: Path, name: str, text: str | None) -> Path:
    """Write a setting to memoranda.toml in the data directory, or take it out; every other line stays as it is.

    What the file would say as a whole is checked first. Raises InvalidInput; the path of the file.
    """
    kinds = {each.name: each.metadata["kind"] for each in fields(Settings)}
    if name not in kinds:
        raise InvalidInput(f"there is no setting {name!r}; there are {', '.join(kinds)}")
    if name == "home":
        raise InvalidInput("home says where this file is; set it with --data or MEMORANDA_HOME")
    from memoranda.bindings.files.folder import write_whole

    path = home / SETTINGS_FILE
    before = _from_file(path)
    wanted = {key: value for key, value in before.items() if key != name}
    if text is not None:
        wanted[name] = _read(text, kinds[name], name)
    _check(replace(Settings(home=home), **wanted))
    source = path.read_text(encoding="utf-8") if path.is_file() else ""
    written = _with_line(source, name, None if text is None else f"{name} = {_toml(wanted[name])}")
    if _parsed(written, path) != wanted:
        raise InvalidInput(f"{path}: {name} is written there in a way that cannot be changed here; use an editor")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, written.encode("utf-8"))
    return path


def _parsed(source: str, path: Path) -> dict[str, Any] | None:
    import tomllib

    try:
        return _fitting_all(tomllib.loads(source), path)
    except (ValueError, InvalidInput):
        return None


def _with_line(source: str, name: str, written: str | None) -> str:
    """The file with another line in the place of those that hold a setting, or at its end."""
    lines = source.splitlines()
    begins = re.compile(rf"\s*[\"']?{name}[\"']?\s*=")
    start = next((number for number, each in enumerate(lines) if begins.match(each)), len(lines))
    end = min(start + 1, len(lines))
    while end < len(lines) and _parsed("\n".join(lines[start:end]), Path()) is None:
        end += 1
    return "".join(f"{each}\n" for each in [*lines[:start], *([written] if written else []), *lines[end:]])


def _toml(value: object) -> str:
    """A value of a setting in TOML, whose strings are those of JSON."""
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)

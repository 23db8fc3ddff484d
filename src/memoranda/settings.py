"""Settings: their names, meanings and defaults, and the sources that they are read from.

The command line overrides the environment, and the environment overrides memoranda.toml in the data directory.

To add a setting: one field of Settings with its default, its meaning for the person who reads the help, its type and
its choices. The environment variable, the key in memoranda.toml, the option of `memoranda config` and the row of the
reference page follow from the field. A rule between several settings is checked in `_check`, so that a server does not
start with a combination that would fail later. A secret setting is added to SECRET_SETTINGS, too.

Settings do not change while a process runs. Values are checked when they are read, and a message names the source: a
variable or a file.
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

# Wildcard addresses of a server, mapped to those at which this machine reaches it.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 -- compared, not listened on


def _setting(default: Any, meaning: str, kind: Unit, *, choices: tuple[str, ...] = ()) -> Any:
    metadata = {"meaning": meaning, "kind": kind, "choices": choices}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. One is read from MEMORANDA_<NAME> in capitals, or from its name in memoranda.toml."""

    home: Path = _setting(lambda: Path.home() / ".memoranda", "the data directory", "path")
    store: str = _setting(
        "",
        "the store: sqlite:///PATH or postgresql://USER@HOST/DATABASE; default: memoranda.db in the data directory",
        "text",
    )
    owner: str = _setting(
        "", "the owner of the memories for local commands; default: the operator's DID", "text"
    )
    host: str = _setting(
        "127.0.0.1", "the address to listen on; by default reachable only from this machine", "text"
    )
    port: int = _setting(8420, "the port to listen on", "whole number")
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted",
        "list",
    )
    tls_cert: str = _setting("", "TLS certificate chain (PEM), to serve https", "text")
    tls_key: str = _setting("", "private key of the certificate (PEM)", "text")
    workers: int = _setting(1, "server processes that share the port and the store", "whole number")
    allowed_hosts: tuple[str, ...] = _setting(
        (), "Host names to answer to, in addition to the loopback names and `host`", "list"
    )
    allowed_origins: tuple[str, ...] = _setting(
        (), "web origins whose pages may call the API", "list"
    )
    ump_version: str = _setting(
        "0.1", "the UMP version to advertise", "text", choices=("0.1", "1.0")
    )
    encryption: str = _setting(
        "auto",
        "documents encrypted at rest: those about a user (users), all, or none (off); auto means users on SQLite, all "
        "on PostgreSQL",
        "text",
        choices=("auto", "users", "all", "off"),
    )
    compliance: tuple[str, ...] = _setting(
        (), "compliance presets in force: gdpr, ccpa, hipaa", "list"
    )
    grain_profile: str = _setting(
        "extended",
        "the OMS profile that stored grains must fit: choose the one of the weakest device that reads them",
        "text",
        choices=("extended", "standard", "lightweight"),
    )
    audit_reads: str = _setting(
        "deferred",
        "answer a read before (deferred) or after (durable) its audit entry is on disk",
        "text",
        choices=("deferred", "durable"),
    )
    audit_unwritable: str = _setting(
        "later",
        "reads that cannot be recorded because the disk is full or read-only: answer them and record them as soon as "
        "possible (later), or refuse them (refuse)",
        "text",
        choices=("later", "refuse"),
    )
    audit_retention: str = _setting(
        "",
        "how long audit entries are kept: an ISO 8601 duration, or `forever`; default: one year, with hipaa six years",
        "text",
    )
    run_retention: str = _setting(
        "P365D",
        "how long runs of openwop and their logs are kept: an ISO 8601 duration, or `forever`",
        "text",
    )
    webhook_addresses: str = _setting(
        "open",
        "targets of webhooks: https on the public Internet (open), or also private networks (any)",
        "text",
        choices=("open", "any"),
    )
    cal: str = _setting("on", "answer CAL queries", "text", choices=("on", "off"))
    cal_evolve: str = _setting(
        "local",
        "changes of memories through CAL are allowed for the person at this machine (local), all who may write (on), "
        "or nobody (off)",
        "text",
        choices=("local", "on", "off"),
    )
    cal_dialect: str = _setting(
        "standard",
        "also read CAL queries in the dialect of another implementation",
        "text",
        choices=("standard", "areev"),
    )
    cal_auto_toon: str = _setting(
        "off",
        "write an ASSEMBLE without FORMAT as toon if its budget is tight",
        "text",
        choices=("off", "on"),
    )
    token_counter: str = _setting(
        "estimate",
        "how tokens of a budget are counted: a cautious estimate, four bytes each, or with a model's vocabulary, which "
        "needs memoranda[tokens]",
        "text",
        choices=("estimate", "bytes/4", "o200k_base", "cl100k_base"),
    )
    mcp_names: str = _setting(
        "plain",
        "tool names for agents: accepted by every agent program (ump_recall), or those of UMP (ump.recall)",
        "text",
        choices=("plain", "reserved"),
    )
    mcp_tools: tuple[str, ...] = _setting(
        (), "additional tools for agents: names of tools or of standards, or `all`", "list"
    )
    mcp_schemas: str = _setting(
        "brief",
        "descriptions of tools for agents: brief, or with all fields and answer schemas (full)",
        "text",
        choices=("brief", "full"),
    )
    learn: str = _setting(
        "rules",
        "learn from sessions when they end: explicit statements of the person, as candidates (rules), or nothing (off)",
        "text",
        choices=("rules", "off"),
    )
    learn_ask: str = _setting(
        "on",
        "ask the agent of a session, once, to store what matters (Claude Code, Codex, Gemini CLI, with hooks)",
        "text",
        choices=("on", "off"),
    )
    learner: str = _setting(
        "",
        "the model that `memoranda learn` asks: the base URL of an OpenAI-compatible API, such as "
        "http://127.0.0.1:11434/v1, or `anthropic`; without one, only rules find statements",
        "text",
    )
    learner_model: str = _setting("", "the name of the model to ask", "text")
    learner_key: str = _setting("", "the API key of that endpoint", "text")
    learner_prices: str = _setting(
        "",
        "the prices of a million tokens of the model, as INPUT/OUTPUT, to report the cost",
        "text",
    )
    learn_allow: tuple[str, ...] = _setting(
        (),
        "rules by which something learnt is accepted at once, such as `kind=identity project=shop agent=codex "
        "confidence=0.9`",
        "list",
    )
    embedder: str = _setting(
        "auto",
        "embedding provider for semantic search: the installed model if there is one (auto), a model of `memoranda "
        "models list` (multilingual-e5-small), none (off), or the URL of an OpenAI-compatible endpoint, such as "
        "http://127.0.0.1:11434/v1",
        "text",
    )
    embedder_model: str = _setting("", "the model to request from the endpoint", "text")
    embedder_key: str = _setting("", "the API key of the endpoint", "text")
    embedder_prefix: str = _setting(
        "", "text to put before each question, if the endpoint's model needs it", "text"
    )
    vector_search: str = _setting(
        "process",
        "where vectors are compared: in each server process, with encrypted storage (process), or in PostgreSQL, which "
        "stores unencrypted copies (pgvector)",
        "text",
        choices=("process", "pgvector"),
    )
    max_memories: int = _setting(
        0, "maximum memories of one owner; 0 means no limit", "whole number"
    )
    max_bytes: int = _setting(
        0, "maximum bytes of one owner's documents; 0 means no limit", "whole number"
    )
    writes_per_minute: int = _setting(
        0, "memories that one owner may write per minute; 0 means no limit", "whole number"
    )
    runs_per_minute: int = _setting(
        6_000,
        "runs of openwop that one owner may start per minute; 0 means no limit",
        "whole number",
    )
    max_schedules: int = _setting(1_000, "schedules per owner; 0 means no limit", "whole number")
    allowed_owners: tuple[str, ...] = _setting(
        (),
        "DIDs of owners whose self-signed tokens are accepted, in addition to the operator and owners with an API key",
        "list",
    )
    open_registration: str = _setting(
        "off",
        "allow self-registration: anyone with a self-signed token becomes an owner",
        "text",
        choices=("on", "off"),
    )
    oauth: str = _setting(
        "off",
        "programs that may ask a person for access to /mcp (OAuth): none (off), programs registered by the operator "
        "(known), also programs on the person's machine (on), or any (open)",
        "text",
        choices=("off", "known", "on", "open"),
    )
    oidc_issuer: str = _setting(
        "",
        "OpenID Connect provider for signing in to the console: its issuer, such as "
        "https://id.example.com/realms/team",
        "text",
    )
    oidc_client_id: str = _setting("", "the client id of this server at the provider", "text")
    oidc_client_secret: str = _setting(
        "",
        "the client secret; empty for a public client, which proves itself with PKCE alone",
        "text",
    )
    oidc_scopes: tuple[str, ...] = _setting(
        ("openid", "profile", "email"), "scopes to request from the provider", "list"
    )
    oidc_groups_claim: str = _setting(
        "groups",
        "the claim with a person's groups, in the ID token or the user information",
        "text",
    )
    oidc_roles: tuple[str, ...] = _setting(
        (),
        "roles of groups, GROUP=ROLE or GROUP=ROLE:OWNER: reader, writer, manager or owner of the memory of OWNER "
        "(default: `owner`; @person: each person's own). The group * is everybody",
        "list",
    )
    rate_limit: int = _setting(
        5_000,
        "maximum requests per second of one credential; more are refused as rate_limited",
        "whole number",
    )
    max_body_bytes: int = _setting(
        2_097_152,
        "maximum bytes of a request body; the default fits a record of 1 MiB with JSON escapes",
        "whole number",
    )
    secrets: str = _setting(
        "warn",
        "on writing a likely secret: warn, redact it, or do nothing (off)",
        "text",
        choices=("warn", "redact", "off"),
    )
    secret_folder: str = _setting(
        "", "a folder with the owner's secrets for runs, one file each, named by id", "text"
    )
    secret_command: str = _setting(
        "", "a command that prints a user's secret for a run, given its id", "text"
    )
    secret_prefix: str = _setting(
        "",
        "prefix of environment variables with the platform's secrets for runs; empty means none",
        "text",
    )
    log_level: str = _setting(
        "info", "log level on standard error", "text", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "text",
        "log format: lines of text, or one JSON object a line",
        "text",
        choices=("text", "json"),
    )
    log_requests: str = _setting(
        "off",
        "log each request: operation, status, duration, id of the credential, fingerprint of the owner and verbs; "
        "no content",
        "text",
        choices=("off", "on"),
    )
    metrics: str = _setting(
        "operator",
        "readers of /metrics: the operator, with a credential; everyone who reaches the port (open); or nobody (off)",
        "text",
        choices=("operator", "open", "off"),
    )

    @property
    def mcp_offer(self) -> dict[str, str]:
        """The names, schemas and tools for agents, as parameters of the URL of /mcp."""
        return {
            "names": self.mcp_names,
            "schemas": self.mcp_schemas,
            "tools": ",".join(self.mcp_tools),
        }

    @property
    def database_path(self) -> Path | None:
        """The SQLite file; None for a store in memory, or on PostgreSQL."""
        if not self.store:
            return self.home / "memoranda.db"
        return None if self.address is not None else sqlite_path(self.store)

    @property
    def address(self) -> str | None:
        """The URL of the PostgreSQL database; None for a store on SQLite."""
        return self.store if is_postgres(self.store) else None

    @property
    def coverage(self) -> Literal["users", "all"] | None:
        """The documents that are encrypted.

        On PostgreSQL all by default: its files keep copies of erased rows, so only destroying a key erases them.
        """
        if self.encryption == "auto":
            return "users" if self.address is None else "all"
        if self.encryption == "users":
            return "users"
        return "all" if self.encryption == "all" else None


def is_postgres(url: str) -> bool:
    """Return True if a store URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def server_url(settings: Settings) -> str:
    """Return the address at which commands on this machine reach the server with these settings."""
    scheme = "https" if settings.tls_cert else "http"
    host = _LOOPBACK.get(settings.host, settings.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def without_password(url: str) -> str:
    """Return a store URL with its password replaced."""
    credentials, at, address = url.rpartition("@")
    scheme, _, login = credentials.partition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}://{user}:(not shown)@{address}" if at and colon else url


def sqlite_path(url: str) -> Path | None:
    """Return the file that a store URL names; None for `sqlite:///:memory:`. Raises InvalidInput."""
    if not url.startswith("sqlite:///"):
        raise InvalidInput(
            f"store: {url.split(':', 1)[0]!r} is not a supported database; use sqlite:///PATH or postgresql://…"
        )
    path = url.removeprefix("sqlite:///")
    return None if path == ":memory:" else Path(path).expanduser()


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings: overrides that are not None, then the environment, then memoranda.toml in the data directory.

    Raises InvalidInput.
    """
    source = os.environ if environ is None else environ
    values = {name: value for name, value in overrides.items() if value is not None}
    for setting in fields(Settings):
        variable = variable_of(setting.name)
        text = source.get(variable)
        if setting.name not in values and text:
            values[setting.name] = _parse_text(text, setting.metadata["kind"], variable)
    settings = Settings(**values)
    settings = replace(settings, **{**_from_file(settings.home / SETTINGS_FILE), **values})
    _check(settings)
    return settings


# Settings whose values `memoranda config` does not show.
SECRET_SETTINGS: Final = frozenset(("embedder_key", "learner_key", "oidc_client_secret"))


def origins(home: Path) -> dict[str, str]:
    """Return the source of each setting that is not the default: the environment, or the file in the data directory."""
    from_environment = {}
    for setting in fields(Settings):
        variable = variable_of(setting.name)
        if os.environ.get(variable):
            from_environment[setting.name] = f"environment, {variable}"
    return {**dict.fromkeys(_from_file(home / SETTINGS_FILE), SETTINGS_FILE), **from_environment}


def _check(settings: Settings) -> None:
    """Raise InvalidInput for a value that is out of range, or does not fit another."""
    for setting in fields(Settings):
        choices = setting.metadata["choices"]
        if choices and getattr(settings, setting.name) not in choices:
            raise InvalidInput(f"{variable_of(setting.name)}: must be one of {', '.join(choices)}")
    if unknown := set(settings.compliance) - {"gdpr", "ccpa", "hipaa"}:
        raise InvalidInput(
            f"MEMORANDA_COMPLIANCE: there is no preset {min(unknown)!r}; there are gdpr, ccpa, hipaa"
        )
    for name in (
        "max_memories",
        "max_bytes",
        "writes_per_minute",
        "runs_per_minute",
        "max_schedules",
    ):
        if getattr(settings, name) < 0:
            raise InvalidInput(f"{variable_of(name)}: must be a whole number, 0 for no limit")
    if settings.owner:
        check_owner(settings.owner, "MEMORANDA_OWNER or --owner")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise InvalidInput("MEMORANDA_TLS_CERT and MEMORANDA_TLS_KEY: set both, or neither")
    if settings.oidc_issuer and not (settings.oidc_client_id and settings.oidc_roles):
        raise InvalidInput(
            "MEMORANDA_OIDC_ISSUER: set MEMORANDA_OIDC_CLIENT_ID and MEMORANDA_OIDC_ROLES, too"
        )
    if not 0 <= settings.port <= 65_535:
        raise InvalidInput("MEMORANDA_PORT: must be from 0 to 65535")


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"MEMORANDA_{name.upper()}"


def _parse_text(text: str, kind: Unit, source: str) -> Any:
    """Return the value of a text in the environment or on the command line. Raises InvalidInput with the source."""
    if kind == "path":
        return Path(text).expanduser()
    if kind == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind == "whole number":
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(f"{source}: {text!r} is not a whole number") from None
    return text


def _from_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file; empty if there is no file."""
    if not path.is_file():
        return {}
    try:
        table = _parse_toml(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from None
    return _check_table(table, path)


def list_differences(path: Path, settings: Settings) -> list[tuple[str, object, object]]:
    """Return the settings in a file that differ from those in force: name, value in the file, value in force.

    Raises InvalidInput if the file cannot be read.
    """
    return [
        (name, value, getattr(settings, name))
        for name, value in _from_file(path).items()
        if value != getattr(settings, name)
    ]


def _parse_toml(source: str) -> dict[str, Any]:
    """Parse a TOML text. Raises ValueError."""
    # Imported here: most programs have no settings file.
    import tomllib

    return tomllib.loads(source)


def _check_table(table: Mapping[str, object], path: Path) -> dict[str, Any]:
    """Return the values of a TOML table with the types of the settings. Raises InvalidInput."""
    kinds = {
        setting.name: setting.metadata["kind"]
        for setting in fields(Settings)
        if setting.name != "home"
    }
    values = {}
    for name, value in table.items():
        if name not in kinds:
            raise InvalidInput(f"{path}: there is no setting {name!r}")
        values[name] = _check_value(value, kinds[name], f"{path}: {name}")
    return values


def _check_value(value: object, kind: Unit, source: str) -> Any:
    """Return a TOML value with the type of the setting. Raises InvalidInput with the source."""
    if kind == "list" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind == "whole number" and type(value) is int:
        return value
    if kind == "text" and isinstance(value, str):
        return value
    raise InvalidInput(f"{source}: must be a {kind}{' of texts' if kind == 'list' else ''}")


# --- writing ------------------------------------------------------------------------------------------


def write_setting(home: Path, name: str, text: str | None) -> Path:
    """Write a setting to memoranda.toml in the data directory, or remove it with None; return the path of the file.

    Every other line stays unchanged. Raises InvalidInput if the new file would not be valid.
    """
    kinds = {setting.name: setting.metadata["kind"] for setting in fields(Settings)}
    if name not in kinds:
        raise InvalidInput(f"there is no setting {name!r}; there are {', '.join(kinds)}")
    if name == "home":
        raise InvalidInput("home is the folder of this file; set it with --data or MEMORANDA_HOME")
    from memoranda.bindings.files.folder import replace_file

    path = home / SETTINGS_FILE
    before = _from_file(path)
    settings = {key: value for key, value in before.items() if key != name}
    if text is not None:
        settings[name] = _parse_text(text, kinds[name], name)
    _check(replace(Settings(home=home), **settings))
    source = path.read_text(encoding="utf-8") if path.is_file() else ""
    assignment = None if text is None else f"{name} = {_toml(settings[name])}"
    new_source = _replace_line(source, name, assignment)
    if _parse_or_none(new_source, path) != settings:
        raise InvalidInput(
            f"{path}: the lines of {name} are too unusual to be changed here; use an editor"
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, new_source.encode("utf-8"))
    return path


def _parse_or_none(source: str, path: Path) -> dict[str, Any] | None:
    """Return the settings in a TOML text; None if it is not valid."""
    try:
        return _check_table(_parse_toml(source), path)
    except (ValueError, InvalidInput):
        return None


def _replace_line(source: str, name: str, assignment: str | None) -> str:
    """Replace the lines of a setting in a TOML text with one line, or append it; with None, delete them."""
    lines = source.splitlines()
    beginning = re.compile(rf"\s*[\"']?{name}[\"']?\s*=")
    start = next((number for number, line in enumerate(lines) if beginning.match(line)), len(lines))
    end = min(start + 1, len(lines))
    while end < len(lines) and _parse_or_none("\n".join(lines[start:end]), Path()) is None:
        end += 1
    new_lines = [*lines[:start], *([assignment] if assignment else []), *lines[end:]]
    return "".join(f"{line}\n" for line in new_lines)


def _toml(value: object) -> str:
    """Return the value of a setting in TOML; its strings are written like those of JSON."""
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)

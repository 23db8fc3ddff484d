"""key and token: API keys and capability tokens. A new one is printed alone, so that a shell variable can take it.

A command that makes a secret prints it on standard output and nothing else, so `KEY=$(memoranda key add ci)` works;
explanations go to standard error (`note`). Keys are stored as hashes, so a lost one is replaced with `rotate`, which
keeps the earlier one valid for a while.

A key is checked against the store at each request and can be revoked at once. A token carries its claims and signature
in itself and expires; revoking it stores its id until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from memoranda.cli.options import complete_date, read_duration_ms, split_names
from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import line, note, table, when
from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict, InvalidInput
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.owner import check_did, check_owner
from memoranda.opening import credential_id, open_service, replace_credential
from memoranda.service.core.access import KEY_LIMIT
from memoranda.storage.engine.contract import NO_KEY_LIMITS, ApiKey, KeyLimits

if TYPE_CHECKING:
    from memoranda.service.core.access import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTerms:
    """The expiry and the limits of a key."""

    expires: Annotated[
        str | None, Parameter(help="When the key expires: 90d, a date, RFC 3339, or never.")
    ] = None
    requests_per_minute: Annotated[
        int | None,
        Parameter(
            help="Requests that it may send to a server process; 0: no limit.",
            minimum=0,
            maximum=KEY_LIMIT,
        ),
    ] = None
    writes_per_day: Annotated[
        int | None,
        Parameter(
            help="Memories that it may write within 24 hours; 0: no limit.",
            minimum=0,
            maximum=KEY_LIMIT,
        ),
    ] = None

    def limits(self, current: KeyLimits) -> KeyLimits:
        """Return the limits, with the current ones where none are given."""
        names = ("requests_per_minute", "writes_per_day")
        return msgspec.structs.replace(
            current, **{name: value for name in names if (value := getattr(self, name)) is not None}
        )


DEFAULT_TERMS: Final = KeyTerms()


def show(
    *,
    operator: Annotated[
        bool, Parameter(help="The operator's key, which signs the records of this store.")
    ] = False,
    run: GivenRun,
) -> None:
    """Print the operator's DID; the key is made on first use."""
    if not operator:
        raise InvalidInput(
            "add --operator; an API key cannot be shown again, make a new one with: memoranda key add"
        )
    with closing(open_service(run.settings())) as service:
        did = service.operator_did
    run.answer({"did": did}, lambda: print(did))


def add(
    name: Annotated[
        str, Parameter(name="NAME", help="A name for the key, such as the program that uses it.")
    ],
    /,
    *,
    tenant: Annotated[
        str | None, Parameter(help="The owner whose memories it opens (default: --owner).")
    ] = None,
    scopes: Annotated[
        str,
        Parameter(
            help="Permissions, separated by commas, of read, write, derive, export, activate and erase "
            "(default: read,write,derive)."
        ),
    ] = "read,write,derive",
    terms: KeyTerms = DEFAULT_TERMS,
    run: GivenRun,
) -> None:
    """Make an API key and print it. Only its hash is stored, so it cannot be shown again."""
    if tenant is not None:
        check_owner(tenant, "--tenant")
    with run.open() as memoranda:
        clock = memoranda.service.context.clock
        secret = memoranda.service.gate.add_key(
            name,
            tenant=tenant or memoranda.owner,
            scopes=split_names(scopes),
            expires=_read_expiry(terms.expires, clock(), None),
            limits=terms.limits(NO_KEY_LIMITS),
        )
    run.answer({"key": secret}, lambda: print(secret))


def rotate(
    name: Annotated[str, Parameter(name="ID", help="The key's id, or its name.")],
    /,
    *,
    overlap: Annotated[
        str,
        Parameter(
            help="How long the earlier key remains valid, so that programs can change over: 0s, 12h, 7d (default: 7d)."
        ),
    ] = "7d",
    expires: Annotated[
        str | None,
        Parameter(
            help="When the new key expires: 90d, a date, or RFC 3339 (default: after as long as the earlier key)."
        ),
    ] = None,
    run: GivenRun,
) -> None:
    """Make a key in place of another, and print it. It has the same owner, permissions and limits.

    Programs and browsers that were let in with the earlier key stay signed in. If a key was stolen, revoke it instead,
    and make a new one. The key in owner.credential is replaced in that file.
    """
    settings = run.settings()
    with run.open() as memoranda:
        gate, now = memoranda.service.gate, memoranda.service.context.clock()
        predecessor, secret = gate.rotate_key(
            name,
            overlap_ms=read_duration_ms(overlap, "--overlap"),
            expires=_read_expiry(expires, now, None),
        )
    if credential_id(settings) == predecessor.key_id:
        note(f"the new key is in {replace_credential(settings, secret)}")
    assert predecessor.expires is not None
    end = format_instant(predecessor.expires)
    run.answer(
        {"key": secret, "replaces": predecessor.key_id, "earlier_expires": end},
        lambda: print(secret),
    )
    if not run.json:
        note(f"the earlier key {predecessor.key_id} expires at {end}")


def change(
    name: Annotated[str, Parameter(name="ID", help="The key's id, or its name.")],
    /,
    *,
    terms: KeyTerms = DEFAULT_TERMS,
    run: GivenRun,
) -> None:
    """Change when an API key expires, or its limits. Options that are not given keep their values."""
    with run.open() as memoranda:
        gate, now = memoranda.service.gate, memoranda.service.context.clock()
        key = gate.find_key(name)
        changed_key = gate.change_key(
            key.key_id,
            expires=_read_expiry(terms.expires, now, key.expires),
            limits=terms.limits(key.limits),
        )
        document = _key_document(gate, changed_key)
    run.answer(document, lambda: line(f"{changed_key.key_id} {changed_key.name} changed"))


def _read_expiry(text: str | None, now: Instant, default: Instant | None) -> Instant | None:
    """Return the instant that `--expires` means: a duration from now, a date, RFC 3339, or never."""
    if text is None:
        return default
    if text == "never":
        return None
    if text[:1].isdigit() and "-" in text:
        instant = complete_date(text)
        assert instant is not None
        try:
            return parse_instant(instant)
        except ValueError:
            raise InvalidInput(f"--expires: {text!r} is not a date") from None
    return Instant(now + read_duration_ms(text, "--expires"))


def list_keys(*, run: GivenRun) -> None:
    """List the API keys, without their secrets."""
    with run.open() as memoranda:
        gate = memoranda.service.gate
        keys = gate.keys()
        documents = [_key_document(gate, api_key) for api_key in keys]
    columns = ("id", "name", "scopes", "created", "revoked", "tenant", "expires", "used", "limits")

    def show() -> None:
        rows = [_key_cells(document) for document in documents]
        table(columns, rows, when_empty="no keys yet", clipped=("scopes", "tenant", "name"))

    run.answer({"keys": documents}, show)


def _key_document(gate: Gate, key: ApiKey) -> dict[str, object]:
    """Return a key as JSON, without its secret."""

    def moment(instant: Instant | None) -> str | None:
        return None if instant is None else format_instant(instant)

    return {
        "id": key.key_id,
        "name": key.name,
        "scopes": list(key.scopes),
        "created": moment(key.created),
        "revoked": moment(key.revoked),
        "tenant": key.tenant,
        "owner_fingerprint": gate.fingerprint_owner(key.tenant),
        "expires": moment(key.expires),
        "used": moment(gate.key_uses.last_use(key)),
        "replaces": key.replaces,
        "limits": {
            "requests_per_minute": key.limits.requests_per_minute,
            "writes_per_day": key.limits.writes_per_day,
        },
    }


def _key_cells(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of a key; a terminal gets times such as "3 days ago"."""
    limits = document["limits"]
    texts = [
        f"{limits[name]} {unit}"
        for name, unit in (
            ("requests_per_minute", "requests/min"),
            ("writes_per_day", "writes/day"),
        )
        if limits[name]
    ]
    return (
        document["id"],
        document["name"],
        ",".join(document["scopes"]),
        when(document["created"]),
        when(document["revoked"]) if document["revoked"] else "",
        document["tenant"],
        when(document["expires"]) if document["expires"] else "never",
        when(document["used"]) if document["used"] else "never",
        ", ".join(texts),
    )


def revoke(
    name: Annotated[str, Parameter(name="ID", help="The key's id, or its name.")],
    /,
    *,
    yes: Annotated[
        bool,
        Parameter(
            help="Also revoke the key in owner.credential, or an owner's last key with all permissions."
        ),
    ] = False,
    run: GivenRun,
) -> None:
    """Revoke an API key immediately."""
    with run.open() as memoranda:
        try:
            revoked = memoranda.service.gate.revoke_key(
                name, caller_key_id=credential_id(run.settings()), is_confirmed=yes
            )
        except Conflict as error:
            raise Conflict(
                f"{error.message}. To revoke it: memoranda key revoke {name} --yes"
            ) from None
    run.answer(
        {"id": revoked.key_id, "name": revoked.name},
        lambda: line(f"{revoked.key_id} {revoked.name} revoked"),
    )


def program(
    name: Annotated[
        str, Parameter(name="NAME", help="The program's name, shown to the person who approves it.")
    ],
    redirect: Annotated[
        tuple[str, ...],
        Parameter(name="REDIRECT", help="A redirect URI of the program; can be repeated."),
    ],
    /,
    *,
    run: GivenRun,
) -> None:
    """Register a program that may ask for access (OAuth), and print its client id."""
    with run.open() as memoranda:
        client_id = memoranda.service.grants.register(name, redirect, registrar="operator")
    run.answer({"client_id": client_id}, lambda: print(client_id))


def mint(
    *,
    verbs: Annotated[
        str, Parameter(help="Permissions, separated by commas: read, write, derive, export.")
    ],
    project: Annotated[str | None, Parameter(help="Only in this project.")] = None,
    agent: Annotated[str | None, Parameter(help="Only memories of this agent.")] = None,
    visibility: Annotated[
        Literal["private", "shared", "public"] | None,
        Parameter(help="Only memories of this visibility."),
    ] = None,
    aud: Annotated[
        str | None,
        Parameter(help="The DID of its bearer; anyone else sees only shared and public memories."),
    ] = None,
    ttl: Annotated[
        str, Parameter(help="How long it is valid: 90s, 15m, 1h, 7d or PT1H (default: 1h).")
    ] = "1h",
    run: GivenRun,
) -> None:
    """Print a capability token signed by the operator, for the owner in --owner, or for all owners."""
    if aud is not None:
        check_did(aud, "--aud")
    scope = without_none(owner=run.owner, project=project, agent=agent, visibility=visibility)
    with run.open() as memoranda:
        capability = memoranda.service.gate.mint_token(
            verbs=split_names(verbs),
            scope=scope,
            ttl_ms=read_duration_ms(ttl, "--ttl"),
            audience=aud,
        )
    run.answer({"token": capability}, lambda: print(capability))


def inspect(
    text: Annotated[str, Parameter(name="TOKEN", help="The token.")],
    /,
    *,
    run: GivenRun,
) -> int:
    """Show the claims of a token, and whether it would be accepted now."""
    with run.open() as memoranda:
        inspection = memoranda.service.gate.inspect_token(text)
    claims = inspection["claims"]
    assert isinstance(claims, dict)

    def show_claims() -> None:
        for name, value in claims.items():
            claim = value if isinstance(value, str) else dump(value).decode("utf-8")
            line(f"{name:<8} {claim}")
        line(f"verdict  {inspection['verdict']}", "bold")

    run.answer(inspection, show_claims)
    return 0 if inspection["verdict"] == "valid" else 1


def revoke_token(
    text: Annotated[str, Parameter(name="TOKEN", help="The token, or its jti.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Revoke a token immediately."""
    with run.open() as memoranda:
        jti = memoranda.service.gate.revoke_token(text)
    run.answer({"jti": jti}, lambda: line(f"{jti} revoked"))

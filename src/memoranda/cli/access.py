"""key and token: API keys and capability tokens. A new one is printed alone, so that a shell variable can take it."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Literal

from memoranda.cli.options import read_duration_ms, split_names, without_none
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, table
from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict, InvalidInput
from memoranda.model.instant import format_instant
from memoranda.model.owner import check_did, check_owner
from memoranda.opening import credential_id, open_service


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
    run: GivenRun,
) -> None:
    """Make an API key and print it. Only its hash is stored, so it cannot be shown again."""
    if tenant is not None:
        check_owner(tenant, "--tenant")
    with run.open() as memoranda:
        secret = memoranda.service.gate.add_key(
            name, tenant=tenant or memoranda.owner, scopes=split_names(scopes)
        )
    run.answer({"key": secret}, lambda: print(secret))


def list_keys(*, run: GivenRun) -> None:
    """List the API keys, without their secrets."""
    with run.open() as memoranda:
        gate = memoranda.service.gate
        keys = gate.keys()
    columns = ("id", "name", "scopes", "created", "revoked", "tenant")
    cells = [
        (
            api_key.key_id,
            api_key.name,
            ",".join(api_key.scopes),
            format_instant(api_key.created),
            "" if api_key.revoked is None else format_instant(api_key.revoked),
            api_key.tenant,
        )
        for api_key in keys
    ]
    documents = [
        {
            **dict(zip(columns, row, strict=True)),
            "scopes": list(api_key.scopes),
            "owner_fingerprint": gate.fingerprint_owner(api_key.tenant),
            "revoked": row[4] or None,
        }
        for api_key, row in zip(keys, cells, strict=True)
    ]
    run.answer({"keys": documents}, lambda: table(columns, cells, when_empty="no keys yet"))


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
        Parameter(
            name="REDIRECT", help="An address to which the approval may be sent; can be repeated."
        ),
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

"""key and token: who may reach the store, and how far. What is made is printed alone, ready for a variable."""

from __future__ import annotations

from typing import Annotated, Literal

from memoranda.cli.commands import App, Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line, table
from memoranda.cli.words import given, names, span_ms
from memoranda.encoding.json_text import dump
from memoranda.errors import Conflict, InvalidInput
from memoranda.model.instant import format_instant
from memoranda.model.owner import check_did, check_owner

key = App(name="key", about="API keys, and the operator's own key.")
token = App(name="token", about="Capability tokens.")


@key.command
def show(
    *,
    operator: Annotated[bool, Parameter(help="The operator's key, which signs for this store.")] = False,
    run: GivenRun,
) -> None:
    """Print the operator's DID, making the key on first use."""
    from memoranda.opening import open_service

    if not operator:
        raise InvalidInput("say which key: --operator. API keys are never shown again; make a new one with key add")
    service = open_service(run.settings())
    try:
        did = service.operator_did
    finally:
        service.close()
    run.answer({"did": did}, lambda: print(did))


@key.command
def add(
    name: Annotated[str, Parameter(name="NAME", help="What the key is for.")],
    /,
    *,
    tenant: Annotated[str | None, Parameter(help="Whose memories it reaches; the owner's unless said.")] = None,
    scopes: Annotated[
        str,
        Parameter(
            help="What it may do, by commas: read, write, derive, export, activate, erase; the first three unless said."
        ),
    ] = "read,write,derive",
    run: GivenRun,
) -> None:
    """Make an API key and print it. It is not kept, and cannot be shown again."""
    if tenant is not None:
        check_owner(tenant, "--tenant")
    with run.open() as memoranda:
        made = memoranda.service.gate.add_key(name, tenant=tenant or memoranda.owner, scopes=names(scopes))
    run.answer({"key": made}, lambda: print(made))


@key.command(name="list")
def list_keys(*, run: GivenRun) -> None:
    """List the API keys, without their secrets."""
    with run.open() as memoranda:
        keys = memoranda.service.gate.keys()
    columns = ("id", "name", "scopes", "created", "revoked", "tenant")
    cells = [
        (
            each.key_id,
            each.name,
            ",".join(each.scopes),
            format_instant(each.created),
            "" if each.revoked is None else format_instant(each.revoked),
            each.tenant,
        )
        for each in keys
    ]
    documents = [
        {**dict(zip(columns, row, strict=True)), "scopes": list(each.scopes), "revoked": row[4] or None}
        for each, row in zip(keys, cells, strict=True)
    ]
    run.answer({"keys": documents}, lambda: table(columns, cells, when_empty="no keys yet"))


@key.command
def revoke(
    name: Annotated[str, Parameter(name="ID", help="The key's id, or its name.")],
    /,
    *,
    yes: Annotated[
        bool,
        Parameter(help="Also the key in owner.credential, and an owner's last key that may do everything."),
    ] = False,
    run: GivenRun,
) -> None:
    """Revoke an API key, at once."""
    from memoranda.opening import credential_id

    with run.open() as memoranda:
        try:
            revoked = memoranda.service.gate.revoke_key(name, in_use=credential_id(run.settings()), is_confirmed=yes)
        except Conflict as error:
            raise Conflict(f"{error.message}. To revoke it: memoranda key revoke {name} --yes") from None
    run.answer({"id": revoked.key_id, "name": revoked.name}, lambda: line(f"{revoked.key_id} {revoked.name} revoked"))


@key.command
def program(
    name: Annotated[str, Parameter(name="NAME", help="What the program is called where it asks to be let in.")],
    redirect: Annotated[tuple[str, ...], Parameter(name="REDIRECT", help="Where it may be answered.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Register a program that may ask to be let in (OAuth), and print its client id."""
    with run.open() as memoranda:
        client_id = memoranda.service.grants.register(name, redirect)
    run.answer({"client_id": client_id}, lambda: print(client_id))


@token.command
def mint(
    *,
    verbs: Annotated[str, Parameter(help="What it allows, separated by commas: read, write, derive, export.")],
    project: Annotated[str | None, Parameter(help="Only in this project.")] = None,
    agent: Annotated[str | None, Parameter(help="Only memories of this agent.")] = None,
    visibility: Annotated[
        Literal["private", "shared", "public"] | None, Parameter(help="Only memories of this visibility.")
    ] = None,
    aud: Annotated[str | None, Parameter(help="The DID it is for; someone else sees only shared and public.")] = None,
    ttl: Annotated[str, Parameter(help="How long it holds: 90s, 15m, 1h, 7d or PT1H; 1h unless said.")] = "1h",
    run: GivenRun,
) -> None:
    """Print a capability token signed by the operator. With --owner it reaches that owner only, else every one."""
    if aud is not None:
        check_did(aud, "--aud")
    scope = given(owner=run.owner, project=project, agent=agent, visibility=visibility)
    with run.open() as memoranda:
        minted = memoranda.service.gate.mint_token(
            verbs=names(verbs), scope=scope, ttl_ms=span_ms(ttl, "--ttl"), audience=aud
        )
    run.answer({"token": minted}, lambda: print(minted))


@token.command
def inspect(
    text: Annotated[str, Parameter(name="TOKEN", help="The token.")],
    /,
    *,
    run: GivenRun,
) -> int:
    """Show what a token says, and whether it would be accepted now."""
    with run.open() as memoranda:
        found = memoranda.service.gate.inspect_token(text)
    claims = found["claims"]
    assert isinstance(claims, dict)

    def say() -> None:
        for name, value in claims.items():
            shown = value if isinstance(value, str) else dump(value).decode("utf-8")
            line(f"{name:<8} {shown}")
        line(f"verdict  {found['verdict']}", "bold")

    run.answer(found, say)
    return 0 if found["verdict"] == "valid" else 1


@token.command(name="revoke")
def revoke_token(
    text: Annotated[str, Parameter(name="TOKEN", help="The token, or its jti.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Revoke a token, at once."""
    with run.open() as memoranda:
        jti = memoranda.service.gate.revoke_token(text)
    run.answer({"jti": jti}, lambda: line(f"{jti} revoked"))

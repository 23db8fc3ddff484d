"""oms commands on grains in the store: put, supersede, get, find, verification, hold, erase, erase-user, consent …

Commands here work on the store; those on files are in `files.py` and `signing.py`. A grain that is given as bytes is
stored as these bytes, never encoded a second time, so its address stays the same. Commands that cannot be undone ask at
a terminal, and run without a question with `--yes` or in a script. `get --raw` prints only the bytes, so that another
program can read them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.bindings.files.mg import naming_source, read_grain
from memoranda.cli.run import PLACE_NAMES, GivenRun, Parameter, without_none
from memoranda.cli.show import count_phrase, is_confirmed, line, note, one_line, table
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.standards.oms.mapping import text_of
from memoranda.standards.oms.requests import MAX_LIMIT, ErasureScope, FindRequest
from memoranda.stores import MASTER_KEY_FILE

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.oms.grains import GrainResult
    from memoranda.service.oms.views import StoredGrain

Source = Annotated[
    str,
    Parameter(name="FILE", help="Fields as JSON, a grain, or an envelope; - for standard input."),
]
Address = Annotated[str, Parameter(name="ADDRESS", help="The grain's address.")]
Reason = Annotated[str, Parameter(help="The reason; kept in the audit log.")]
Yes = Annotated[bool, Parameter(help="Do not ask for confirmation.")]
# Results per request of `find --all`.
_PAGE = 500
# Characters of a grain's text in a row of results.
_TEXT_CHARS = 200


def get(
    address: Address,
    /,
    *,
    raw: Annotated[
        bool, Parameter(help="Print only the bytes of the grain, or of its envelope.")
    ] = False,
    run: GivenRun,
) -> None:
    """Show one grain."""
    with run.open() as memoranda:
        stored_grain = memoranda.grains.get(address)
    if raw:
        if sys.stdout.isatty():
            raise InvalidInput(
                "--raw: these are bytes, not text for a terminal; redirect them to a file"
            )
        sys.stdout.buffer.write(stored_grain.delivery)
        sys.stdout.buffer.flush()
        return
    run.answer(stored_grain.document(), lambda: _show(stored_grain))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrainFilter:
    """Fields that a grain must have with exactly these values."""

    subject: Annotated[str | None, Parameter(help="Only about this subject.")] = None
    relation: Annotated[str | None, Parameter(help="Only with this relation.")] = None
    object: Annotated[str | None, Parameter(help="Only with this object.")] = None
    namespace: Annotated[
        str | None, Parameter(name=PLACE_NAMES, help="Only in this namespace.")
    ] = None
    user: Annotated[str | None, Parameter(help="Only of this user.")] = None
    type: Annotated[
        str | None, Parameter(help="Only of this type, such as belief, event or goal.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        return without_none(
            subject=self.subject,
            relation=self.relation,
            object=self.object,
            namespace=self.namespace,
            user_id=self.user,
            type=self.type,
        )


NO_FILTER = GrainFilter()


def find(
    *,
    text: Annotated[str | None, Parameter(help="Keyword search, best first.")] = None,
    conditions: GrainFilter = NO_FILTER,
    limit: Annotated[
        int, Parameter(help="Results at most (default 20).", minimum=1, maximum=MAX_LIMIT)
    ] = 20,
    every: Annotated[bool, Parameter(name="--all", help="All results, without a limit.")] = False,
    superseded: Annotated[bool, Parameter(help="Include superseded grains.")] = False,
    run: GivenRun,
) -> None:
    """Find grains by their fields, by keywords, or both."""
    fields = {**conditions.fields(), **without_none(text=text), "limit": _PAGE if every else limit}
    if superseded:
        fields["current"] = False
    results: list[Any] = []
    with run.open() as memoranda:
        cursor: str | None = None
        while True:
            page = memoranda.grains.find(
                FindRequest.parse({**fields, **without_none(cursor=cursor)})
            )
            results += page.results
            cursor = page.next_cursor
            if cursor is None or not every:
                break
    rows = [
        (result.stored.address, result.stored.grain.type_name, _excerpt(result.stored))
        for result in results
    ]
    documents = [result.document() for result in results]
    run.answer(
        {"results": documents, "more": cursor is not None},
        lambda: table(("address", "type", "text"), rows, when_empty="no grains found"),
    )
    if cursor is not None and not run.json:
        note("there are more; see them with --limit or --all")


def verification(
    address: Address,
    status: Annotated[
        Literal["unverified", "verified", "contested", "retracted"],
        Parameter(help="The new status."),
    ],
    /,
    *,
    reason: Reason = "",
    by: Annotated[str | None, Parameter(help="The address of a grain that contradicts it.")] = None,
    run: GivenRun,
) -> None:
    """Set the verification status of a grain; the grain itself does not change."""
    with run.open() as memoranda:
        new_status = memoranda.grains.set_verification(address, status, reason=reason, by=by)
    run.answer(
        {"address": address, "verification_status": new_status},
        lambda: line(f"{address} {new_status}"),
    )


def hold(
    address: Address,
    /,
    *,
    reason: Reason,
    release: Annotated[bool, Parameter(help="Lift the hold.")] = False,
    run: GivenRun,
) -> None:
    """Put a legal hold on a grain: nobody can supersede or erase it until the hold is lifted."""
    with run.open() as memoranda:
        is_held = memoranda.grains.set_hold(address, held=not release, reason=reason)
    run.answer(
        {"address": address, "held": is_held},
        lambda: line(f"{address} {'held' if is_held else 'released'}"),
    )


def erase(
    address: Address,
    /,
    *,
    reason: Reason,
    scope: Annotated[
        ErasureScope,
        Parameter(help="memory: with all earlier versions; grain: this version alone."),
    ] = "memory",
    yes: Yes = False,
    run: GivenRun,
) -> int:
    """Erase a memory permanently, as the law may require. A memory on hold is not erased."""
    target = f"{address} and its earlier versions" if scope == "memory" else address
    if not _is_erasure_confirmed(f"Erase {target} permanently?", yes):
        return 1
    with run.open() as memoranda:
        memoranda.grains.erase(address, reason=reason, scope=scope)
    run.answer({"address": address, "result": "erased"}, lambda: line(f"{address} erased"))
    return 0


def erase_user(
    user: Annotated[str, Parameter(name="USER", help="The user_id.")],
    /,
    *,
    reason: Reason,
    yes: Yes = False,
    run: GivenRun,
) -> int:
    """Erase all memories of a user and destroy the user's key. Exit code 1 if a hold kept any of them."""
    if not _is_erasure_confirmed(f"Erase all memories of {one_line(user)} permanently?", yes):
        return 1
    with run.open() as memoranda:
        erasure = memoranda.grains.erase_user(user, reason=reason)
    key = "the key is destroyed" if erasure.key_destroyed else "no key was destroyed"
    run.answer(
        {"erased": erasure.erased, "held": erasure.held, "key_destroyed": erasure.key_destroyed},
        lambda: line(
            f"{count_phrase(erasure.erased, 'memory', 'memories')} erased, {erasure.held} kept by a hold, {key}"
        ),
    )
    return 1 if erasure.held else 0


def consent(
    *,
    subject: Annotated[str, Parameter(help="The person whose data it is: a DID.")],
    grantee: Annotated[str, Parameter(help="The person or program that wants to use it: a DID.")],
    scope: Annotated[str, Parameter(help="The purpose (default: retrieve).")] = "retrieve",
    run: GivenRun,
) -> int:
    """Show the consent under which someone may use a person's memories now. Exit code 1 if there is none."""
    with run.open() as memoranda:
        address = memoranda.grains.consent(subject=subject, grantee=grantee, scope=scope)
    run.answer(
        {"consent": address}, lambda: line(address) if address else note("there is no such consent")
    )
    return 0 if address else 1


def rotate_key(
    *,
    kubernetes_secret: Annotated[
        str | None,
        Parameter(
            help="Also store the new master key in this Secret of Kubernetes, with the rights of this pod's account."
        ),
    ] = None,
    kubernetes_api: Annotated[
        str,
        Parameter(
            help="The address of the API of Kubernetes (default: that of this pod's cluster)."
        ),
    ] = "",
    run: GivenRun,
) -> None:
    """Make a new master key and wrap every user's key under it. Documents are not encrypted again."""
    secret = None
    if kubernetes_secret is not None:
        # Imported here: nothing else needs it.
        from memoranda.cli.kubernetes import Secret, rotate_into_secret

        secret = Secret(kubernetes_secret, api=kubernetes_api)
    with run.open() as memoranda:
        if secret is None:
            count = memoranda.grains.rotate_master_key()
        else:
            master_key = run.settings().home / MASTER_KEY_FILE
            count = rotate_into_secret(secret, master_key, memoranda.grains.rotate_master_key)
    run.answer(
        {"keys": count},
        lambda: line(f"{count_phrase(count, 'key')} wrapped under a new master key"),
    )


def _show(stored_grain: StoredGrain) -> None:
    line(f"{stored_grain.address}  {stored_grain.grain.type_name}", "bold")
    document = stored_grain.document()
    for name, value in document["grain"].items():
        text = value if isinstance(value, str) else dump(value).decode("utf-8")
        line(f"  {name}: {one_line(text)}")
    properties = [f"{name} {value}" for name, value in document["index"].items()]
    if stored_grain.is_held:
        properties.append("on hold")
    if stored_grain.needs_review:
        properties.append("needs review")
    if not stored_grain.is_native:
        properties.append("a view: written through another standard")
    line("  " + ", ".join(properties), "dim")


def _excerpt(result: StoredGrain) -> str:
    return text_of(result.grain)[:_TEXT_CHARS]


def _is_erasure_confirmed(question: str, yes: bool) -> bool:
    """Return True with --yes, without a terminal, or if the person agrees."""
    if yes or not sys.stdin.isatty() or is_confirmed(question):
        return True
    note("nothing was erased")
    return False


def put(source: Source, /, *, run: GivenRun) -> None:
    """Add a grain and print its address. A missing creation time is set to now."""
    with run.open() as memoranda:
        grain = _read_grain(memoranda, source)
        with naming_source(source):
            result = memoranda.grains.put(grain)
    _answer(result, run)


def supersede(
    address: Annotated[str, Parameter(name="ADDRESS", help="The grain to replace.")],
    source: Source,
    /,
    *,
    justification: Annotated[
        str | None, Parameter(help="The reason; written into the new grain.")
    ] = None,
    run: GivenRun,
) -> None:
    """Replace a grain with another, if its policy allows that; the old grain stays in the history."""
    with run.open() as memoranda:
        grain = _read_grain(memoranda, source)
        result = memoranda.grains.supersede(address, grain, justification=justification)
    _answer(result, run)


def _read_grain(memoranda: Memoranda, source: str) -> bytes | dict[str, Any]:
    """Return the grain or the envelope in a file, or its fields with the defaults of the store."""
    content = read_grain(source)
    return content if isinstance(content, bytes) else memoranda.grains.with_defaults(content)


def _answer(result: GrainResult, run: GivenRun) -> None:
    document = {
        "address": result.address,
        "result": result.result,
        "warnings": list(result.warnings),
        "needs_review": result.needs_review,
    }
    if not run.json:
        for warning in result.warnings:
            note(warning)
    run.answer(document, lambda: line(f"{result.address} {result.result}"))

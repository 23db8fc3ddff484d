"""oms put, get, find, supersede, verification, hold, erase, erase-user, consent and rotate-key: grains in the store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import PLACE_NAMES, GivenRun
from memoranda.cli.show import counted, line, note, one_line, table
from memoranda.cli.words import given
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.oms.grains import Stored
    from memoranda.service.oms.views import StoredGrain

Address = Annotated[str, Parameter(name="ADDRESS", help="The grain's address.")]
Source = Annotated[str, Parameter(name="FILE", help="Fields as JSON, a grain, or an envelope; - for standard input.")]
Reason = Annotated[str, Parameter(help="Why; kept in the audit log.")]
Yes = Annotated[bool, Parameter(help="Do not ask.")]
PAGE = 500


def put(source: Source, /, *, run: GivenRun) -> None:
    """Add a grain and print its address. Fields that do not say when get the present moment."""
    from memoranda.bindings.files.mg import placed

    with run.open() as memoranda:
        new = _given(memoranda, source)
        with placed(source):
            stored = memoranda.grains.put(new)
    _tell(stored, run)


def get(
    address: Address,
    /,
    *,
    raw: Annotated[bool, Parameter(help="The bytes in which it travels, and nothing else.")] = False,
    run: GivenRun,
) -> None:
    """Show one grain."""
    with run.open() as memoranda:
        found = memoranda.grains.get(address)
    if raw:
        if sys.stdout.isatty():
            raise InvalidInput("--raw: these are bytes, not text for a terminal; send them to a file")
        sys.stdout.buffer.write(found.delivery)
        sys.stdout.buffer.flush()
        return
    run.answer(found.document(), lambda: _show(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrainFilter:
    """What must be equal."""

    subject: Annotated[str | None, Parameter(help="Only about this subject.")] = None
    relation: Annotated[str | None, Parameter(help="Only with this relation.")] = None
    object: Annotated[str | None, Parameter(help="Only with this object.")] = None
    namespace: Annotated[str | None, Parameter(name=PLACE_NAMES, help="Only in this namespace.")] = None
    user: Annotated[str | None, Parameter(help="Only of this user.")] = None
    type: Annotated[str | None, Parameter(help="Only of this type, such as belief, event or goal.")] = None

    def fields(self) -> dict[str, Any]:
        return given(
            subject=self.subject,
            relation=self.relation,
            object=self.object,
            namespace=self.namespace,
            user_id=self.user,
            type=self.type,
        )


ANYTHING = GrainFilter()


def find(
    *,
    text: Annotated[str | None, Parameter(help="By words, best first.")] = None,
    wanted: GrainFilter = ANYTHING,
    limit: Annotated[int, Parameter(help="At most so many; 20 unless said.")] = 20,
    every: Annotated[bool, Parameter(name="--all", help="All of them, whatever the limit.")] = False,
    superseded: Annotated[bool, Parameter(help="What was superseded too.")] = False,
    run: GivenRun,
) -> None:
    """Find grains by what they are about, by words, or both."""
    from memoranda.standards.oms.requests import FindRequest

    asked = {**wanted.fields(), **given(text=text), "limit": PAGE if every else limit}
    if superseded:
        asked["current"] = False
    results: list[Any] = []
    with run.open() as memoranda:
        cursor: str | None = None
        while True:
            request = FindRequest.parse({**asked, **given(cursor=cursor)})
            page = memoranda.grains.find(request)
            results += page.results
            cursor = page.next_cursor
            if cursor is None or not every:
                break
    rows = [(each.stored.address, each.stored.grain.type_name, _said(each.stored)) for each in results]
    documents = [each.document() for each in results]
    run.answer(
        {"results": documents, "more": cursor is not None},
        lambda: table(("address", "type", "what it says"), rows, when_empty="no grains found"),
    )
    if cursor is not None and not run.json:
        note("there are more; see them with --limit or --all")


def supersede(
    address: Annotated[str, Parameter(name="ADDRESS", help="The grain to replace.")],
    source: Source,
    /,
    *,
    justification: Annotated[str | None, Parameter(help="Why; written into the new grain.")] = None,
    run: GivenRun,
) -> None:
    """Replace a grain by another, under its policy; the old one stays in the history."""
    with run.open() as memoranda:
        new = _given(memoranda, source)
        stored = memoranda.grains.supersede(address, new, justification=justification)
    _tell(stored, run)


def verification(
    address: Address,
    status: Annotated[
        Literal["unverified", "verified", "contested", "retracted"], Parameter(help="What is known of its truth.")
    ],
    /,
    *,
    reason: Reason = "",
    by: Annotated[str | None, Parameter(help="The address of the grain that speaks against it.")] = None,
    run: GivenRun,
) -> None:
    """Say what is known of a grain's truth; the grain itself does not change."""
    with run.open() as memoranda:
        said = memoranda.grains.set_verification(address, status, reason=reason, by=by)
    run.answer({"address": address, "verification_status": said}, lambda: line(f"{address} {said}"))


def hold(
    address: Address,
    /,
    *,
    reason: Reason,
    release: Annotated[bool, Parameter(help="Lift the hold.")] = False,
    run: GivenRun,
) -> None:
    """Put a legal hold on a grain: nobody can supersede or erase it until it is lifted."""
    with run.open() as memoranda:
        held = memoranda.grains.set_hold(address, held=not release, reason=reason)
    run.answer({"address": address, "held": held}, lambda: line(f"{address} {'held' if held else 'released'}"))


def erase(address: Address, /, *, reason: Reason, yes: Yes = False, run: GivenRun) -> int:
    """Erase one grain for good, as the law may demand. Holds are honoured."""
    if not _confirmed(f"Erase {address} for good?", yes):
        return 1
    with run.open() as memoranda:
        memoranda.grains.erase(address, reason=reason)
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
    """Erase everything of a user and destroy the user's key. Exit code 1 if a hold kept something."""
    if not _confirmed(f"Erase everything of {one_line(user)} for good?", yes):
        return 1
    with run.open() as memoranda:
        done = memoranda.grains.erase_user(user, reason=reason)
    key = "the key is destroyed" if done.key_destroyed else "no key was destroyed"
    run.answer(
        {"erased": done.erased, "held": done.held, "key_destroyed": done.key_destroyed},
        lambda: line(f"{counted(done.erased, 'memory', 'memories')} erased, {done.held} kept by a hold, {key}"),
    )
    return 1 if done.held else 0


def consent(
    *,
    subject: Annotated[str, Parameter(help="Whose data it is: a DID.")],
    grantee: Annotated[str, Parameter(help="Who wants to use it: a DID.")],
    scope: Annotated[str, Parameter(help="For what; retrieve unless said.")] = "retrieve",
    run: GivenRun,
) -> int:
    """Show the consent under which someone may use a person's memories, now. Exit code 1 if there is none."""
    with run.open() as memoranda:
        address = memoranda.grains.consent(subject=subject, grantee=grantee, scope=scope)
    run.answer({"consent": address}, lambda: line(address) if address else note("there is no such consent"))
    return 0 if address else 1


def rotate_key(*, run: GivenRun) -> None:
    """Make a new master key and wrap every user's key under it; nothing is encrypted anew."""
    with run.open() as memoranda:
        count = memoranda.grains.rotate_master_key()
    run.answer({"keys": count}, lambda: line(f"{counted(count, 'key')} wrapped under a new master key"))


def _given(memoranda: Memoranda, source: str) -> bytes | dict[str, Any]:
    from memoranda.bindings.files.mg import read_one

    found = read_one(source)
    return found if isinstance(found, bytes) else memoranda.grains.with_defaults(found)


def _tell(stored: Stored, run: GivenRun) -> None:
    document = {
        "address": stored.address,
        "result": stored.result,
        "warnings": list(stored.warnings),
        "needs_review": stored.needs_review,
    }
    if not run.json:
        for warning in stored.warnings:
            note(warning)
    run.answer(document, lambda: line(f"{stored.address} {stored.result}"))


def _show(found: StoredGrain) -> None:
    from memoranda.encoding.json_text import dump

    line(f"{found.address}  {found.grain.type_name}", "bold")
    document = found.document()
    for name, value in document["grain"].items():
        line(f"  {name}: {one_line(value if isinstance(value, str) else dump(value).decode('utf-8'))}")
    known = [f"{name} {value}" for name, value in document["index"].items()]
    known += ["on hold"] if found.is_held else []
    known += ["needs review"] if found.needs_review else []
    known += [] if found.is_native else ["a view: written through another standard"]
    line("  " + ", ".join(known), "dim")


def _said(stored: StoredGrain) -> str:
    from memoranda.standards.oms.mapping import text_of

    return text_of(stored.grain)[:200]


def _confirmed(question: str, yes: bool) -> bool:
    if yes or not sys.stdin.isatty():
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    note("nothing was erased")
    return False

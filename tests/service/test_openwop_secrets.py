"""SR-1: what a run's vault resolved reaches neither the disk nor a log by any way; and the policy for the rest."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from memoranda.encoding.detection import Policy
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound
from memoranda.keys import MasterKeyFile
from memoranda.service.cal import evolve
from memoranda.service.openwop import memory
from memoranda.service.openwop.secrets import CommandResolver, EnvironmentResolver, FileResolver, Resolved, Vault
from memoranda.service.openwop.workspace import INDEX_PATH
from memoranda.standards.cal.language.canonical import query_hash
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import strip_integrity
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.embedders import letters
from tests.service.oams_verbs import Oams
from tests.service.test_cal_evolve import bound, session
from tests.service.wop import REF, Wop
from tests.service.world import PEER

SECRET = 'p@ss "word" / 4711 & more'
LOOKS = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Given:
    """A resolver with what it is given."""

    def __init__(self, **secrets: str) -> None:
        self._secrets = secrets

    def resolve(self, secret_id: str) -> Resolved | None:
        value = self._secrets.get(secret_id)
        return None if value is None else Resolved(value, "user")


def world(*resolvers: Any, policy: Policy = "off", **how: Any) -> Wop:
    return Wop(vault=Vault(resolvers, policy=policy), **{"meaning": letters(), **how})


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = world(Given(db=SECRET, short="1234567", long=f"{SECRET}-and-longer", plain="hunter2hunter2"))
    yield wop
    wop.close()


# --- resolvers -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-sr1-scope")
def test_secrets_come_from_the_environment_files_and_commands_each_with_its_scope(tmp_path: Path) -> None:
    (tmp_path / "in-file").write_bytes(b"value from a file\n")
    script = "import sys; print('value of ' + sys.argv[1]) if sys.argv[1] != 'no' else sys.exit(3)"
    resolvers = (
        EnvironmentResolver("APP_SECRET_", environ={"APP_SECRET_IN_ENV": "value from the environment"}),
        EnvironmentResolver("USER_", scope="user", environ={"USER_MY_KEY": "value of the user"}),
        FileResolver(tmp_path),
        CommandResolver([sys.executable, "-c", script], scope="run"),
    )
    wop = world(*resolvers)
    run = wop.begin()

    def stored(secret_id: str) -> str:
        value = wop.wop.resolve_secret(wop.owner, run.run_id, secret_id)
        return str(wop.write(f"<{value}>", run=run)["content"])

    # The platform's own credentials are not the run's (SR-1, scope).
    assert stored("in-env") == "<value from the environment>"
    assert stored("my-key") == "<[REDACTED:my-key]>"
    assert stored("in-file") == "<[REDACTED:in-file]>"
    assert stored("from.command") == "<[REDACTED:from.command]>"
    with pytest.raises(NotFound):
        stored("no")
    for bad in ("", "../in-file", "/etc/passwd", "-rf", ".hidden", "a b", "a\x00b", "x" * 129, "a\nb"):
        with pytest.raises(InvalidInput):
            stored(bad)
    wop.close()


def test_a_resolver_that_fails_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"x" * 70_000)
    assert CommandResolver(str(tmp_path / "missing")).resolve("a") is None
    assert CommandResolver([sys.executable, "-c", "import sys; sys.exit(1)"]).resolve("a") is None
    assert CommandResolver([sys.executable, "-c", "print('x' * 70000)"]).resolve("a") is None
    assert FileResolver(tmp_path).resolve("missing") is None
    with pytest.raises(InvalidInput, match="larger"):
        FileResolver(tmp_path).resolve("huge")


def test_no_secret_for_a_run_that_is_not_there_or_over_or_another_tenants(wop: Wop) -> None:
    ann = wop.key("did:example:ann")
    run, done = wop.begin(), wop.finish(wop.begin())
    for access, run_id in ((wop.owner, "run_unknown"), (wop.owner, done.run_id), (ann, run.run_id)):
        with pytest.raises(MemorandaError):
            wop.wop.resolve_secret(access, run_id, "db")
        with pytest.raises(MemorandaError):
            wop.wop.register_secret(access, run_id, "db", SECRET)
    assert not _known(wop)


# --- redaction -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-sr1-tags")
def test_every_value_goes_the_longest_first_wherever_it_stands_and_from_the_tags_too(wop: Wop) -> None:
    run = wop.begin()
    for secret_id in ("db", "long", "short", "plain"):
        wop.wop.resolve_secret(wop.owner, run.run_id, secret_id)
    made = wop.write(
        f"a{SECRET}b {SECRET}-and-longer 1234567 hunter2hunter2", f"key:{SECRET}", "hunter2hunter2", run=run
    )
    assert made["content"] == "a[REDACTED:db]b [REDACTED:long] 1234567 [REDACTED:plain]"
    assert made["tags"] == ["key:[REDACTED:db]", "[REDACTED:plain]"]
    assert wop.read(made["id"]) == made
    assert wop.contents(tag="hunter2hunter2") == []
    assert wop.contents(rank="relevance", query="hunter2hunter2") == []
    quoted = wop.write('p%40ss%20%22word%22%20%2F%204711%20%26%20more and p@ss \\"word\\" / 4711 & more', run=run)
    assert quoted["content"] == "[REDACTED:db] and [REDACTED:db]"


def test_markers_of_other_hosts_become_ours_and_none_is_dropped(wop: Wop) -> None:
    made = wop.write("Uses [BYOK:hk_live] and <REDACTED:db-prod> and [REDACTED:ours].", "[BYOK:hk_live]")
    assert made["content"] == "Uses [REDACTED:hk_live] and [REDACTED:db-prod] and [REDACTED:ours]."
    assert made["tags"] == ["[REDACTED:hk_live]"]
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    assert wop.write("[BYOK:hunter2hunter2]", run=run)["content"] == "[REDACTED:plain]"


def test_a_registry_belongs_to_one_run_of_one_tenant_and_ends_with_it(wop: Wop) -> None:
    ann = wop.key("did:example:ann")
    run, other = wop.begin(run_id="same"), wop.begin(run_id="other")
    theirs = wop.begin(run_id="same", access=ann)
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    assert wop.write("hunter2hunter2", run=other)["content"] == "hunter2hunter2"
    # Whether somebody else's text is redacted would tell what somebody else's secret is.
    assert wop.write("hunter2hunter2", run=theirs, access=ann)["content"] == "hunter2hunter2"
    wop.wop.finish_run(ann, theirs.run_id)
    assert wop.write("hunter2hunter2", run=run)["content"] == "[REDACTED:plain]"
    (known,) = _known(wop).values()
    assert len(known) == 1
    wop.finish(run)
    assert not _known(wop)
    assert len(known) == 0
    assert not known.occurs_in("hunter2hunter2")


def test_what_a_run_puts_anywhere_else_is_redacted_too(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    wop.write("x", run=run, node_id="hunter2hunter2", agent_id="hunter2hunter2")
    wop.wop.emit(wop.owner, run.run_id, "acme.thing", {"hunter2hunter2": ["hunter2hunter2"]}, node_id="hunter2hunter2")
    file = wop.wop.write_file(wop.owner, "A.md", "with hunter2hunter2", run_id=run.run_id)
    assert file["content"] == "with [REDACTED:plain]"
    attempts: list[Callable[[], object]] = [
        lambda: wop.write("x", ref="mem://hunter2hunter2", run=run),
        lambda: wop.wop.write_file(wop.owner, "hunter2hunter2.md", "x", run_id=run.run_id),
    ]
    for named in attempts:
        with pytest.raises(InvalidInput, match="holds a secret"):
            named()
    wop.finish(
        run,
        status="failed",
        variables={"answer": "hunter2hunter2"},
        error={"code": "boom", "message": "hunter2hunter2 did not work", "details": {"key": "hunter2hunter2"}},
    )
    told = str([wop.log(run), wop.wop.snapshot(wop.owner, run.run_id), wop.wop.files(wop.owner)])
    assert "hunter2hunter2" not in told
    assert told.count("[REDACTED:plain]") >= 6


@pytest.mark.requirement("WOP-3-workspace-redaction")
def test_workspace_files_are_redacted_as_entries_are(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "db")
    made = wop.wop.write_file(wop.owner, "A.md", f"{SECRET} and [BYOK:other]", run_id=run.run_id)
    assert made["content"] == "[REDACTED:db] and [REDACTED:other]"
    assert wop.wop.file(wop.owner, "A.md", 1)["content"] == "[REDACTED:db] and [REDACTED:other]"


# --- carried forward -----------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-sr1-derived")
@pytest.mark.requirement("WOP-3-distillation-retention")
def test_what_is_made_of_entries_goes_through_the_same_redaction(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    # An entry that was there before the secret was known, and whose marker is another host's.
    _plant(wop, "The vault key is hunter2hunter2 and the other is [BYOK:hk_live] today.")
    archive = wop.wop.distill(wop.owner, REF, run_id=run.run_id)
    assert "[REDACTED:plain]" in archive.entry["content"]
    assert "hunter2hunter2" not in archive.entry["content"]
    assert "[BYOK:" not in archive.entry["content"]
    given = wop.wop.distill(wop.owner, REF, given=["It is hunter2hunter2 now.", "See <REDACTED:x>."], run_id=run.run_id)
    assert "[REDACTED:plain]" in given.entry["content"]
    assert "[REDACTED:x]" in given.entry["content"]
    # An archive that was made before the secret was known, distilled again.
    old = wop.wop.distill(wop.owner, "other", given=["The vault key is hunter2hunter2 since May."]).entry["content"]
    assert "hunter2hunter2" in old
    again = wop.wop.distill(wop.owner, "other", given=[old], run_id=run.run_id).entry["content"]
    assert "[REDACTED:plain]" in again
    assert "hunter2hunter2" not in again
    compacted = wop.wop.compact(wop.owner, REF)
    assert "[REDACTED:hk_live]" in compacted.entry["content"]
    assert "[BYOK:" not in str(wop.entries())


def test_a_consolidation_leaves_only_what_was_redacted(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    for _ in range(2):
        wop.write("The service signs its calls with hunter2hunter2.", run=run)
        wop.advance(1)
    wop.finish(run)
    assert len(wop.wop.consolidate(wop.owner, REF).taken) == 1
    assert wop.contents() == ["The service signs its calls with [REDACTED:plain]."]


# --- nowhere -------------------------------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.requirement("WOP-3-sr1-disk")
@pytest.mark.parametrize("coverage", [None, "all"])
def test_the_plaintext_is_nowhere(tmp_path: Path, coverage: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    home = tmp_path / "home"
    home.mkdir()
    cipher = None
    if coverage:
        cipher = RingCipher(SqliteKeyRing(home / "keyring.db"), MasterKeyFile(home / "master.key"), "all")
    wop = world(Given(db=SECRET, plain="Xylophonist77"), policy="warn", path=home / "m.db", cipher=cipher)
    run = wop.begin()
    for secret_id in ("db", "plain"):
        wop.wop.resolve_secret(wop.owner, run.run_id, secret_id)
    errors: list[str] = []
    for attempt in _everything(wop, run.run_id):
        try:
            attempt()
        except MemorandaError as error:
            errors.append(f"{error!r} {error.message} {getattr(error, 'details', '')}")
    told = [
        str(errors),
        str(wop.all_logs()),
        str(wop.entries(limit=1000)),
        str(wop.service.audit(wop.owner, {})),
        str(list(wop.service.export(wop.owner))),
        str([wop.wop.file(wop.owner, file["path"]) for file in wop.wop.files(wop.owner)]),
        str([each.document() for each in wop.wop.commitments(wop.owner)]),
        str([wop.wop.snapshot(wop.owner, each.run_id) for each in wop.wop.runs(wop.owner)]),
        repr(wop.context.secrets),
        caplog.text,
    ]
    spellings = [SECRET, "Xylophonist77"]
    spellings += [value.replace('"', '\\"') for value in spellings]
    for text in told:
        assert not [value for value in spellings if value in text], text[:2000]
    assert "REDACTED" in told[2]
    files = [path for path in home.rglob("*") if path.is_file()]
    assert len(files) >= 2, "the write-ahead log is looked at too"
    _nothing_in(files, spellings)
    wop.close()
    _nothing_in([path for path in home.rglob("*") if path.is_file()], spellings)


def _everything(wop: Wop, run_id: str) -> Iterator[Callable[[], object]]:
    """Everything that a run can say, with the secrets in it."""
    owner, said = wop.owner, f"Remind me to rotate {SECRET} and Xylophonist77 tomorrow at 9:00."
    for secret in (SECRET, "Xylophonist77"):
        yield lambda secret=secret: wop.write(said, f"tag {secret}", run_id=run_id, node_id=secret, agent_id=secret)  # type: ignore[misc]
        yield lambda secret=secret: wop.write("x", ref=f"mem://{secret}", run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.write("x" * 2_000_000 + secret, run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.write(secret, expires=1, run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.emit(owner, run_id, "acme.x", {secret: secret}, node_id=secret)  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.emit(owner, run_id, "acme.x", {"v": secret * 9_000})  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.write_file(owner, "A.md", secret, run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.write_file(owner, f"{secret}.md", secret, run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.distill(owner, REF, given=[f"It is {secret}."], run_id=run_id)  # type: ignore[misc]
        yield lambda secret=secret: wop.wop.distill(owner, REF, given=[secret * 99], token_budget=9, run_id=run_id)  # type: ignore[misc]
    yield lambda: wop.wop.infer_commitments(owner, REF)
    yield lambda: wop.wop.consolidate(owner, REF)
    yield lambda: wop.wop.distill(owner, REF)
    yield lambda: wop.wop.compact(owner, REF)
    yield lambda: wop.wop.finish_run(
        owner, run_id, status="failed", variables={"a": said}, error={"code": "x", "message": said}
    )


def _nothing_in(files: list[Path], values: list[str]) -> None:
    for path in files:
        data = path.read_bytes()
        for value in values:
            for form in (value.encode(), value.encode("utf-16-le"), value.lower().encode()):
                assert form not in data, path.name


def test_a_registry_can_neither_be_stored_nor_shown(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    (known,) = _known(wop).values()
    assert "hunter2" not in repr(known) + str(known) + repr(Resolved("hunter2hunter2", "user"))
    with pytest.raises(TypeError):
        pickle.dumps(known)


# --- what merely looks like one ------------------------------------------------------------------------------


def _ump(wop: Wop) -> str:
    return str(wop.get(wop.remember(f"The token is {LOOKS} today."))["body"])


def _ump_structured(wop: Wop) -> str:
    return str(
        wop.get(wop.remember("A token.", body={"text": "A token.", "structured": {"deep": [{"key": LOOKS}]}}))["body"]
    )


def _ump_revised(wop: Wop) -> str:
    name = wop.remember("Nothing yet.")
    return str(wop.get(wop.revise(name, body={"text": f"The token is {LOOKS} today."}))["body"])


def _oms(wop: Wop) -> str:
    return str(wop.grain(wop.put(object=f"the token {LOOKS} today")).grain.fields["object"])


def _oms_superseded(wop: Wop) -> str:
    first = wop.put(object="nothing yet")
    return str(wop.grain(wop.supersede(first, object=f"the token {LOOKS} today")).grain.fields["object"])


def _oams(wop: Wop) -> str:
    oams = Oams(wop)
    oams.store("k", f"The token is {LOOKS} today.", tags=[f"t {LOOKS}"], metadata={"deep": {"key": LOOKS}})
    return str(oams.get("k"))


def _openwop(wop: Wop) -> str:
    return str(wop.write(f"The token is {LOOKS} today.", f"t {LOOKS}"))


def _file(wop: Wop) -> str:
    return str(wop.wop.write_file(wop.owner, "A.md", f"The token is {LOOKS} today."))


def _cal(wop: Wop) -> str:
    text = f'ADD belief SET subject = "ci" SET relation = "uses" SET object = "the token {LOOKS}" REASON "saw {LOOKS}"'
    query = bound(text)
    done = evolve.run(wop.context, session(wop), query, query_hash(query))
    return str(wop.grain(str(done["new_hash"]).removeprefix("sha256:")).grain.fields) + str(
        wop.service.audit(wop.owner, {})
    )


def _distilled(wop: Wop) -> str:
    return str(wop.wop.distill(wop.owner, REF, given=[f"The token is {LOOKS} today."]).entry)


WRITES = [_ump, _ump_structured, _ump_revised, _oms, _oms_superseded, _oams, _openwop, _file, _cal, _distilled]


@pytest.mark.parametrize("policy", get_args(Policy))
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_what_looks_like_a_secret_is_left_reported_or_replaced_in_every_standard(
    policy: Policy, write: Callable[[Wop], str], caplog: pytest.LogCaptureFixture
) -> None:
    wop = world(policy=policy)
    caplog.set_level(logging.WARNING)
    shown = write(wop)
    assert (LOOKS in shown) == (policy != "redact")
    assert ("[REDACTED:detected-github-token]" in shown) == (policy == "redact")
    assert ("looks like a secret" in caplog.text) == (policy != "off")
    assert LOOKS not in caplog.text
    wop.close()


@pytest.mark.parametrize("policy", get_args(Policy))
def test_what_is_finished_is_refused_under_redact(policy: Policy, caplog: pytest.LogCaptureFixture) -> None:
    wop = world(policy="off")
    name = wop.remember(f"The token is {LOOKS} today.", access=wop.owner)
    record = wop.get(name)
    grain = wop.grain(wop.put(object=f"the token {LOOKS}")).grain.blob
    wop.close()
    wop = world(policy=policy)
    signed = signature.seal({**strip_integrity(record), "id": ""}, PEER)
    for take in (
        lambda: wop.service.remember(wop.owner, signed),
        lambda: wop.service.grains.put(wop.owner, grain),
    ):
        if policy == "redact":
            with pytest.raises(InvalidInput, match="looks like a secret") as refused:
                take()
            assert LOOKS not in refused.value.message
        else:
            take()
    assert ("looks like a secret" in caplog.text) == (policy == "warn")
    assert LOOKS not in caplog.text
    wop.close()


def test_the_index_of_archives_holds_no_content(wop: Wop) -> None:
    run = wop.begin()
    wop.wop.resolve_secret(wop.owner, run.run_id, "plain")
    wop.wop.distill(wop.owner, REF, given=["Kumquats and hunter2hunter2."], run_id=run.run_id)
    content = wop.wop.file(wop.owner, INDEX_PATH)["content"]
    assert "umquat" not in content
    assert "hunter2" not in content


def _known(wop: Wop) -> dict[Any, Any]:
    return wop.context.secrets._runs


def _plant(wop: Wop, content: str) -> None:
    """What a host before us, or an import, left in the store."""
    new = memory.prepare(wop.context, wop.owner.default_tenant, REF, Draft(content=content), wop.now)
    wop.engine.write(wop.owner.default_tenant, lambda unit: memory.append(unit, new, wop.now))


# --- restarts and other processes ----------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.requirement("WOP-3-sr1")
@pytest.mark.parametrize("how", ["registered", "resolved"])
def test_a_secret_stays_secret_in_another_process_and_after_a_restart(tmp_path: Path, how: str) -> None:
    path, value = tmp_path / "store.db", "hunter2hunter2"
    first = world(Given(db=value), path=path)
    run = first.wop.begin_run(first.owner, "w")
    if how == "registered":
        assert first.wop.register_secret(first.owner, run.run_id, "db", f" {value} ")
    else:
        assert first.wop.resolve_secret(first.owner, run.run_id, "db") == value
    other = world(path=path)
    for act in (
        lambda: other.write(f"the password is {value}", run=run),
        lambda: other.wop.emit(other.owner, run.run_id, "note", {"said": value}),
        lambda: other.wop.write_file(other.owner, "a.md", value, run_id=run.run_id),
        lambda: other.wop.distill(other.owner, REF, given=[value], run_id=run.run_id),
        lambda: other.wop.finish_run(other.owner, run.run_id, variables={"said": value}),
    ):
        with pytest.raises(Conflict, match="register them again"):
            act()
    # Whoever knew it goes on; the other does once it is told, and another secret is not that one.
    assert first.write(f"the password is {value}", run=run)["content"] == "the password is [REDACTED:db]"
    other.wop.register_secret(other.owner, run.run_id, "db", "another-secret")
    with pytest.raises(Conflict, match="register them again"):
        other.write(f"the password is {value}", run=run)
    other.wop.register_secret(other.owner, run.run_id, "db", value)
    assert other.write(f"the password is {value}", run=run)["content"] == "the password is [REDACTED:db]"
    branch = other.wop.fork(other.owner, run.run_id, mode="branch", from_seq=1)
    with pytest.raises(Conflict, match="register them again"):
        other.write(f"the password is {value}", run=branch)
    first.close()
    other.close()
    assert value.encode() not in path.read_bytes()

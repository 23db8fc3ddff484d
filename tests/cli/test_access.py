"""key, token, audit and doctor."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import apsw
import pytest
from tests.cli.conftest import Command


def test_the_operator_is_one_line_and_stays_the_same(run: Command, home: Path) -> None:
    first = run("key", "show", "--operator")
    assert re.fullmatch(r"did:key:z6Mk\w+\n", first.out)
    assert run("key", "show", "--operator").out == first.out
    assert (home / "operator.key").stat().st_mode & 0o777 == 0o600
    assert run("key", "show").code == 1


def test_a_key_is_printed_alone_listed_without_its_secret_and_revoked(run: Command) -> None:
    made = run("key", "add", "laptop", "--tenant", "did:key:zT", "--scopes", "read, write")
    assert re.fullmatch(r"mk_\w+_\w+\n", made.out)
    assert made.err == ""
    (listed,) = run("key", "list", "--json").json["keys"]
    assert (listed["name"], listed["tenant"], listed["scopes"]) == ("laptop", "did:key:zT", ["read", "write"])
    assert made.out.strip().split("_")[2] not in run("key", "list").out
    assert run("key", "revoke", "laptop").code == 0
    assert run("key", "list", "--json").json["keys"][0]["revoked"] is not None
    assert run("key", "revoke", "laptop").code == 1
    assert "unknown scope" in run("key", "add", "x", "--scopes", "fly").err


def test_an_owners_key_that_was_revoked_is_named_by_the_doctor_and_replaced_with_a_word_about_it(
    run: Command, home: Path
) -> None:
    credential = home / "owner.credential"
    assert run("console").err.startswith("memoranda: no server answers at http://127.0.0.1:")
    first = credential.read_text()
    refused = run("key", "revoke", "owner")
    assert refused.code == 1
    assert "it is the key in use here" in refused.err
    assert "memoranda key revoke owner --yes" in refused.err
    assert run("doctor").code == 0
    assert run("key", "revoke", "owner", "--yes").code == 0
    (finding,) = [each for each in run("doctor", "--json").json["findings"] if each["what"] == "owner's key"]
    assert not finding["ok"]
    assert "this API key was revoked" in finding["seen"]
    assert "memoranda console" in finding["mend"]
    opened = run("console")
    assert opened.code == 0
    assert f"the key in {credential} is not valid any more (this API key was revoked), so a new one" in opened.err
    assert "/console/enter?link=" in opened.out
    assert credential.read_text() != first
    assert credential.stat().st_mode & 0o777 == 0o600
    assert "is not valid any more" not in run("console").err
    assert run("doctor").code == 0
    assert [key["revoked"] is None for key in run("key", "list", "--json").json["keys"]] == [False, True]


@pytest.mark.parametrize("text", ["", "mk_aaaaaaaa_bbbb\n", "umpcap.a.b", "\u0000", "mk_\u00e9_x"])
def test_an_owners_key_that_this_store_does_not_know_is_replaced(run: Command, home: Path, text: str) -> None:
    run("remember", "one")
    (home / "owner.credential").write_text(text)
    (home / "owner.credential").chmod(0o600)
    assert run("doctor").code == 1
    assert "is not valid any more" in run("console").err
    assert run("doctor").code == 0


def test_a_token_in_the_place_of_the_owners_key_is_replaced(run: Command, home: Path) -> None:
    token = run("token", "mint", "--verbs", "read").out
    (home / "owner.credential").write_text(token)
    assert "(it is no API key)" in run("console").err


def test_the_last_key_of_an_owner_that_may_do_everything_is_not_revoked_by_one_word(run: Command) -> None:
    everything = "read,write,derive,export,activate,erase"
    for name, scopes in (("first", everything), ("second", everything), ("small", "read")):
        run("key", "add", name, "--tenant", "ada", "--scopes", scopes)
    run("key", "add", "other", "--tenant", "bob", "--scopes", everything)
    assert run("key", "revoke", "first").code == 0
    assert run("key", "revoke", "small").code == 0
    refused = run("key", "revoke", "second")
    assert refused.code == 1
    assert "it is the last key of its owner that may do everything" in refused.err
    assert run("key", "revoke", "second", "--yes").code == 0


def test_a_key_without_a_tenant_is_the_owners(run: Command) -> None:
    run("key", "add", "mine")
    operator = run("key", "show", "--operator").out.strip()
    assert run("key", "list", "--json").json["keys"][0]["tenant"] == operator


def test_a_token_is_printed_alone_says_what_it_says_and_can_be_revoked(run: Command) -> None:
    options = ("--verbs", "read,write", "--project", "p", "--agent", "a", "--visibility", "shared")
    made = run("token", "mint", *options, "--owner", "did:key:zO", "--aud", "did:key:zA", "--ttl", "15m")
    assert re.fullmatch(r"umpcap\.\S+\n", made.out)
    token = made.out.strip()
    found = run("token", "inspect", token, "--json").json
    assert found["verdict"] == "valid"
    assert found["claims"]["verbs"] == ["read", "write"]
    scope = {"owner": "did:key:zO", "project": "p", "agent": "a", "visibility": "shared"}
    assert found["claims"]["scope"] == scope
    assert found["claims"]["aud"] == "did:key:zA"
    assert 890 <= found["expires_in_seconds"] <= 900
    assert run("token", "revoke", token).code == 0
    inspected = run("token", "inspect", token)
    assert inspected.code == 1
    assert "revoked" in inspected.out


def test_spans_of_time_are_read_in_both_ways(run: Command) -> None:
    for text, seconds in (("90s", 90), ("7d", 604_800), ("PT2H", 7_200)):
        token = run("token", "mint", "--verbs", "read", "--ttl", text).out.strip()
        left = run("token", "inspect", token, "--json").json["expires_in_seconds"]
        assert seconds - 10 <= left <= seconds
    wrong = run("token", "mint", "--verbs", "read", "--ttl", "soon")
    assert wrong.code == 1
    assert "--ttl: 'soon' is not a duration" in wrong.err


def test_a_token_that_is_none_is_refused_in_one_sentence(run: Command) -> None:
    ran = run("token", "inspect", "umpcap.x.y")
    assert ran.code == 1
    assert ran.err.count("\n") == 1


def test_the_audit_log_shows_and_checks_what_was_done(run: Command) -> None:
    name = run("remember", "one", "--json").json["id"]
    run("recall", "one")
    events = run("audit", "--op", "remember", "--json").json["events"]
    assert [(event["op"], event["targets"]) for event in events] == [("remember", [name])]
    assert len(run("audit", "--target", name).out.splitlines()) == 2
    assert run("audit", "--since", "2999-01-01", "--json").json["events"] == []
    assert run("audit", "--verify", "--json").json == {"ok": True, "count": 2}
    assert "limit must be" in run("audit", "--limit", "0").err
    assert run("audit", "prune", "--before", "2999-01-01", "--json").json == {"pruned": 2}
    assert run("audit", "--verify", "--json").json == {"ok": True, "count": 1, "pruned": 2}
    assert "2 before them were pruned" in run("audit", "--verify").out


def test_the_doctor_finds_all_well_and_says_how_to_mend_what_is_not(run: Command, home: Path) -> None:
    assert "does not exist yet" in run("doctor").out
    run("remember", "one")
    well = run("doctor", "--json")
    assert (well.code, well.json["ok"]) == (0, True)
    home.chmod(0o755)
    ran = run("doctor")
    assert ran.code == 1
    assert f"chmod 700 {home}" in ran.out
    home.chmod(0o700)
    (home / "operator.key").chmod(0o644)
    open_key = run("doctor", "--json")
    assert open_key.code == 1
    assert any("chmod 600" in finding.get("mend", "") for finding in open_key.json["findings"])


def test_a_damaged_word_index_is_found_by_the_doctor_and_made_anew(run: Command, home: Path) -> None:
    run("remember", "use pnpm, never npm")
    assert "search index: up to date" in run("doctor").out
    with apsw.Connection(str(home / "memoranda.db")) as connection:
        connection.execute("DELETE FROM segment")
    ran = run("doctor")
    assert ran.code == 1
    assert "memoranda reindex" in ran.out
    assert run("verify").code == 1
    assert "1 version indexed" in run("reindex").out
    assert run("doctor").code == run("verify").code == 0
    assert "use pnpm" in run("recall", "pnpm").out


def test_the_doctor_recognises_a_file_that_is_no_database(run: Command, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "memoranda.db").write_bytes(b"not a database" * 1000)
    (home / "memoranda.db").chmod(0o600)
    ran = run("doctor")
    assert ran.code == 1
    assert "WRONG  store" in ran.out


def test_keys_expire_are_limited_changed_and_replaced(run: Command, home: Path) -> None:
    assert run("key", "add", "ci", "--expires", "3d", "--writes-per-day", "3", "--requests-per-minute", "60").code == 0
    (ci,) = run("key", "list", "--json").json["keys"]
    assert ci["limits"] == {"requests_per_minute": 60, "writes_per_day": 3}
    assert (ci["used"], ci["revoked"], ci["expires"] > ci["created"]) == (None, None, True)
    assert "60 requests/min, 3 writes/day" in run("key", "list").out
    doctor = run("doctor")
    assert doctor.code == 1
    assert f"WRONG  API key: ci ({ci['id']}) expires in 2 days" in doctor.out
    assert f"memoranda key rotate {ci['id']}" in doctor.out
    changed = run("key", "change", "ci", "--expires", "2999-01-01", "--writes-per-day", "0", "--json").json
    assert changed["expires"] == "2999-01-01T00:00:00.000Z"
    assert changed["limits"] == {"requests_per_minute": 60, "writes_per_day": 0}
    assert run("doctor").code == 0
    rotated = run("key", "rotate", "ci", "--overlap", "1d", "--expires", "90d", "--json").json
    assert rotated["replaces"] == ci["id"]
    new = run("key", "list", "--json").json["keys"][1]
    assert (new["replaces"], new["limits"]) == (ci["id"], changed["limits"])
    assert new["expires"] < changed["expires"]
    assert run("key", "change", "ci", "--expires", "never", "--json").json["id"] == new["id"]
    for wrong in ("2000-01-01", "soon", "2026-13-01", "0s"):
        assert run("key", "add", "x", "--expires", wrong).code == 1
    assert run("key", "add", "x", "--writes-per-day", "-1").code == 2
    assert run("key", "rotate", "ci", "--overlap", "99w").code == 1
    assert run("key", "rotate", "nobody").code == 1


def test_the_owners_key_is_replaced_in_its_file(run: Command, home: Path) -> None:
    run("console")
    before = (home / "owner.credential").read_text()
    ran = run("key", "rotate", "owner")
    assert ran.code == 0
    assert (home / "owner.credential").read_text() == ran.out != before
    assert run("doctor").code == 0


def test_an_owner_is_limited_exported_and_deleted(run: Command, home: Path, tmp_path: Path) -> None:
    run("remember", "mine")
    for text in ("tea", "coffee"):
        run("--owner", "bob", "--new-owner", "remember", text)
    run("key", "add", "laptop", "--tenant", "bob")
    mine, bob = run("tenant", "list", "--json").json["tenants"]
    assert (mine["memories"], bob["owner"], bob["memories"], bob["keys"]) == (1, "bob", 2, 1)
    assert run("tenant", "quota", "bob", "--memories", "2", "--json").json["quota"] == {"memories": 2}
    refused = run("--owner", "bob", "remember", "water")
    assert "2 is the most" in refused.err
    # Rules that the owner sets keep what the operator granted.
    assert run("--owner", "bob", "rules", "--max-bytes", "999999", "--json").json["server"]["memories"] == 2
    assert run("--owner", "bob", "remember", "water").code == 1
    assert run("tenant", "quota", "bob", "--reset", "--json").json["quota"] == {}
    assert run("--owner", "bob", "remember", "water").code == 0
    file = tmp_path / "bob.zip"
    counts = run("tenant", "export", "bob", file, "--json").json["counts"]
    assert (counts["documents"], counts["memories"]) == (3, 3)
    with zipfile.ZipFile(file) as archive:
        assert len(archive.read("audit.ndjson").splitlines()) == counts["audit"] > 3
        (tmp_path / "bob.ndjson").write_bytes(archive.read("memories.ndjson"))
    assert file.stat().st_mode & 0o77 == 0
    assert run("tenant", "delete", "bob").code == 2
    assert "to confirm, add --yes" in run("tenant", "delete", "bob", "--reason", "left").err
    assert run("tenant", "delete", "bob", "--reason", "left", "--yes", "--json").json["memories"] == 3
    assert [tenant["owner"] for tenant in run("tenant", "list", "--json").json["tenants"]] == [mine["owner"]]
    assert run("key", "list", "--json").json["keys"] == []
    assert (run("verify").code, run("doctor").code) == (0, 0)
    (entry,) = run("audit", "--op", "delete_tenant", "--json").json["events"]
    assert "bob" not in str(entry)
    assert run("tenant", "delete", "bob", "--reason", "left", "--yes").code == 1
    assert run("--owner", "bob", "--new-owner", "import", tmp_path / "bob.ndjson").code == 0
    assert run("--owner", "bob", "stats", "--json").json["memories"] == 3

"""openwop and proposals."""

from __future__ import annotations

from tests.cli.conftest import Command

REF = "mem://support/agent-1"


def test_entries_are_put_listed_shown_and_deleted(run: Command) -> None:
    name = run("openwop", "put", REF, "Ada likes tea", "--tag", "taste").out.strip()
    assert name.startswith("mem_")
    (listed,) = run("openwop", "list", REF, "--json").json["entries"]
    assert (listed["id"], listed["content"], listed["tags"]) == (name, "Ada likes tea", ["taste"])
    assert "Ada likes tea" in run("openwop", "list", REF).out
    assert run("openwop", "get", REF, name).out == "Ada likes tea\n"
    refused = run("openwop", "list", REF, "--query", "tea")
    assert (refused.code, "no semantic search" in refused.err) == (1, True)
    assert run("openwop", "delete", REF, name).code == 0
    assert run("openwop", "get", REF, name).code == 1
    assert run("openwop", "delete", REF, name).code == 1


def test_a_project_stands_for_a_ref(run: Command) -> None:
    assert run("openwop", "put", "Ada likes tea", "--project", "the shop").code == 0
    assert run("openwop", "put", "--project", "the shop", piped=b"Ada likes tea very much").code == 0
    found = run("openwop", "list", "--project", "the shop", "--json").json["entries"]
    assert [each["content"] for each in found] == ["Ada likes tea very much", "Ada likes tea"]
    listed = run("list", "--project", "the shop", "--json").json["records"]
    assert {record["body"]["text"] for record in listed} == {each["content"] for each in found}
    name = found[0]["id"]
    assert run("openwop", "get", name, "--project", "the shop").out == "Ada likes tea very much\n"
    assert run("openwop", "delete", name, "--project", "the shop").code == 0
    for verb in ("compact", "consolidate", "commitments", "distill"):
        assert run("openwop", verb, "--project", "the shop").code == 0, verb
    for wrong in (
        ("put", "shop", "text", "--project", "shop"),
        ("list", "shop", "--project", "shop"),
        ("list",),
        ("get", "--project", "shop"),
        ("commitments", "--look"),
    ):
        assert run("openwop", *wrong).code == 1, wrong


def test_an_expiry_that_is_past_is_refused(run: Command) -> None:
    refused = run("openwop", "put", REF, "x", "--expires", "2020-01-01")
    assert refused.code == 1
    assert "already past" in refused.err


def test_a_ref_is_distilled_now_and_by_a_schedule(run: Command) -> None:
    run("openwop", "put", REF, "The deploy takes nine minutes")
    done = run("openwop", "distill", REF, "--budget", "400", "--json").json
    assert done["event"]["payload"]["distillation"]["tokensUsed"] <= 400
    assert "nine minutes" in done["entry"]["content"]
    assert run("openwop", "distill", REF, "--budget", "1").code == 1
    assert "next run at" in run("openwop", "distill", REF, "--every", "0 3 * * *").out
    assert run("openwop", "schedules", "--json").json["schedules"][0]["memoryRef"] == REF
    assert run("openwop", "distill", REF, "--every", "off").code == 0
    assert run("openwop", "schedules", "--json").json["schedules"] == []
    assert run("openwop", "distill", REF, "--every", "whenever").code == 1


def test_what_is_said_twice_is_taken_out_and_brought_back(run: Command) -> None:
    for text in ("Alice prefers dark mode", "Alice prefers dark mode."):
        run("openwop", "put", REF, text)
    done = run("openwop", "consolidate", REF, "--json").json
    assert len(done["taken"]) == 1
    assert len(run("openwop", "list", REF, "--json").json["entries"]) == 1
    undone = run("openwop", "consolidate", "--undo", done["event"]["runId"], "--json").json
    assert undone == {"broughtBack": 1}
    assert len(run("openwop", "list", REF, "--json").json["entries"]) == 2


def test_commitments_are_found_cancelled_and_put_off(run: Command) -> None:
    run("openwop", "put", REF, "Remind me to call Ann tomorrow at 5pm")
    (found,) = run("openwop", "commitments", REF, "--look", "--json").json["commitments"]
    assert found["state"] == "open"
    later = run("openwop", "snooze", found["commitmentId"], "2099-01-01", "--json").json
    assert later["dueAt"].startswith("2099-01-01")
    assert run("openwop", "cancel", found["commitmentId"], "--json").json["state"] == "cancelled"
    assert run("openwop", "snooze", found["commitmentId"], "someday").code == 1
    assert run("openwop", "commitments", "--look").code == 1


def test_an_unknown_time_zone_is_reported(run: Command) -> None:
    run("openwop", "put", REF, "Remind me to call Ann tomorrow at 17:30 Europe/Paris")
    assert "time zone" not in run("openwop", "commitments", REF, "--look").out
    run("openwop", "put", REF, "Remind me to call Bob tomorrow at 17:30 Europe/Pariss")
    found = run("openwop", "commitments", REF, "--look", "--json").json["commitments"]
    assert [each.get("zoneUnknown", False) for each in found] == [False, True]
    listed = " ".join(run("openwop", "commitments", REF).out.split())
    assert f"names an unknown time zone, so the time is in UTC: {found[1]['commitmentId']}" in listed


def test_there_are_no_proposals_without_runs(run: Command) -> None:
    assert run("proposals", "synthesise", "--json").json == {"proposals": []}
    assert run("proposals", "list", "--json").json == {"proposals": []}
    for command in ("show", "apply", "approve", "reject", "archive"):
        assert run("proposals", command, "prop_none").code == 1


def test_distilling_and_commitments_are_commands_of_their_own_too(run: Command) -> None:
    run("remember", "Remind me every day at 8:00 to water the orchids.", "--project", "garden")
    (found,) = run("commitments", "--project", "garden", "--look", "--json").json["commitments"]
    assert run("commitments", "--json").json["commitments"] == [found]
    assert run("commitments", "snooze", found["commitmentId"], "2099-01-01").code == 0
    assert run("commitments", "cancel", found["commitmentId"]).out.strip() == "cancelled"
    assert "water the orchids" in run("distill", "--project", "garden").out

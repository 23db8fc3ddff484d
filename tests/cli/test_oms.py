"""Grains on the command line."""

from __future__ import annotations

import os
import random
import re
import shlex
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests import forking
from tests.cli.conftest import Command

from memoranda.cli import kubernetes
from memoranda.encoding.bases import base64_decode
from memoranda.encoding.json_text import dump, parse
from memoranda.standards.oms import disclosure, grains, signature

ROOT = Path(__file__).parents[2]
TEA: dict[str, Any] = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "user_id": "ada",
}


def file_of(folder: Path, name: str = "tea.json", **fields: Any) -> Path:
    path = folder / name
    path.write_bytes(dump({**TEA, **fields}))
    return path


def put(run: Command, folder: Path, **fields: Any) -> str:
    return str(run("oms", "put", file_of(folder, "put.json", **fields), "--json").json["address"])


# --- files -------------------------------------------------------------------------------------------


def test_grains_are_packed_inspected_verified_and_unpacked(run: Command, home: Path, tmp_path: Path) -> None:
    file_of(tmp_path)
    (tmp_path / "more.ndjson").write_bytes(dump({**TEA, "object": "coffee"}) + b"\n" + dump(TEA) + b"\n")
    made = run("oms", "pack", tmp_path / "a.mg", tmp_path / "tea.json", tmp_path / "more.ndjson")
    assert (made.code, made.out) == (0, f"2 grains packed into {tmp_path / 'a.mg'}, 1 duplicate left out\n")
    shown = run("oms", "inspect", tmp_path / "a.mg", "--limit", "1", "--json").json["files"][0]
    assert (shown["kind"], shown["count"], shown["types"]) == ("container", 2, {"belief": 2})
    assert shown["checksum_ok"] is True
    assert len(shown["grains"]) == 1
    address = grains.encode(TEA).address
    one = run("oms", "inspect", tmp_path / "a.mg", "--address", address, "--json").json["files"][0]["grains"]
    assert [grain["fields"]["object"] for grain in one] == ["tea"]
    assert "object: tea" in run("oms", "inspect", tmp_path / "a.mg").out
    assert run("oms", "verify", tmp_path / "a.mg").out == f"{tmp_path / 'a.mg'}: 2 grains verified\n"
    assert run("oms", "unpack", tmp_path / "a.mg", tmp_path / "out", "--as", "both", "--json").json["unpacked"] == 2
    assert (tmp_path / "out" / f"{address}.grain").read_bytes() == grains.encode(TEA).blob
    assert len((tmp_path / "out" / "grains.ndjson").read_bytes().splitlines()) == 2
    # All of it without a store.
    assert not home.exists()


def test_grains_go_through_pipes(run: Command, tmp_path: Path) -> None:
    assert run("oms", "pack", tmp_path / "a.mg", "-", piped=dump(TEA)).code == 0
    data = (tmp_path / "a.mg").read_bytes()
    assert run("oms", "inspect", "-", "--json", piped=data).json["files"][0]["count"] == 1
    assert run("import", "-", "--format", "mg", "--json", piped=data).json["created"] == 1
    assert run("oms", "put", "-", "--json", piped=dump(TEA)).json["result"] == "exists"


def test_the_order_in_a_file_can_be_chosen(run: Command, tmp_path: Path) -> None:
    late, early = file_of(tmp_path, "late.json"), file_of(tmp_path, "early.json", created_at=1)
    for order, expected in (("given", ["late", "early"]), ("created", ["early", "late"])):
        run("oms", "pack", tmp_path / "a.mg", late, early, "--order", order, "--compress")
        shown = run("oms", "inspect", tmp_path / "a.mg", "--json").json["files"][0]
        assert shown["codec"] == "zstd"
        found = ["early" if grain["fields"]["created_at"] == 1 else "late" for grain in shown["grains"]]
        assert found == expected


def test_signing_wraps_fields_and_tells_when_the_address_changes(run: Command, tmp_path: Path) -> None:
    signed = run("oms", "sign", file_of(tmp_path), "--json").json
    opened = signature.open_envelope((tmp_path / "tea.cose").read_bytes())
    assert (opened.grain.address, opened.signer) == (signed["address"], signed["signer"])
    assert run("key", "show", "--operator").out.strip() == signed["signer"]
    bare = tmp_path / "bare.grain"
    bare.write_bytes(grains.encode(TEA).blob)
    again = run("oms", "sign", bare, "--out", tmp_path / "x.cose")
    assert again.code == 0
    assert f"{grains.encode(TEA).address} is now {signed['address']}" in again.err
    twice = run("oms", "sign", tmp_path / "x.cose")
    assert twice.code == 1
    assert "already signed by" in twice.err
    shown = run("oms", "inspect", tmp_path / "x.cose", "--json").json["files"][0]["grains"][0]
    assert (shown["signer"], shown["signature_ok"]) == (signed["signer"], True)
    assert shown["header"]["flags"] == ["signed"]
    assert run("oms", "verify", tmp_path / "x.cose").code == 0


def test_a_view_hides_a_field_and_its_salts_are_for_its_maker_alone(run: Command, tmp_path: Path) -> None:
    address = put(run, tmp_path)
    view_file = tmp_path / "view.grain"
    assert run("oms", "disclose", address, "--elide", "user_id", "--salted", "--out", view_file).code == 0
    view = grains.decode(view_file.read_bytes())
    assert "user_id" not in view.fields
    kept = tmp_path / "view.grain.salts"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    salts = {name: base64_decode(text) for name, text in parse(kept.read_bytes()).items()}
    assert disclosure.verify_view(view, grains.encode(TEA), salts=salts)
    plain = run("oms", "disclose", file_of(tmp_path), "--elide", "user_id", "--out", tmp_path / "plain.grain")
    assert plain.code == 0
    assert disclosure.verify_view(grains.decode((tmp_path / "plain.grain").read_bytes()), grains.encode(TEA))
    wrong = run("oms", "disclose", address, "--elide", "usr", "--out", tmp_path / "no.grain")
    assert (wrong.code, (tmp_path / "no.grain").exists()) == (1, False)
    assert "no field" in wrong.err


# --- the store ---------------------------------------------------------------------------------------


def test_a_grain_is_put_shown_found_and_superseded(run: Command, tmp_path: Path) -> None:
    address = put(run, tmp_path)
    assert address == grains.encode(TEA).address
    assert run("oms", "put", file_of(tmp_path)).out == f"{address} exists\n"
    document = run("oms", "get", address, "--json").json
    assert document["grain"]["object"] == "tea"
    assert "object: tea" in run("oms", "get", address).out
    assert run("oms", "find", "--subject", "ada", "--type", "belief").out == f"{address}\tbelief\tada prefers tea\n"
    new = file_of(tmp_path, object="coffee")
    replaced = run("oms", "supersede", address, new, "--justification", "asked again", "--json").json
    assert replaced["result"] == "superseded"
    found = run("oms", "find", "--text", "coffee", "--json").json["results"]
    assert [each["content_address"] for each in found] == [replaced["address"]]
    assert run("oms", "get", address, "--json").json["index"]["superseded_by"] == replaced["address"]
    every = run("oms", "find", "--superseded", "--all", "--json").json["results"]
    assert len(every) == 2
    assert run("oms", "find", "--superseded", "--limit", "1", "--json").json["more"] is True


def test_the_bytes_of_a_grain_come_back_as_they_were_put(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMORANDA_HOME": str(tmp_path / "home")}
    blob = tmp_path / "a.grain"
    blob.write_bytes(grains.encode(TEA, cbor=True).blob)

    def memoranda(*tokens: str) -> subprocess.CompletedProcess[bytes]:
        return forking.run([sys.executable, "-m", "memoranda", "oms", *tokens], env=environment)

    stored = memoranda("put", str(blob))
    assert stored.returncode == 0
    raw = memoranda("get", stored.stdout.decode().split()[0], "--raw")
    assert (raw.returncode, raw.stdout, raw.stderr) == (0, blob.read_bytes(), b"")
    gone = memoranda("get", "0" * 64)
    assert (gone.returncode, gone.stdout) == (1, b"")
    assert gone.stderr.count(b"\n") == 1
    assert memoranda("get").returncode == 2


def test_holds_verdicts_and_erasures_are_obeyed(run: Command, tmp_path: Path) -> None:
    address = put(run, tmp_path)
    assert run("oms", "verification", address, "contested", "--reason", "doubtful").out == f"{address} contested\n"
    assert run("oms", "hold", address, "--reason", "court").out == f"{address} held\n"
    refused = run("oms", "erase", address, "--reason", "asked", "--yes")
    assert refused.code == 1
    assert "legal hold" in refused.err
    kept = run("oms", "erase-user", "ada", "--reason", "asked", "--yes", "--json")
    assert (kept.code, kept.json["held"]) == (1, 1)
    assert run("oms", "hold", address, "--release", "--reason", "over").out == f"{address} released\n"
    assert run("oms", "erase", address, "--reason", "asked", "--yes").out == f"{address} erased\n"
    assert run("oms", "get", address).code == 1
    other = put(run, tmp_path, object="milk")
    done = run("oms", "erase-user", "ada", "--reason", "asked", "--yes", "--json")
    assert (done.code, done.json["erased"]) == (0, 1)
    assert run("oms", "get", other).code == 1


def test_consent_is_looked_up(run: Command, tmp_path: Path) -> None:
    subject, grantee = "did:key:z6MkSubject", "did:key:z6MkGrantee"
    (tmp_path / "consent.json").write_bytes(
        dump(
            {
                "type": "consent",
                "subject_did": subject,
                "grantee_did": grantee,
                "scope": ["retrieve"],
                "is_withdrawal": False,
                "basis": "explicit_consent",
                "created_at": 1768471200000,
            }
        )
    )
    stored = run("oms", "put", tmp_path / "consent.json", "--json")
    assert stored.code == 0, stored.err
    asked = ("oms", "consent", "--subject", subject, "--grantee", grantee)
    assert run(*asked).out.strip() == stored.json["address"]
    none = run(*asked, "--scope", "share")
    assert (none.code, none.out) == (1, "")


def test_keys_are_rotated_and_everything_stays_readable(run: Command, tmp_path: Path) -> None:
    address = put(run, tmp_path)
    assert run("oms", "rotate-key", "--json").json["keys"] >= 1
    assert run("oms", "get", address, "--json").json["grain"]["object"] == "tea"


# --- one file, full memory ---------------------------------------------------------------------------


def test_an_mg_file_carries_everything_to_another_store(run: Command, tmp_path: Path) -> None:
    address = put(run, tmp_path)
    run("oms", "supersede", address, file_of(tmp_path, object="coffee"))
    name = run("remember", "use npm", "--project", "p", "--json").json["id"]
    run("revise", name, "use pnpm")
    file = tmp_path / "all.mg"
    assert run("export", file).out == f"4 grains exported to {file}\n"
    assert run("verify", file, "--json").json["verified"] == 4
    owner = run("key", "show", "--operator").out.strip()
    there = ("--data", tmp_path / "other", "--owner", owner)
    assert run(*there, "import", file).out == "4 created, 0 merged, 0 refused\n"
    assert run(*there, "import", file).out == "0 created, 4 merged, 0 refused\n"
    assert run(*there, "export", tmp_path / "again.mg", "--format", "mg").code == 0
    assert (tmp_path / "again.mg").read_bytes() == file.read_bytes()
    assert len(run(*there, "history", name, "--json").json["versions"]) == 2
    current = run("export", tmp_path / "p.mg", "--project", "p", "--no-history", "--compress", "--json").json
    (warning,) = current.pop("warnings")
    assert f"{name}, its key in OAMS, is not exported" in warning
    assert current == {
        "exported": 1,
        "target": str(tmp_path / "p.mg"),
        "format": "mg",
        "left_out": 0,
        "refusals": [],
        "kept": 0,
        "redacted": 0,
        "earlier_versions": 1,
    }


def test_a_damaged_file_is_refused_whole_and_can_be_recovered(run: Command, tmp_path: Path) -> None:
    inputs = [file_of(tmp_path, f"{number}.json", object=f"tea {number}") for number in range(9)]
    run("oms", "pack", tmp_path / "a.mg", *inputs)
    data = (tmp_path / "a.mg").read_bytes()
    cut = tmp_path / "cut.mg"
    cut.write_bytes(data[: len(data) * 2 // 3])
    judged = run("oms", "verify", cut, tmp_path / "a.mg")
    assert judged.code == 1
    assert re.search(r"cut\.mg: \d of 9 grains are intact", judged.err)
    assert "a.mg: 9 grains verified" in judged.out
    saved = run("oms", "verify", cut, "--recover", tmp_path / "saved.mg", "--json")
    assert saved.code == 1
    assert run("oms", "verify", tmp_path / "saved.mg", "--json").json["files"][0]["verified"] == saved.json["recovered"]
    taken = run("import", cut)
    assert (taken.code, taken.out) == (1, "0 created, 0 merged, 1 refused\n")
    assert taken.err.startswith(f"memoranda: {cut}: the .mg file is damaged")


COMMANDS = (("inspect",), ("verify",), ("pack", "out.mg"), ("sign", "--out", "out.cose"), ("put",))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_hostile_files_are_refused_in_words_never_with_a_traceback(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(11)
    whole = grains.encode(TEA).blob
    samples = [start + chance.randbytes(60) for start in (b"", b"MG\x01", b"\x01\x00\x01", b"\xd2\x84", b'{"type":')]
    samples += [whole[:size] for size in (0, 1, 8, 9, 10, len(whole) - 1)]
    samples += [b'{"type":"belief"}', b"[1]", b"[[", b'{"a":' * 100]
    for number, data in enumerate(samples):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(data)
        ran = run("oms", *command, path)
        assert (ran.code, data, ran.err) == (1, data, ran.err)
        assert ran.err.startswith("memoranda: ")
        assert "unexpected" not in ran.err
        assert f"{number}.bin" in ran.err
    missing = run("oms", *command, tmp_path / "none")
    assert (missing.code, missing.err) == (1, f"memoranda: {tmp_path / 'none'}: there is no such file or folder\n")
    assert not (tmp_path / "out.mg").exists()
    assert not (tmp_path / "out.cose").exists()


def test_a_folder_or_a_wrong_address_is_refused_in_one_sentence(run: Command, tmp_path: Path) -> None:
    for tokens in (("inspect", tmp_path), ("get", "XYZ"), ("get", "Z" * 64), ("unpack", tmp_path / "no", tmp_path)):
        ran = run("oms", *tokens)
        assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
        assert "unexpected" not in ran.err
    assert run("oms", "find", "--limit", "0").code == 2
    assert run("oms", "find", "--type", "thing").code == 1
    assert run("oms", "nothing").code == 2


# --- the page about it -------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "grains.md"


def test_the_python_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
        assert capsys.readouterr().out.splitlines() == re.findall(r"  # (.*)$", block, flags=re.MULTILINE)


def test_the_commands_of_the_page_run(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    (tmp_path / "tea.json").write_text(re.findall(r"echo '(\{.*?\})'", text, flags=re.DOTALL)[0])
    (tmp_path / "coffee.json").write_bytes(dump({**TEA, "object": "coffee", "user_id": "bob"}))
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    commands = [
        shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.startswith("memoranda")
    ]
    assert len(commands) == 14
    address = ""
    for tokens in commands:
        tokens = tokens[: tokens.index(">")] if ">" in tokens else tokens
        ran = run(*(token.replace("ADDRESS", address).replace("…", "") for token in tokens))
        assert (ran.code, tokens, ran.err) == (0, tokens, ran.err)
        if tokens[1] in ("put", "supersede"):
            address = ran.out.split()[0]


@pytest.mark.requirement("OMS-A-export")
def test_what_a_domain_keeps_here_is_not_disclosed(run: Command, home: Path, tmp_path: Path) -> None:
    address = put(run, tmp_path, **{"legal:privilege": "work_product"})
    refused = run("oms", "disclose", address, "--elide", "object", "--out", tmp_path / "view.mg")
    assert (refused.code, "on legal hold" in refused.err) == (1, True)
    assert not (tmp_path / "view.mg").exists()
    run("oms", "hold", address, "--reason", "a lawsuit")
    assert run("oms", "disclose", address, "--elide", "object", "--out", tmp_path / "view.mg").code == 0


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_withdrawing_a_consent_says_what_went_with_it(run: Command, home: Path, tmp_path: Path) -> None:
    parties: dict[str, Any] = {
        "type": "consent",
        "subject_did": "did:web:ada.example",
        "grantee_did": "did:web:b.example",
        "scope": [],
    }
    granted = run("oms", "put", file_of(tmp_path, **parties, is_withdrawal=False), "--json").json["address"]
    resting = put(run, tmp_path, invalidation_policy={"mode": "consent_cascade"}, processing_basis=granted)
    withdrawal = file_of(tmp_path, **parties, is_withdrawal=True, prior_consent=granted)
    assert "1 memory erased" in "".join(run("oms", "put", withdrawal, "--json").json["warnings"])
    assert run("oms", "get", resting).code == 1


@pytest.mark.requirement("OMS-11-append")
def test_a_file_grows_by_packing_it_anew_and_a_damaged_one_does_not(run: Command, home: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.mg", tmp_path / "new.mg"
    run("oms", "pack", old, file_of(tmp_path))
    before = old.read_bytes()
    more = file_of(tmp_path, "more.json", object="coffee")
    assert run("oms", "pack", new, old, more).code == 0
    assert old.read_bytes() == before
    assert run("oms", "verify", new).out == f"{new}: 2 grains verified\n"
    damaged = bytearray(before)
    damaged[60] ^= 1
    old.write_bytes(damaged)
    assert run("oms", "pack", tmp_path / "again.mg", old, more).code == 1
    assert not (tmp_path / "again.mg").exists()


@pytest.mark.requirement("OMS-A-export")
@pytest.mark.parametrize("name", ["out.mg", "out.ndjson", "out.jsonl"])
def test_an_export_says_what_a_domain_keeps_here(run: Command, home: Path, tmp_path: Path, name: str) -> None:
    put(run, tmp_path)
    put(run, tmp_path, object="kept", **{"legal:privilege": "work_product"})
    shape = ("--format", "oams") if name.endswith(".jsonl") else ()
    told = run("export", tmp_path / name, *shape, "--json").json
    assert (told["exported"], told["kept"]) == (1, 1)
    assert told["warnings"][0].endswith("privileged material must be on legal hold before it can be exported")
    assert b"kept" not in (tmp_path / name).read_bytes()


# --- the master key in a cluster -----------------------------------------------------------------------------


class Cluster(BaseHTTPRequestHandler):
    """As much of the API of Kubernetes as changes a Secret."""

    secret: ClassVar[dict[str, str]] = {}
    requests: ClassVar[list[tuple[str, str, str]]] = []
    status: ClassVar[int] = 200

    def do_PATCH(self) -> None:
        body = parse(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append((self.path, self.headers["authorization"], self.headers["content-type"]))
        if self.status == 200 and "dryRun=All" not in self.path:
            self.secret.update(body["data"])
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Cluster.secret, Cluster.requests, Cluster.status = {}, [], 200
    account = tmp_path / "account"
    account.mkdir()
    (account / "namespace").write_text("memoranda")
    (account / "token").write_text("t0ken\n")
    monkeypatch.setattr(kubernetes, "ACCOUNT_FOLDER", account)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cluster)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_master_key_is_rotated_into_a_secret_as_the_guide_says(
    run: Command, home: Path, tmp_path: Path, cluster: str
) -> None:
    """The command of the guide is that of the cron job that it starts."""
    run("remember", "tea", "--user", "ada")
    manifest = ROOT / "deploy" / "kustomize" / "components" / "key-rotation" / "key-rotation.yaml"
    arguments = re.search(r"args: \[(.*)\]", manifest.read_text())
    assert arguments is not None
    words = arguments[1].split(", ")
    assert f"memoranda {' '.join(words)}" in (ROOT / "docs" / "howto" / "postgresql.md").read_text()
    before = (home / "master.key").read_bytes()
    ran = run(*words, "--kubernetes-api", cluster)
    assert ran.code == 0, ran.err
    address = "/api/v1/namespaces/memoranda/secrets/memoranda-keys?fieldManager=memoranda"
    assert Cluster.requests == [
        (f"{address}&dryRun=All", "Bearer t0ken", "application/merge-patch+json"),
        (address, "Bearer t0ken", "application/merge-patch+json"),
    ]
    after = (home / "master.key").read_bytes()
    assert after != before
    assert {name: base64_decode(text) for name, text in Cluster.secret.items()} == {"master.key": after}
    # What a new pod gets from the Secret opens the store; what the Secret had before does not.
    (home / "master.key").write_bytes(base64_decode(Cluster.secret["master.key"]))
    assert "tea" in run("recall", "tea").out
    (home / "master.key").write_bytes(before)
    assert run("recall", "tea").code == 1


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_secret_that_cannot_be_changed_keeps_the_master_key(
    run: Command, home: Path, cluster: str, status: int
) -> None:
    run("remember", "tea", "--user", "ada")
    before, Cluster.status = (home / "master.key").read_bytes(), status
    ran = run("oms", "rotate-key", "--kubernetes-secret", "memoranda-keys", "--kubernetes-api", cluster)
    assert ran.code == 1
    assert f"HTTP {status}" in ran.err
    assert "t0ken" not in ran.err
    assert (home / "master.key").read_bytes() == before
    for api in ("http://10.0.0.1", "ftp://x"):
        assert run("oms", "rotate-key", "--kubernetes-secret", "k", "--kubernetes-api", api).code == 1
    assert "not a pod of a cluster" in run("oms", "rotate-key", "--kubernetes-secret", "k").err
    assert (home / "master.key").read_bytes() == before

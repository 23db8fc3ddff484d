"""Documents that agents and other formats leave: areev, Letta, LangChain, PAM and MIF.

The samples were made by the real tools: areev 1.13, langchain-community 0.4 (its file and its SQL history),
portable-ai-memory 1.0 and mif-tools 0.2. Agent files of Letta are written from the schema of its server, which no
longer installs from PyPI, and MIF as JSON-LD from its specification.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from memoranda.standards.oams.memory import check
from tests.importers.conftest import SAMPLES, take_known, written

AGENT_FILE: dict[str, Any] = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Harbor pilot",
            "system": "You are a pilot.",
            "block_ids": ["block-0", "block-1"],
            "messages": [
                {"id": "message-0", "role": "system", "content": [{"type": "text", "text": "You are a pilot."}]},
                {
                    "id": "message-1",
                    "role": "user",
                    "content": [{"type": "text", "text": '{"type": "user_message", "message": "My boat is Aurora."}'}],
                    "created_at": "2026-04-01T10:00:00+00:00",
                },
                {
                    "id": "message-2",
                    "role": "assistant",
                    "content": [{"type": "text", "text": "They have a boat."}],
                    "tool_calls": [
                        {"function": {"name": "send_message", "arguments": '{"message": "A fine name, Aurora."}'}}
                    ],
                    "created_at": "2026-04-01T10:00:02+00:00",
                },
                {"id": "message-3", "role": "tool", "content": [{"type": "text", "text": '{"status": "OK"}'}]},
                {"id": "message-4", "role": "user", "content": [{"type": "text", "text": '{"type": "heartbeat"}'}]},
            ],
        }
    ],
    "blocks": [
        {"id": "block-0", "label": "persona", "value": "I am a calm harbour pilot.", "limit": 5000},
        {"id": "block-1", "label": "human", "value": "The skipper comes from Aarhus.", "limit": 5000},
        {"id": "block-2", "label": "empty", "value": ""},
    ],
    "files": [],
    "tools": [],
}
LINKED: dict[str, Any] = {
    "@context": "https://mif-spec.dev/schema/context.jsonld",
    "@type": "Memory",
    "@id": "urn:mif:550e8400-e29b-41d4-a716-446655440000",
    "memoryType": "semantic",
    "namespace": "_semantic/preferences",
    "content": "The skipper takes oat milk",
    "created": "2026-01-15T10:30:00Z",
    "temporal": {"validFrom": "2026-01-15T00:00:00Z", "validUntil": None, "recordedAt": "2026-01-15T10:30:00Z"},
    "provenance": {"confidence": 0.95, "wasDerivedFrom": {"@id": "urn:mif:conversation:conv-456"}},
}


def grain_of(fields: dict[str, Any], flags: int = 0) -> bytes:
    """A grain as areev writes it, with long names of its fields."""
    kind = 5 if fields["type"] == "tool" else 1
    return bytes((1, flags, kind, 0, 0)) + struct.pack(">I", fields["created_at"] // 1000) + ormsgpack.packb(fields)


def bundle(*records: tuple[int, dict[str, Any], int], settings: bytes | None = None) -> bytes:
    """A bundle of areev: operation, fields and flags of each record."""
    data = b"MGB1" if settings is None else b"MGB2" + struct.pack("<I", len(settings)) + settings
    for operation, fields, flags in records:
        blob = grain_of(fields, flags)
        data += struct.pack("<Bq", operation, fields["created_at"] << 16) + sha256(blob).digest()
        data += struct.pack("<I", len(blob)) + blob
    return data


FACT: dict[str, Any] = {
    "type": "fact",
    "subject": "Bo",
    "relation": "owns",
    "object": "a kayak",
    "confidence": 0.9,
    "created_at": 1_770_000_000_000,
}


def test_a_bundle_of_areev_brings_what_is_there_and_when_it_was_replaced(shared: Memoranda) -> None:
    report = take_known(shared, SAMPLES / "areev" / "memory.mgb", "areev")
    assert (report.created, report.refused) == (4, 0)
    now = [hit.text for hit in shared.recall("Where does Ada live?")]
    assert any("Lisbon" in each for each in now)
    assert not any("Hamburg" in each or "secret boat" in each for each in now)
    (new,) = (memory for memory in shared if "Lisbon" in memory.text)
    assert [("Hamburg" in version.text, "Lisbon" in version.text) for version in shared.history(new.id)] == [
        (True, False),
        (False, True),
    ]
    asked = shared.recall("window seat", user="ada")
    assert [hit.record["scope"]["session"] for hit in asked] == ["s1"]
    assert shared.verify().ok


def test_grains_of_areev_are_found_at_their_addresses_with_their_fields(shared: Memoranda, tmp_path: Path) -> None:
    """A grain that OMS does not allow is written again, and its address in areev remains a name of it."""
    old = {**FACT, "object": "a canoe"}
    tool = {"type": "tool", "tool_name": "kettle", "content": "x", "is_error": False, "created_at": FACT["created_at"]}
    addresses = [sha256(grain_of(fields)).hexdigest() for fields in (old, tool)]
    new = {**FACT, "created_at": FACT["created_at"] + 1_000, "derived_from": addresses[0]}
    addresses.append(sha256(grain_of(new)).hexdigest())
    path = tmp_path / "some.mgb"
    path.write_bytes(bundle((1, old, 0), (1, tool, 0), (1, new, 0), (2, new, 0)))
    assert take_known(shared, path, "areev").created == 3
    grains = [shared.grains.get(address).grain for address in addresses]
    assert [grain.fields.get("object") for grain in grains] == ["a canoe", None, "a kayak"]
    assert (grains[1].fields["input"], grains[2].fields["derived_from"]) == ({}, [addresses[0]])
    answer = shared.cal('RECALL beliefs WHERE subject = "Bo"', namespace="shared")
    assert isinstance(answer, dict)
    assert [result["grain"]["object"] for result in answer["results"]] == ["a kayak"]
    assert shared.verify().ok


def test_liberties_of_areev_are_read_and_damage_is_told(shared: Memoranda, tmp_path: Path) -> None:
    path = tmp_path / "store.mgb"
    # Long names, the flag of CBOR over MessagePack, policy and references inside `context`, settings first.
    fields = {**FACT, "context": {"policy": {"retain": "30d"}, "refs": ["x"]}}
    data = bundle((1, fields, 0x20), settings=b'{"qry:x": 1}')
    path.write_bytes(data)
    assert take_known(shared, path, "areev").created == 1
    assert "Bo owns a kayak" in [hit.text for hit in shared.recall("Who owns a kayak?")]
    path.write_bytes(data[:-1])
    cut = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)])
    assert [(each.where, each.message) for each in cut.refusals] == [(str(path), f"{path}: the bundle is cut short")]
    path.write_bytes(data[:-1] + b"!")
    assert exchange.import_files(shared.ump.import_items, shared.owner, [str(path)]).refused == 1
    path.write_bytes(b"MGB1" + bytes((1,)) + bytes(40) + b"\xff\xff\xff\x7f")
    huge = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)])
    assert "which no grain has" in huge.refusals[0].message


def test_one_bad_record_of_areev_does_not_hold_up_the_others(tmp_path: Path) -> None:
    old, broken = {**FACT, "object": "a canoe"}, {**FACT, "confidence": "high", "derived_from": "x"}
    address = bundle((1, old, 0))[13:45].hex()
    new = bundle((2, {**FACT, "derived_from": address}, 0))[4:]
    # A time may be any number; a replacement that was forgotten since has no bytes.
    odd = new[:1] + struct.pack("<q", -(2**63)) + new[9:]
    forgotten = struct.pack("<Bq", 2, 0) + bytes(32) + struct.pack("<I", 0)
    path = tmp_path / "some.mgb"
    path.write_bytes(bundle((1, old, 0), (1, broken, 0), (2, broken, 0)) + odd + forgotten)
    items = list(ImportCodec(IMPORTERS["areev"], "ada").items(str(path)))
    assert [item.error is None for item in items] == [True, False]
    assert (items[0].index.superseded_by, items[0].index.system_valid_to) == (odd[9:41].hex(), 0)


def test_blocks_and_turns_of_a_letta_agent(shared: Memoranda, tmp_path: Path) -> None:
    report = take_known(shared, written(tmp_path, AGENT_FILE, "pilot.af"), "letta")
    assert (report.created, report.refused) == (4, 1)
    scope = str(shared.oams.namespace("letta"))
    persona = shared.oams.get("block-0", namespace=scope).memory
    assert (persona["metadata"]["memoranda:kind"], persona["tags"]) == ("identity", ["persona"])
    assert shared.oams.get("message-2", namespace=scope).memory["value"] == "Harbor pilot: A fine name, Aurora."
    said = shared.oams.get("message-1", namespace=scope).memory
    assert (said["value"], said["metadata"]["memoranda:session"]) == ("User: My boat is Aurora.", "agent-0")
    older = {
        "name": "old",
        "core_memory": [{"label": "human", "value": "Knows knots", "created_at": "2025-01-01T00:00:00Z"}],
        "messages": [{"role": "user", "text": "Ahoy", "created_at": "2025-01-01T00:00:00Z"}, 7],
    }
    report = take_known(shared, written(tmp_path, older, "old.af"), "letta")
    assert (report.created, report.refused) == (2, 1)


def test_message_histories_of_langchain(shared: Memoranda) -> None:
    assert take_known(shared, SAMPLES / "langchain" / "history.json", "langchain").created == 2
    scope = str(shared.oams.namespace("langchain"))
    said = shared.oams.get("h1", namespace=scope).memory
    assert (said["value"], said["metadata"]["memoranda:kind"]) == ("User: My passport expires in May 2027.", "episodic")


def test_the_sql_history_of_langchain_has_sessions(shared: Memoranda) -> None:
    path = SAMPLES / "langchain" / "history.db"
    assert take_known(shared, path, "langchain").created == 3
    (hit, *_) = shared.recall("Which seat, 14C?")
    assert (hit.text, hit.record["scope"]["session"]) == ("Ada: And my seat is 14C.", "trip")


def test_a_memory_store_of_pam_keeps_owner_times_and_what_was_superseded(shared: Memoranda) -> None:
    assert take_known(shared, SAMPLES / "pam" / "memory-store.json", "pam").created == 3
    found = [hit.text for hit in shared.recall("Where does Ada work?", user="ada")]
    assert "Ada works at Lighthouse" in found
    assert "Ada works at Harbor" not in found
    new = shared.oams.get("mem-2", namespace="ada:pam").memory
    assert (new["parent_id"], new["metadata"]["confidence"]) == ("mem-1", 0.8)
    assert new["tags"] == ["fact", "work"]
    rule = shared.oams.get("mem-3", namespace="ada:pam").memory
    assert rule["metadata"]["memoranda:kind"] == "procedural"
    # The folder has all of it: what came already is there, and the conversation is new.
    whole = exchange.import_files(shared.ump.import_items, shared.owner, [str(SAMPLES / "pam")])
    assert (whole.created, whole.unchanged, whole.refused) == (2, 3, 0)
    conversation = exchange.import_files(
        shared.ump.import_items, shared.owner, [str(SAMPLES / "pam" / "conversation-1.json")]
    )
    assert conversation.unchanged == 2
    said = shared.oams.get("msg-1", namespace=str(shared.oams.namespace("pam"))).memory
    assert said["metadata"]["memoranda:session"] == "conv-1"


def test_both_formats_called_mif(shared: Memoranda, tmp_path: Path) -> None:
    assert take_known(shared, SAMPLES / "mif" / "memories.mif.json", "mif").created == 3
    assert "Ada leads Lighthouse" in [hit.text for hit in shared.recall("Who leads Lighthouse?")]
    assert take_known(shared, written(tmp_path, LINKED, "one.memory.json"), "mif").created == 1
    scope = str(shared.oams.namespace("_semantic%2Fpreferences"))
    one = shared.oams.get(LINKED["@id"], namespace=scope).memory
    assert (one["source_id"], one["metadata"]["confidence"]) == ("urn:mif:conversation:conv-456", 0.95)
    assert one["metadata"]["memoranda:valid_from"] == "2026-01-15T00:00:00.000Z"
    several = {"@graph": [{**LINKED, "@id": "urn:mif:2", "content": "Another"}, {"@id": "urn:mif:3"}]}
    report = take_known(shared, written(tmp_path, several), "mif")
    assert (report.created, report.refused) == (1, 1)


@pytest.mark.parametrize(
    "document",
    [
        {"agents": 7, "blocks": [[]]},
        {"schema": "portable-ai-memory", "memories": [None, {"id": 1}], "relations": 3, "owner": []},
        {"mif_version": 2, "memories": [{}], "knowledge_graph": {"entities": 1, "relationships": [2, {}]}},
        [{"type": "human", "data": {"content": [{"type": "image"}]}}],
    ],
)
def test_documents_of_the_wrong_shape_bring_nothing_and_say_why(
    shared: Memoranda, tmp_path: Path, document: object
) -> None:
    path = written(tmp_path, document)
    assert recognise_importer(path) is not None
    report = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)])
    assert report.created == 0
    assert report.refused
    assert all("export.json" in each.where for each in report.refusals)


NAMES = sorted(
    {
        *AGENT_FILE,
        *AGENT_FILE["agents"][0],
        *LINKED,
        *("mif_version", "memories", "dreams", "strategy", "inputs", "nodes", "edges", "source", "target", "episodes"),
        *("sessions", "session_id", "role", "role_type", "fact", "summary", "uuid", "type", "data", "schema", "owner"),
        *("knowledge_graph", "entities", "relationships", "label", "value", "text", "key", "memory", "tool_calls"),
    }
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "user", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.parametrize("system", ["zep", "mempalace", "rem", "letta", "langchain", "pam", "mif", "table", "mem0"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6) | st.lists(VALUES, max_size=3))
def test_whatever_a_document_holds_it_gives_memories_of_oams_or_refusals(
    tmp_path: Path, system: str, document: object
) -> None:
    path = written(tmp_path, document)
    recognise_importer(path)
    for item in ImportCodec(IMPORTERS[system], "ada").items(str(path)):
        assert item.error is not None or check(item.value, complete=True)

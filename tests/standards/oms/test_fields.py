"""Full names and short keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import ADDRESS, FIELD_MAPS, belief, of_type, refused

from memoranda.standards.oms import canonical, fields, grains
from memoranda.standards.oms.header import HEADER_BYTES

ACTION, BELIEF, EVENT = 0x05, 0x01, 0x02
TABLES = {
    "core_6.1": fields.CORE,
    "event_6.2": fields.EVENT,
    "state_6.3": fields.STATE,
    "workflow_6.4": fields.WORKFLOW,
    "action_6.5": fields.ACTION,
    "observation_6.6": fields.OBSERVATION,
    "goal_6.7": fields.GOAL,
    "consent_6.8": fields.CONSENT,
    "reasoning_6.9": fields.REASONING,
    "consensus_6.10": fields.CONSENSUS,
    "delegation_6.11": fields.DELEGATION,
    "nested_content_refs_7.1": fields.CONTENT_REF,
    "nested_embedding_refs_7.2": fields.EMBEDDING_REF,
    "nested_related_to_14.2": fields.RELATED_TO,
}
TOP_LEVEL = [table for name, table in TABLES.items() if not name.startswith("nested")]


@pytest.mark.requirement("OMS-6.12-normative")
def test_the_tables_are_those_of_the_specification() -> None:
    published = {name: table for name, table in FIELD_MAPS["maps"].items() if not name.startswith("context_")}
    assert published == TABLES
    assert set(FIELD_MAPS["index_layer_fields_never_in_blob"]) == fields.INDEX_FIELDS


@pytest.mark.requirement("OMS-6-bijective")
@pytest.mark.parametrize("type_byte", range(1, 11))
def test_every_name_has_one_key_and_comes_back(type_byte: int) -> None:
    names = {name for table in TOP_LEVEL for name in table}
    whole: dict[str, Any] = dict.fromkeys(names, 1)
    payload = fields.compact(whole, type_byte)
    assert len(payload) == len(names) == 150
    assert fields.expand(payload, type_byte) == whole
    assert {fields.full_name(key, type_byte) for key in payload} == names
    assert all(fields.compact({name: 1}, type_byte).keys() <= payload.keys() for name in names)


@pytest.mark.requirement("OMS-6.12-compaction")
def test_content_is_short_only_on_an_action() -> None:
    assert fields.compact({"content": "x"}, ACTION) == {"cnt": "x"}
    assert fields.compact({"content": "x"}, EVENT) == {"content": "x"}
    assert fields.expand({"cnt": "x"}, ACTION) == {"content": "x"}
    assert fields.expand({"content": "x"}, EVENT) == {"content": "x"}
    for name in ("event", "action"):
        grain = grains.encode(of_type(name))
        assert grains.decode(grain.blob).fields == grain.fields


@pytest.mark.requirement("OMS-6.12-compaction", "OMS-4.7-nested")
def test_references_and_links_are_renamed_inside_and_nothing_else_is() -> None:
    whole = belief(
        content_refs=[{"uri": "u", "modality": "image", "metadata": {"uri": "kept"}, "x": 1}],
        embedding_refs=[{"vector_id": "v", "model": "m", "dimensions": 3, "chunk_text": "t"}],
        related_to=[{"hash": ADDRESS, "relation_type": "similar", "weight": 0.5}],
        provenance_chain=[{"source_hash": ADDRESS, "method": "direct_input", "weight": 1.0}],
        context={"subject": "kept"},
        invalidation_policy={"mode": "open"},
    )
    payload = canonical.decode_value(grains.encode(whole).blob[HEADER_BYTES:])
    assert payload["cr"] == [{"u": "u", "m": "image", "md": {"uri": "kept"}, "x": 1}]
    assert payload["er"] == [{"vi": "v", "mo": "m", "dm": 3, "ct": "t"}]
    assert payload["rt"] == [{"h": ADDRESS, "rl": "similar", "w": 0.5}]
    assert payload["pc"] == whole["provenance_chain"]
    assert payload["ctx"] == whole["context"]
    assert payload["ip"] == whole["invalidation_policy"]


@pytest.mark.requirement("OMS-6.12-unknown", "OMS-19.4-unknown-fields")
def test_unknown_names_are_kept_both_ways() -> None:
    whole = belief(**{"hc:patient_id": "p", "x-mine": {"deep": [1]}, "Größe": 3})
    grain = grains.encode(whole)
    assert grains.decode(grain.blob).fields == whole


@pytest.mark.requirement("OMS-6.12-unknown")
@pytest.mark.parametrize("name", ["s", "user", "err", "tags", "ct", "sid2"])
def test_a_name_that_is_a_short_key_cannot_be_written(name: str) -> None:
    with refused("ERR_SCHEMA", name):
        grains.encode(belief(**{name: "x"}))


def test_a_short_key_cannot_be_written_inside_a_reference_either() -> None:
    with refused("ERR_SCHEMA", "content_refs[0].u"):
        grains.encode(belief(content_refs=[{"uri": "a", "modality": "image", "u": "b"}]))


@pytest.mark.requirement("OMS-6.12-compaction")
@pytest.mark.parametrize(
    "payload",
    [{"subject": "x"}, {"namespace": "x"}, {"rt": [{"hash": "x"}]}, {"cr": [{"uri": "x"}]}],
)
def test_a_payload_that_was_not_compacted_is_refused(payload: dict[str, Any]) -> None:
    with refused("ERR_CORRUPT", "written in full"):
        fields.expand(payload, BELIEF)


@pytest.mark.requirement("OMS-5.6-index-fields")
@pytest.mark.parametrize("name", sorted(fields.INDEX_FIELDS | fields.REMOVED_FIELDS))
def test_fields_of_the_index_are_never_written_but_read_and_reported(name: str) -> None:
    with refused("ERR_SCHEMA", name):
        grains.encode(belief(**{name: True}))
    blob = grains.encode(belief()).blob
    payload = canonical.decode_value(blob[HEADER_BYTES:]) | {fields.CORE[name]: True}
    foreign = grains.decode(blob[:HEADER_BYTES] + canonical.encode_value(payload))
    assert foreign.fields[name] is True
    assert any(name in warning for warning in grains.warnings_for(foreign.fields))


@given(st.dictionaries(st.text(max_size=6), st.integers(), max_size=6), st.integers(1, 11))
def test_expanding_undoes_compacting(whole: dict[str, int], type_byte: int) -> None:
    reserved = {key for table in TOP_LEVEL for key in table.values()} - {name for table in TOP_LEVEL for name in table}
    usable = {name: value for name, value in whole.items() if name not in reserved}
    assert fields.expand(fields.compact(usable, type_byte), type_byte) == usable

"""Field names: full names for people, short keys on the wire (sections 6, 7.1, 7.2 and 14.2).

The tables are normative. One table serves every type, except that `content` is `cnt` on an Action and stays `content`
everywhere else. Names outside the tables are kept unchanged in both directions. Therefore an application must not name
a field like a short key, and a payload must not contain a full name: both would be read back as another field.

Only `content_refs`, `embedding_refs` and `related_to` have their entries renamed too (section 4.7); section 4.9 omits
the third.

Short keys exist only in bytes; everywhere else a field has its full name. A new field of the standard needs a line here
before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import GrainError
from memoranda.standards.oms.normal import quote_key
from memoranda.standards.oms.registry import ACTION_BYTE

# Section 6.1.
CORE: Final[Mapping[str, str]] = {
    "type": "t",
    "subject": "s",
    "relation": "r",
    "object": "o",
    "confidence": "c",
    "source_type": "st",
    "created_at": "ca",
    "temporal_type": "tt",
    "valid_from": "vf",
    "valid_to": "vt",
    "system_valid_from": "svf",
    "system_valid_to": "svt",
    "context": "ctx",
    "superseded_by": "sb",
    "contradicted": "ct",
    "importance": "im",
    "author_did": "adid",
    "namespace": "ns",
    "user_id": "user",
    "structural_tags": "tags",
    "derived_from": "df",
    "consolidation_level": "cl",
    "success_count": "sc",
    "failure_count": "fc",
    "provenance_chain": "pc",
    "origin_did": "odid",
    "origin_namespace": "ons",
    "content_refs": "cr",
    "embedding_refs": "er",
    "related_to": "rt",
    "_elided": "_e",
    "_disclosure_of": "_do",
    "invalidation_policy": "ip",
    "supersession_justification": "sj",
    "supersession_auth": "sa",
    "owner": "own",
    "category": "cat",
    "run_id": "rid",
    "role": "role",
    "access_count": "ac",
    "last_accessed_at": "laa",
    "timestamp_ms": "tms",
    "observer_did": "obsdid",
    "subject_did": "sdid",
    "session_id": "sid2",
    "entity_id": "eid",
    "epistemic_status": "epstat",
    "verification_status": "vstatus",
    "requires_human_review": "rhr",
    "processing_basis": "pbasis",
    "identity_state": "idst",
    "license": "lic",
    "trusted_timestamp": "tts",
    "invalidation_type": "itype",
    "invalidation_reason": "ireason",
    "invalidation_initiator": "iinit",
    "retention_policy": "rpol",
    "recall_priority": "rpri",
}
# Section 6.2.
EVENT: Final[Mapping[str, str]] = {
    "content": "content",
    "consolidated": "consolidated",
    "content_blocks": "cblocks",
    "model_id": "mdl",
    "stop_reason": "stopr",
    "token_usage": "toku",
    "parent_message_id": "pmid",
}
# Section 6.3.
STATE: Final[Mapping[str, str]] = {
    "plan": "plan",
    "history": "history",
}
# Section 6.4.
WORKFLOW: Final[Mapping[str, str]] = {
    "steps": "steps",
    "trigger": "trigger",
}
# Section 6.5.
ACTION: Final[Mapping[str, str]] = {
    "action_phase": "aphase",
    "tool_name": "tn",
    "input": "inp",
    "content": "cnt",
    "is_error": "iserr",
    "tool_call_id": "tcid",
    "call_batch_id": "cbid",
    "tool_type": "ttype",
    "tool_version": "tver",
    "execution_mode": "emode",
    "code": "code",
    "stdout": "out",
    "stderr": "err2",
    "exit_code": "xc",
    "interpreter_id": "iid",
    "error": "err",
    "error_type": "etype",
    "duration_ms": "dur",
    "parent_task_id": "ptid",
    "tool_description": "tdesc",
    "input_schema": "isch",
    "output_schema": "osch",
    "strict": "strict",
}
# Section 6.6.
OBSERVATION: Final[Mapping[str, str]] = {
    "observer_id": "oid",
    "observer_type": "otype",
    "frame_id": "fid",
    "sync_group": "sg",
    "observation_mode": "omode",
    "observation_scope": "oscope",
    "observer_model": "omdl",
    "compression_ratio": "ocmp",
}
# Section 6.7.
GOAL: Final[Mapping[str, str]] = {
    "description": "desc",
    "goal_state": "gs",
    "criteria": "crit",
    "criteria_structured": "crs",
    "priority": "pri",
    "parent_goals": "pgs",
    "state_reason": "sr",
    "satisfaction_evidence": "se",
    "progress": "prog",
    "delegate_to": "dto",
    "delegate_from": "dfo",
    "expiry_policy": "ep",
    "recurrence": "rec",
    "evidence_required": "evreq",
    "rollback_on_failure": "rof",
    "allowed_transitions": "atr",
    "depends_on": "depg",
    "assigned_agent": "asgn",
    "expected_output": "expout",
    "output_grain": "outg",
    "deadline": "dline",
}
# Section 6.8.
CONSENT: Final[Mapping[str, str]] = {
    "grantee_did": "gdid",
    "scope": "scope",
    "is_withdrawal": "isw",
    "basis": "basis",
    "jurisdiction": "jur",
    "prior_consent": "pcon",
    "witness_dids": "wdids",
}
# Section 6.9.
REASONING: Final[Mapping[str, str]] = {
    "premises": "prem",
    "conclusion": "conc",
    "inference_method": "imethod",
    "alternatives_considered": "altc",
    "thinking_content": "think",
    "thinking_redacted": "tredact",
    "statistical_context": "statctx",
    "software_environment": "swenv",
    "parameter_set": "params",
    "random_seed": "rseed",
}
# Section 6.10.
CONSENSUS: Final[Mapping[str, str]] = {
    "participating_observers": "pobs",
    "threshold": "thold",
    "agreement_count": "agcnt",
    "dissent_count": "discnt",
    "dissent_grains": "disgrn",
    "agreed_content": "agcon",
}
# Section 6.11.
DELEGATION: Final[Mapping[str, str]] = {
    "authorized_namespaces": "ans",
    "authorized_types": "atypes",
    "authorized_tools": "atools",
    "delegation_depth": "ddepth",
    "delegation_expiry": "dexp",
    "context_grains": "cgrains",
    "return_to": "retdid",
}
# Section 7.1.
CONTENT_REF: Final[Mapping[str, str]] = {
    "uri": "u",
    "modality": "m",
    "mime_type": "mt",
    "size_bytes": "sz",
    "checksum": "ck",
    "metadata": "md",
}
# Section 7.2.
EMBEDDING_REF: Final[Mapping[str, str]] = {
    "vector_id": "vi",
    "model": "mo",
    "dimensions": "dm",
    "modality_source": "ms",
    "distance_metric": "di",
    "chunk_index": "ci",
    "chunk_text": "ct",
    "chunk_strategy": "cs",
    "chunk_overlap": "co",
}
# Section 14.2.
RELATED_TO: Final[Mapping[str, str]] = {
    "hash": "h",
    "relation_type": "rl",
    "weight": "w",
}

NESTED: Final[Mapping[str, Mapping[str, str]]] = {
    "content_refs": CONTENT_REF,
    "embedding_refs": EMBEDDING_REF,
    "related_to": RELATED_TO,
}

# Section 5.6: the store keeps these outside the blob; writers MUST NOT embed them.
INDEX_FIELDS: Final = frozenset(
    ("superseded_by", "system_valid_to", "verification_status", "access_count", "last_accessed_at")
)
# Removed in 1.2 but still in the tables: accepted on reading, never written.
REMOVED_FIELDS: Final = frozenset(("contradicted",))


class _Table:
    """A mapping between full names and short keys, in both directions."""

    def __init__(self, *maps: Mapping[str, str]) -> None:
        self.short = {long: short for names in maps for long, short in names.items()}
        self.long = {short: long for long, short in self.short.items()}
        # Short keys that are not full names: as a field name they would be read back as another field.
        self.reserved = frozenset(self.long) - frozenset(self.short)
        self.misspelt = frozenset(self.short) - frozenset(self.long)

    def compact(self, fields: Mapping[str, object], prefix: str) -> dict[str, Any]:
        """Rename the fields to their short keys. `prefix` precedes names in errors. Raises GrainError."""
        if not self.reserved.isdisjoint(fields):
            name = min(self.reserved.intersection(fields))
            raise GrainError(
                f"{prefix}{name} is the short key of {self.long[name]} and cannot name a field of its own",
                oms_code="ERR_SCHEMA",
            )
        short = self.short
        return {short.get(name, name): value for name, value in fields.items()}

    def expand(self, payload: Mapping[str, object], prefix: str) -> dict[str, object]:
        """Rename the keys to their full names. `prefix` precedes names in errors. Raises GrainError."""
        if not self.misspelt.isdisjoint(payload):
            name = min(self.misspelt.intersection(payload))
            # Section 6.12: serializers MUST replace full field names; one grain has one spelling.
            raise GrainError(
                f"{prefix}{quote_key(name)} is written in full instead of {self.short[name]}",
                oms_code="ERR_CORRUPT",
            )
        long = self.long
        return {long.get(key, key): value for key, value in payload.items()}


_WITHOUT_CONTENT = {name: key for name, key in ACTION.items() if name != "content"}
_SHARED = (CORE, STATE, WORKFLOW, OBSERVATION, GOAL, CONSENT, REASONING, CONSENSUS, DELEGATION)
_ACTION_TABLE = _Table(*_SHARED, EVENT, ACTION)
_TABLE = _Table(*_SHARED, EVENT, _WITHOUT_CONTENT)
_NESTED_TABLES = {name: _Table(entries) for name, entries in NESTED.items()}
_NESTED_NAMES = frozenset(_NESTED_TABLES)
_NESTED_KEYS = {CORE[name]: table for name, table in _NESTED_TABLES.items()}


def compact(fields: Mapping[str, object], type_byte: int) -> dict[str, Any]:
    """Return the fields under their short keys. Raises GrainError for names that cannot be written."""
    table = _ACTION_TABLE if type_byte == ACTION_BYTE else _TABLE
    payload = table.compact(fields, "")
    for key in _NESTED_KEYS.keys() & payload.keys():
        payload[key] = _rename_entries(payload[key], _NESTED_KEYS[key].compact, table.long[key])
    return payload


def expand(payload: Mapping[str, object], type_byte: int) -> dict[str, object]:
    """Return the fields under their full names. Raises GrainError if the payload has full names already."""
    table = _ACTION_TABLE if type_byte == ACTION_BYTE else _TABLE
    fields = table.expand(payload, "")
    for name in _NESTED_TABLES.keys() & fields.keys():
        fields[name] = _rename_entries(fields[name], _NESTED_TABLES[name].expand, name)
    return fields


def expand_accepted(payload: Mapping[str, object], type_byte: int) -> dict[str, Any]:
    """Return the fields under their full names, for a payload that was verified when it was stored."""
    long = (_ACTION_TABLE if type_byte == ACTION_BYTE else _TABLE).long
    fields = {long.get(key, key): value for key, value in payload.items()}
    if not _NESTED_NAMES.isdisjoint(fields):
        for name in _NESTED_NAMES & fields.keys():
            fields[name] = _rename_entries(fields[name], _NESTED_TABLES[name].expand, name)
    return fields


def full_name(key: str, type_byte: int) -> str:
    """Return the full name of a short key, or the key itself if it has none."""
    return (_ACTION_TABLE if type_byte == ACTION_BYTE else _TABLE).long.get(key, key)


def _rename_entries(entries: Any, rename: Any, name: str) -> object:
    """Rename the fields of each entry in a list of maps; return anything else unchanged."""
    if not isinstance(entries, list):
        return entries
    renamed = list(entries)
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            renamed[index] = rename(entry, f"{name}[{index}].")
    return renamed

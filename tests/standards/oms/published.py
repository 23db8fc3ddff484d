"""The published vectors, those computed from the specification's inputs, and grains that several tests build on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from memoranda.errors import GrainError

_FOLDER = Path(__file__).parents[2] / "vectors" / "oms"
VECTORS: Final[dict[str, Any]] = json.loads((_FOLDER / "oms-vectors.json").read_text("utf-8"))
FIELD_MAPS: Final[dict[str, Any]] = json.loads((_FOLDER / "oms-fieldmap.json").read_text("utf-8"))
BY_ID: Final[dict[str, Any]] = {vector["id"]: vector for vector in VECTORS["vectors"]}
MICRO: Final[dict[str, Any]] = {vector["what"]: vector for vector in VECTORS["micro_vectors"]}

DID: Final = BY_ID["V1"]["input"]["author_did"]
CREATED_AT: Final = 1768471200000
ADDRESS: Final = BY_ID["V1"]["expected"]["content_address"]


def vector_input(name: str) -> dict[str, Any]:
    """A fresh copy of a vector's fields."""
    fields: dict[str, Any] = json.loads(json.dumps(BY_ID[name]["input"]))
    return fields


def belief(**fields: Any) -> dict[str, Any]:
    """A belief with other fields; those given as None are left out."""
    base = {"type": "belief", "subject": "user", "relation": "prefers", "object": "tea", "confidence": 0.9}
    return _made(base, fields)


_BASES: Final[dict[str, dict[str, Any]]] = {
    "belief": {"subject": "user", "relation": "prefers", "object": "tea", "confidence": 0.9},
    "event": {"content": "User asked for tea"},
    "state": {"context": {"model": "m"}},
    "workflow": {"steps": ["boil", "pour"], "trigger": "thirst"},
    "action": {"tool_name": "kettle", "input": {"cups": 2}, "content": "done", "is_error": False},
    "observation": {"observer_id": "t-1", "observer_type": "temperature"},
    "goal": {"description": "make tea", "goal_state": "active"},
    "reasoning": {"conclusion": "water first", "inference_method": "deductive"},
    "consensus": {"participating_observers": ["a", "b"], "threshold": 2, "agreement_count": 2, "dissent_count": 0},
    "consent": {"subject_did": DID, "grantee_did": "did:web:example.com", "scope": ["store"], "is_withdrawal": False},
}
TYPE_NAMES: Final = tuple(_BASES)


def of_type(name: str, **fields: Any) -> dict[str, Any]:
    """A small valid grain of a type with other fields; those given as None are left out."""
    return _made({"type": name, **_BASES[name]}, fields)


def _made(base: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    whole = {**base, "created_at": CREATED_AT, "namespace": "shared", **fields}
    return {name: value for name, value in whole.items() if value is not None}


def refused(oms_code: str, words: str = "") -> pytest.RaisesExc[GrainError]:
    """A block that must raise GrainError with the code, and with the words in its message."""
    return pytest.raises(GrainError, check=lambda error: error.oms_code == oms_code and words in error.message)

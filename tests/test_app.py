"""Wiring: what lies in the data directory reaches the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoranda import Memoranda
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import SignatureInvalid, StoreUnavailable
from memoranda.opening import open_service
from memoranda.settings import load_settings
from memoranda.standards.oms import signature
from tests.embedders import WORDS_ALONE

WEB = "did:web:example.com"
BELIEF = {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1.0, "created_at": 0}


def signed_by_an_organisation() -> tuple[bytes, dict[str, object]]:
    key = SigningKey(b"w" * 32)
    multikey = key.did.removeprefix("did:key:")
    object.__setattr__(key, "did", WEB)
    method = {"id": f"{WEB}#1", "type": "Multikey", "controller": WEB, "publicKeyMultibase": multikey}
    return signature.sign(BELIEF, key, issued_at=0), {"id": WEB, "verificationMethod": [method]}


def test_a_did_document_in_the_data_directory_lets_its_signatures_in(tmp_path: Path) -> None:
    envelope, document = signed_by_an_organisation()
    with Memoranda.open(tmp_path) as m, pytest.raises(SignatureInvalid):
        m.grains.put(envelope)
    (tmp_path / "dids").mkdir()
    (tmp_path / "dids" / "example.json").write_text(json.dumps(document), encoding="utf-8")
    with Memoranda.open(tmp_path) as m:
        assert m.grains.get(m.grains.put(envelope).address).delivery == envelope


def test_a_file_that_is_no_did_document_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "dids").mkdir()
    (tmp_path / "dids" / "bad.json").write_text("[]", encoding="utf-8")
    with pytest.raises(StoreUnavailable, match="not a DID document"):
        Memoranda.open(tmp_path)


@pytest.mark.requirement("OURS-audit-retention")
@pytest.mark.parametrize(
    ("given", "days"),
    [({}, 365), ({"compliance": ("hipaa",)}, 2192), ({"audit_retention": "P30D", "compliance": ("hipaa",)}, 30)],
)
def test_the_audit_log_is_kept_for_a_year_and_under_hipaa_for_six(
    tmp_path: Path, given: dict[str, Any], days: int
) -> None:
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path, **given))
    assert service.context.audit_retention_ms == days * 86_400_000
    service.close()
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path, **{**given, "audit_retention": "forever"}))
    assert service.context.audit_retention_ms is None
    service.close()

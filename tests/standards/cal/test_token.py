"""Capability tokens: what is signed, what is refused, and what a query asks of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.errors import QueryError
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.token import (
    LIFETIME_MAX_MS,
    MAX_TOKEN_CHARS,
    READ_OPS,
    WRITE_OPS,
    CapabilityToken,
    open_token,
    operations,
    pseudonym,
    sign,
    token_from_text,
    token_text,
)

KEY = b"test-key"
ISSUED = 1_709_337_600_000
H = "sha256:" + "a" * 64


def token(**members: Any) -> CapabilityToken:
    base: dict[str, Any] = {
        "token_id": "11111111-1111-4111-8111-111111111111",
        "namespace": "authorized-namespace",
        "user_id": "on-whose-behalf",
        "issued_at": ISSUED,
        "expires_at": ISSUED + 300_000,
    }
    return CapabilityToken(**{**base, **members})


WRITER = token(tier=1, allowed_ops=READ_OPS + WRITE_OPS, allowed_grain_types=("belief",), write_quota_remaining=10)


def refusal(document: object, key: bytes = KEY, now: int = ISSUED) -> tuple[str, str | None]:
    with pytest.raises(QueryError) as caught:
        open_token(document, key, now_ms=now)
    return caught.value.cal_code, caught.value.reason


@pytest.mark.requirement("CAL-18-token-signature")
def test_the_signature_is_over_sorted_json_without_spaces() -> None:
    document = sign(token(), KEY)
    assert document["signature"] == "5ce7c5ef23f105969f7335faf68cf68224bdec6d32be1c4dc118c518d39ba220"
    assert set(document) == {
        "token_id", "namespace", "user_id", "tier", "allowed_ops", "issued_at", "expires_at", "max_uses",
        "allowed_grain_types", "write_quota_remaining", "signature",
    }  # fmt: skip


def test_the_pseudonym_of_a_user_is_a_keyed_hash() -> None:
    assert pseudonym(b"audit-key", "alice") == "0826c5fe1cfbaaa056960e1880b645053c7f9fd55487370925ea299bbc28dafd"
    assert pseudonym(b"audit-key", "bob") != pseudonym(b"audit-key", "alice") != pseudonym(b"other", "alice")


@pytest.mark.parametrize("written", [token(), WRITER, token(user_id="Zoë ☕")])
def test_a_token_comes_back_from_its_document_and_from_its_word(written: CapabilityToken) -> None:
    document = sign(written, KEY)
    assert open_token(document, KEY, now_ms=ISSUED) == written
    word = token_text(document)
    assert word.startswith("caltok.")
    assert open_token(token_from_text(word), KEY, now_ms=ISSUED + 299_999) == written


@pytest.mark.requirement("CAL-18-token-refusals")
@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "another"},
        {"tier": 1},
        {"tier": True},
        {"tier": "0"},
        {"max_uses": 2},
        {"max_uses": 10**9},
        {"expires_at": ISSUED + 300_001},
        {"expires_at": ISSUED + LIFETIME_MAX_MS + 1},
        {"expires_at": None},
        {"allowed_ops": "Recall"},
        {"allowed_ops": [["Recall"]]},
        {"allowed_ops": ["Add"]},
        {"allowed_grain_types": ["fact"]},
        {"user_id": ""},
        {"user_id": "\ud800"},
        {"signature": "0" * 64},
        {"signature": "\ud800"},
        {"signature": 5},
        {"signature": None},
        {"more": 1},
    ],
)
def test_a_token_that_was_changed_is_refused(change: dict[str, Any]) -> None:
    assert refusal({**sign(token(), KEY), **change}) == ("CAL-E044", "bad_signature")


@pytest.mark.requirement("CAL-18-token-refusals")
def test_a_token_of_another_key_or_past_its_time_is_refused() -> None:
    document = sign(token(), KEY)
    assert refusal(document, key=b"other") == ("CAL-E044", "bad_signature")
    assert refusal(document, now=ISSUED + 300_000) == ("CAL-E044", "expired")
    # The signature is looked at first: who forges learns nothing of the time.
    assert refusal({**document, "max_uses": 2}, now=ISSUED + 300_000) == ("CAL-E044", "bad_signature")


@pytest.mark.parametrize("junk", [None, [], "caltok.", 5, {}, {"signature": "x"}])
def test_what_is_no_token_is_refused_like_a_changed_one(junk: object) -> None:
    assert refusal(junk) == ("CAL-E044", "bad_signature")


@pytest.mark.parametrize("word", ["", "caltok.", "caltok.!", "caltok.W10", "caltok.eyJhIjoxfQ==", "umpcap.e30", "é"])
def test_a_word_that_is_no_token_is_refused(word: str) -> None:
    with pytest.raises(QueryError) as caught:
        token_from_text(word)
    assert (caught.value.cal_code, caught.value.reason) == ("CAL-E044", "bad_signature")


def test_a_word_that_is_too_long_is_refused() -> None:
    with pytest.raises(QueryError, match="is not valid here"):
        token_from_text("caltok." + "A" * MAX_TOKEN_CHARS)


@settings(max_examples=60)
@given(at=st.integers(min_value=7), flip=st.integers(1, 255))
def test_no_changed_character_of_a_word_goes_unnoticed(at: int, flip: int) -> None:
    word = token_text(sign(WRITER, KEY))
    place = 7 + at % (len(word) - 7)
    changed = word[:place] + chr((ord(word[place]) ^ flip) % 128) + word[place + 1 :]
    if changed == word:
        return
    with pytest.raises(QueryError) as caught:
        open_token(token_from_text(changed), KEY, now_ms=ISSUED)
    assert caught.value.cal_code == "CAL-E044"


@pytest.mark.requirement("CAL-18-operations")
@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ('RECALL WHERE subject = "a"', {"Recall"}),
        ('RECALL WHERE subject = "a" | COUNT', {"Count"}),
        ('(RECALL WHERE subject = "a") UNION (RECALL WHERE subject = "b")', {"Recall"}),
        (f"EXISTS {H}", {"Exists"}),
        (f"HISTORY {H}", {"History"}),
        ("DESCRIBE grammar", {"Describe"}),
        (f'EXPLAIN REVERT {H} REASON "r"', {"Explain"}),
        (f'REVERT {H} REASON "r"', {"Revert"}),
        (f'SUPERSEDE {H} SET object = "o" REASON "r"', {"Supersede"}),
        ('ADD belief SET subject = "a" SET relation = "b" SET object = "c" REASON "r"', {"Add"}),
        (f"BATCH {{ a: EXISTS {H}, b: RECALL RECENT 5 }}", {"Batch", "Exists", "Recall"}),
    ],
)
def test_what_a_query_asks_of_a_token(text: str, ops: set[str]) -> None:
    assert operations(parse(text)) == ops

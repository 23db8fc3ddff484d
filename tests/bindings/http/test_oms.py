"""Grains over HTTP: the same bytes and the same address back, always; and a clear refusal for everything else."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bindings.http.running import OWNER, Running, path_of, remember

from memoranda.encoding.didkey import SigningKey
from memoranda.standards.oms import grains, signature
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE

KEY = SigningKey(bytes(range(32)))
NOBODY = "0" * 64
JSON_TYPE = {"content-type": "application/json"}


def belief(**fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "ada",
        "relation": "prefers",
        "object": "tea",
        "confidence": 0.9,
        "created_at": 1768471200000,
        "namespace": "kitchen",
        **fields,
    }


def put(client: httpx.Client, **fields: Any) -> str:
    answer = client.post("/oms/grains", json=belief(**fields))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["address"])


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and OMS code of an error, whose form is checked on the way."""
    error = answer.json()["error"]
    assert set(error) - {"oms_code"} == {"code", "message"}
    assert error["message"].startswith(error["code"]) or error["message"] == "no route"
    return answer.status_code, error["code"], error.get("oms_code")


DELIVERIES = {
    "MessagePack": (MEDIA_TYPE, grains.encode(belief(object="as MessagePack")).blob),
    "CBOR": (MEDIA_TYPE, grains.encode(belief(object="as CBOR"), cbor=True).blob),
    "an envelope": (SIGNED_MEDIA_TYPE, signature.sign(belief(object="signed"), KEY, issued_at=1768471200)),
    "an envelope by its other name": (
        "application/cose",
        signature.sign(belief(object="also"), KEY, issued_at=1768471200),
    ),
}


@pytest.mark.parametrize(("media_type", "data"), DELIVERIES.values(), ids=DELIVERIES.keys())
def test_bytes_come_back_byte_for_byte(client: httpx.Client, media_type: str, data: bytes) -> None:
    opened = signature.open_delivery(data)
    grain = opened.grain if isinstance(opened, signature.SignedGrain) else opened
    for result in ("created", "exists"):
        answer = client.post("/oms/grains", content=data, headers={"content-type": media_type})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["address"], answer.json()["result"]) == (grain.address, result)
    expected = SIGNED_MEDIA_TYPE if isinstance(opened, signature.SignedGrain) else MEDIA_TYPE
    for accept in (MEDIA_TYPE, SIGNED_MEDIA_TYPE, "application/octet-stream", f"application/json;q=0.5, {MEDIA_TYPE}"):
        read = client.get(f"/oms/grains/{grain.address}", headers={"accept": accept})
        assert read.content == data
        assert read.headers["content-type"] == expected
        assert read.headers["etag"] == f'"{grain.address}"'
        assert read.headers["x-oms-address"] == grain.address
        assert read.headers["x-oms-verification-status"] == "unverified"
    shown = client.get(f"/oms/grains/{grain.address}").json()
    assert shown["grain"] == json.loads(json.dumps(grain.fields))


def test_json_becomes_the_grain_that_the_library_encodes(client: httpx.Client) -> None:
    fields = belief(
        object="tea as JSON", confidence=1, created_at="2026-01-15T10:00:00Z", shape={"deep": [1, 2.5, None]}
    )
    address = grains.encode(fields).address
    first = client.post("/oms/grains", json=fields).json()
    assert (first["address"], first["result"]) == (address, "created")
    assert client.post("/oms/grains", json={"grain": fields}).json()["result"] == "exists"
    read = client.get(f"/oms/grains/{address}", headers={"accept": MEDIA_TYPE})
    assert read.content == grains.encode(fields).blob


def test_a_grain_may_have_a_field_called_grain(client: httpx.Client) -> None:
    address = put(client, object="bread", grain="rye")
    assert client.get(f"/oms/grains/{address}").json()["grain"]["grain"] == "rye"


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("*/*", True),
        ("", True),
        ("text/html, */*;q=0.8", True),
        ("application/json", True),
        (f"application/json, {MEDIA_TYPE}", True),
        (f"{MEDIA_TYPE};q=0.1, application/json;q=0.9", True),
        (f"{MEDIA_TYPE};q=x", True),
        (f"{MEDIA_TYPE.upper()}, */*", False),
        ("application/octet-stream, */*", False),
        (";;,,=q", True),
    ],
)
def test_the_form_is_negotiated(client: httpx.Client, accept: str, is_json: bool) -> None:
    address = put(client, object="negotiated")
    answer = client.get(f"/oms/grains/{address}", headers={"accept": accept})
    assert (answer.headers["content-type"] == "application/json") is is_json
    assert ("etag" in answer.headers) is not is_json
    assert answer.headers["vary"] == "accept"


def test_head_says_whether_there_is_such_a_grain(client: httpx.Client) -> None:
    there = client.head(f"/oms/grains/{put(client, object='to be asked for')}")
    assert (there.status_code, there.content) == (200, b"")
    assert client.head(f"/oms/grains/{NOBODY}").status_code == 404


def test_a_successor_closes_its_predecessor(client: httpx.Client) -> None:
    old = put(client, object="oolong")
    body = {"grain": belief(object="sencha", created_at=1768471201000), "justification": "she said so"}
    done = client.post(f"/oms/grains/{old}/supersede", json=body).json()
    assert (done["result"], done["needs_review"]) == ("superseded", False)
    index = client.get(f"/oms/grains/{old}").json()["index"]
    assert index["superseded_by"] == done["address"]
    headers = client.get(f"/oms/grains/{old}", headers={"accept": MEDIA_TYPE}).headers
    assert headers["x-oms-superseded-by"] == done["address"]
    assert headers["x-oms-system-valid-to"] == str(index["system_valid_to"])
    new = client.get(f"/oms/grains/{done['address']}").json()["grain"]
    assert new["supersession_justification"] == "she said so"
    again = client.post(f"/oms/grains/{old}/supersede", json=belief(object="assam"))
    assert refusal(again) == (400, "invalid_record", None)


def test_a_successor_may_come_in_its_envelope(client: httpx.Client) -> None:
    old = put(client, object="unsigned")
    envelope = signature.sign(belief(object="signed successor"), KEY, issued_at=1768471200)
    headers = {"content-type": SIGNED_MEDIA_TYPE}
    done = client.post(f"/oms/grains/{old}/supersede", content=envelope, headers=headers).json()
    read = client.get(f"/oms/grains/{done['address']}", headers={"accept": SIGNED_MEDIA_TYPE})
    assert read.content == envelope
    late = client.post(f"/oms/grains/{old}/supersede?justification=x", content=envelope, headers=headers)
    assert refusal(late)[:2] == (400, "invalid_record")


def test_a_protected_grain_is_forbidden_not_malformed(client: httpx.Client) -> None:
    locked = put(client, object="the law", invalidation_policy={"mode": "locked"})
    denied = (403, "invalid_record", "ERR_INVALIDATION_DENIED")
    assert refusal(client.post(f"/oms/grains/{locked}/supersede", json=belief(object="chaos"))) == denied
    contested = client.post(f"/oms/grains/{locked}/verification", json={"status": "contested", "reason": "no"})
    assert refusal(contested) == denied


def test_a_hold_is_put_and_lifted_and_honoured_by_erasure(client: httpx.Client) -> None:
    address = put(client, object="evidence")
    path = f"/oms/grains/{address}"
    held = client.put(f"{path}/hold", json={"reason": "matter 7"}).json()
    assert held == {"address": address, "held": True}
    assert client.get(path).json()["held"] is True
    assert refusal(client.delete(path, params={"reason": "asked"})) == (
        403,
        "invalid_record",
        "ERR_INVALIDATION_DENIED",
    )
    assert client.delete(f"{path}/hold", params={"reason": "over"}).json() == {"address": address, "held": False}
    assert refusal(client.delete(path)) == (400, "invalid_record", None)
    assert client.delete(path, params={"reason": "asked"}).json() == {"result": "erased"}
    assert refusal(client.get(path)) == (404, "not_found", None)
    assert client.head(path).status_code == 404


def test_what_is_known_of_its_truth_is_index_and_not_grain(client: httpx.Client) -> None:
    address = put(client, object="plausible")
    done = client.post(f"/oms/grains/{address}/verification", json={"status": "verified"})
    assert done.json() == {"address": address, "verification_status": "verified"}
    read = client.get(f"/oms/grains/{address}", headers={"accept": MEDIA_TYPE})
    assert read.headers["x-oms-verification-status"] == "verified"
    assert grains.address_of(read.content) == address


def test_a_user_is_erased(client: httpx.Client) -> None:
    address = put(client, object="a secret", user_id="user-9")
    done = client.post("/oms/users/erase", json={"user_id": "user-9", "reason": "asked"}).json()
    assert done["erased"] == 1
    assert client.head(f"/oms/grains/{address}").status_code == 404
    assert refusal(client.post("/oms/users/erase", json={"user_id": "user-9"})) == (400, "invalid_record", None)


def test_the_consent_that_lets_someone_in_is_found_and_its_withdrawal_too(client: httpx.Client) -> None:
    asked = {"subject_did": "did:example:ada", "grantee_did": "did:example:bob", "scope": "retrieve"}
    assert client.get("/oms/consents", params=asked).json() == {"address": None}
    grant = {
        "type": "consent",
        "subject_did": "did:example:ada",
        "grantee_did": "did:example:bob",
        "scope": ["retrieve"],
        "is_withdrawal": False,
        "created_at": 1768471200000,
    }
    address = client.post("/oms/grains", json=grant).json()["address"]
    assert client.get("/oms/consents", params=asked).json() == {"address": address}
    withdrawal = {**grant, "is_withdrawal": True, "prior_consent": address}
    assert client.post("/oms/grains", json=withdrawal).status_code == 200
    assert client.get("/oms/consents", params=asked).json() == {"address": None}


# --- finding ----------------------------------------------------------------------------------------------


def test_pages_follow_one_another_by_a_cursor_that_tells_nothing(client: httpx.Client, server: Running) -> None:
    addresses = [put(client, subject="pages", object=f"page {number}") for number in range(5)]
    seen: list[str] = []
    asked: dict[str, Any] = {"subject": "pages", "limit": 2}
    cursors: list[str] = []
    while True:
        page = client.get("/oms/grains", params=asked).json()
        seen += [result["content_address"] for result in page["results"]]
        if page["next_cursor"] is None:
            break
        cursors.append(page["next_cursor"])
        asked["cursor"] = page["next_cursor"]
    assert seen == addresses
    raw = [urlsafe_b64decode(cursor + "==") for cursor in cursors]
    # A number in the clear would leave most of its bytes zero, and the next one close by.
    assert all(len(each) == 16 and each.count(0) < 6 for each in raw)
    assert raw[0][8:14] != raw[1][8:14]
    with server.client(server.key("did:key:zSomebodyElse")) as other:
        assert refusal(other.get("/oms/grains", params=asked)) == (400, "invalid_record", None)
    for cursor in ("0", "x" * 22, "AAAAAAAAAAAAAAAAAAAAAA", "é", cursors[0][:-2] + "AA"):
        answer = client.get("/oms/grains", params={**asked, "cursor": cursor})
        assert refusal(answer) == (400, "invalid_record", None), cursor


def test_structure_finds_exactly_and_says_what_matched(client: httpx.Client) -> None:
    address = put(client, subject="bob", relation="owns", object="a bicycle", namespace="garage")
    put(client, subject="bob", relation="owns", object="a boat", namespace="garage")
    page = client.get("/oms/grains", params={"subject": "bob", "object": "a bicycle", "type": "belief"}).json()
    (result,) = page["results"]
    assert (result["content_address"], result["score"]) == (address, 1.0)
    assert result["matched_fields"] == ["subject", "object", "type"]
    assert (page["total"], page["next_cursor"]) == (1, None)
    assert client.get("/oms/grains", params={"subject": "bob", "type": "event"}).json()["results"] == []
    both = client.post("/oms/grains/search", json={"relation": "owns", "namespace": "garage"}).json()
    assert both["total"] == 2


def test_words_find_grains_of_every_type_best_first(client: httpx.Client) -> None:
    event = {"type": "event", "content": "the zeppelins landed at noon", "created_at": 1768471200000}
    address = client.post("/oms/grains", json=event).json()["address"]
    put(client, subject="zeppelin", object="slow")
    for page in (
        client.get("/oms/grains", params={"text": "zeppelin noon"}).json(),
        client.post("/oms/grains/search", json={"text": "zeppelin noon"}).json(),
    ):
        first, second = page["results"]
        assert first["content_address"] == address
        assert first["matched_fields"] == ["content"]
        assert 1.0 == first["score"] > second["score"] > 0.0
        assert page["total"] == 2
    narrowed = client.post("/oms/grains/search", json={"text": "zeppelin", "subject": "zeppelin"}).json()
    (only,) = narrowed["results"]
    assert only["matched_fields"] == ["subject"]
    assert client.post("/oms/grains/search", json={"text": "zeppelin", "type": "goal"}).json()["results"] == []


def test_what_was_superseded_is_listed_only_when_asked_for(client: httpx.Client) -> None:
    old = put(client, subject="versions", object="one")
    client.post(f"/oms/grains/{old}/supersede", json=belief(subject="versions", object="two"))
    assert len(client.get("/oms/grains", params={"subject": "versions"}).json()["results"]) == 1
    everything = client.get("/oms/grains", params={"subject": "versions", "current": "false"}).json()["results"]
    assert everything[0]["content_address"] == old
    assert "superseded_by" in everything[0]["index"]


def test_a_memory_of_ump_is_a_grain_and_a_grain_is_a_memory_of_ump(client: httpx.Client) -> None:
    name = remember(client, "the quince tree is old", project="orchard")
    (result,) = client.get("/oms/grains", params={"namespace": "orchard"}).json()["results"]
    assert result["native"] is False
    read = client.get(f"/oms/grains/{result['content_address']}", headers={"accept": MEDIA_TYPE})
    assert grains.decode(read.content).address == result["content_address"]
    done = client.post(
        f"/oms/grains/{result['content_address']}/supersede", json=belief(object="the quince", namespace="orchard")
    )
    assert done.json()["result"] == "superseded"
    (successor,) = client.get(path_of(name)).json()["record"]["superseded_by"]
    assert "quince" in client.get(path_of(successor)).json()["record"]["body"]["text"]


# --- who may ----------------------------------------------------------------------------------------------


def test_an_operator_names_the_owner_and_others_cannot(server: Running) -> None:
    owner = "did:example:named"
    with server.client() as operator, server.client(server.key(OWNER)) as other:
        address = operator.post("/oms/grains", params={"owner": owner}, json=belief(object="named")).json()["address"]
        found = operator.get("/oms/grains", params={"owner": owner}).json()["results"]
        assert [result["content_address"] for result in found] == [address]
        for answer in (
            other.post("/oms/grains", params={"owner": owner}, json=belief()),
            other.get("/oms/grains", params={"owner": owner}),
            other.post("/oms/grains/search", json={"owner": owner, "text": "tea"}),
            other.post("/oms/users/erase", json={"owner": owner, "user_id": "u", "reason": "x"}),
        ):
            assert refusal(answer) == (403, "forbidden_scope", None)
        path = f"/oms/grains/{address}"
        for answer in (
            other.get(path),
            other.delete(path, params={"reason": "x"}),
            other.put(f"{path}/hold", json={}),
            other.post(f"{path}/supersede", json=belief()),
            other.post(f"{path}/verification", json={"status": "verified"}),
        ):
            assert refusal(answer) == (404, "not_found", None)


def test_a_credential_does_only_what_it_grants(server: Running, client: httpx.Client) -> None:
    address = put(client, object="granted")
    with server.client(server.key(OWNER, "read")) as reader:
        assert refusal(reader.post("/oms/grains", json=belief())) == (403, "forbidden_scope", None)
        assert refusal(reader.put(f"/oms/grains/{address}/hold", json={})) == (403, "forbidden_scope", None)
    with server.client(server.key(OWNER, "write")) as writer:
        assert refusal(writer.get(f"/oms/grains/{address}")) == (403, "forbidden_scope", None)
        assert refusal(writer.get("/oms/grains")) == (403, "forbidden_scope", None)


# --- refusals ---------------------------------------------------------------------------------------------

BLOB = grains.encode(belief(object="to be damaged")).blob
ENVELOPE = signature.sign(belief(object="to be damaged"), KEY, issued_at=1768471200)


@pytest.mark.parametrize(
    ("data", "code", "oms_code"),
    [
        (b"", "invalid_record", "ERR_TOO_SHORT"),
        (b"\x01", "invalid_record", "ERR_TOO_SHORT"),
        (b"\x02" + BLOB[1:], "invalid_record", "ERR_VERSION"),
        (BLOB[:-1], "invalid_record", "ERR_CORRUPT"),
        (BLOB + b"\x00", "invalid_record", "ERR_CORRUPT"),
        (grains.encode(belief(), signed=True).blob, "invalid_record", "ERR_SIGNED_MISMATCH"),
        (ENVELOPE[:-1] + bytes([ENVELOPE[-1] ^ 1]), "signature_invalid", None),
    ],
    ids=["empty", "one byte", "another version", "cut", "longer", "signed without envelope", "a flipped bit"],
)
def test_bytes_that_are_no_grain_are_refused_with_the_code_of_oms(
    client: httpx.Client, data: bytes, code: str, oms_code: str | None
) -> None:
    answer = client.post("/oms/grains", content=data, headers={"content-type": MEDIA_TYPE})
    assert refusal(answer) == (400, code, oms_code)


@pytest.mark.parametrize(
    ("fields", "oms_code"),
    [
        ({}, "ERR_NO_TYPE"),
        (belief(type="dream"), "ERR_UNKNOWN_TYPE"),
        (belief(confidence=2), "ERR_RANGE"),
        (belief(subject=""), "ERR_EMPTY"),
        (belief(superseded_by=NOBODY), "ERR_SCHEMA"),
        (belief(supersession_justification="x"), "ERR_SCHEMA"),
    ],
)
def test_fields_that_are_no_grain_are_refused_with_the_code_of_oms(
    client: httpx.Client, fields: dict[str, Any], oms_code: str
) -> None:
    assert refusal(client.post("/oms/grains", json=fields)) == (400, "invalid_record", oms_code)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/oms/grains", []),
        ("POST", "/oms/grains", {"grain": 7}),
        ("POST", "/oms/grains", {"grain": belief(), "colour": "red"}),
        ("POST", "/oms/grains?colour=red", belief()),
        ("POST", "/oms/grains?owner=", belief()),
        ("POST", "/oms/grains/search", {"colour": "red"}),
        ("POST", "/oms/grains/search", {"text": " "}),
        ("POST", "/oms/grains/search", {"text": "x" * 9000}),
        ("POST", "/oms/grains/search", {"text": "x", "cursor": "x"}),
        ("POST", "/oms/grains/search", {"text": "x", "current": False}),
        ("POST", "/oms/grains/search", {"limit": 0}),
        ("POST", "/oms/grains/search", {"limit": True}),
        ("POST", "/oms/grains/search", {"type": "dream"}),
        ("POST", "/oms/grains/search", {"type": "0x01"}),
        ("GET", "/oms/grains?limit=0", None),
        ("GET", "/oms/grains?limit=many", None),
        ("GET", "/oms/grains?current=perhaps", None),
        ("GET", "/oms/grains?subject=", None),
        ("GET", "/oms/consents", None),
        ("GET", f"/oms/grains/{NOBODY}?colour=red", None),
        ("GET", "/oms/grains/abc", None),
        ("GET", f"/oms/grains/{'A' * 64}", None),
        ("POST", f"/oms/grains/{NOBODY}/verification", {"status": "true"}),
        ("POST", f"/oms/grains/{NOBODY}/verification", {"status": "contested", "by": "abc"}),
        ("POST", f"/oms/grains/{NOBODY}/supersede?justification=a", {"grain": belief(), "justification": "b"}),
        ("PUT", f"/oms/grains/{NOBODY}/hold?reason=a", {"reason": "b"}),
        ("PUT", f"/oms/grains/{NOBODY}/hold", {"reason": "x" * 2000}),
        ("DELETE", f"/oms/grains/{NOBODY}?reason=%20", None),
        ("POST", "/oms/users/erase", {"user_id": ["u"], "reason": "x"}),
    ],
)
def test_a_wrong_request_is_refused(client: httpx.Client, method: str, path: str, body: object) -> None:
    content = {} if body is None else {"content": json.dumps(body), "headers": JSON_TYPE}
    assert refusal(client.request(method, path, **content))[:2] == (400, "invalid_record")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/oms/grains", f"/oms/grains/{NOBODY}/supersede", "/oms/grains/search"])
def test_a_body_of_another_type_is_refused(client: httpx.Client, path: str) -> None:
    answer = client.post(path, content=b"{}", headers={"content-type": "text/plain"})
    assert refusal(answer)[:2] == (400, "invalid_record")


def test_a_body_over_the_limit_is_refused_whether_its_length_is_stated_or_not(client: httpx.Client) -> None:
    big = b"\x01" * 3_000_000
    chunks = (big[start : start + 65_536] for start in range(0, len(big), 65_536))
    for content in (big, chunks):
        answer = client.post("/oms/grains", content=content, headers={"content-type": MEDIA_TYPE})
        assert refusal(answer)[:2] == (400, "invalid_record")
    larger = grains.encode(belief(object="x" * 1_000_000)).blob
    assert client.post("/oms/grains", content=larger, headers={"content-type": MEDIA_TYPE}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/oms/grains"), ("GET", "/oms"), ("GET", "/oms/grains/"), ("DELETE", "/oms/grains"), ("PUT", "/oms/x")],
)
def test_an_unknown_route_or_method_is_no_route(client: httpx.Client, method: str, path: str) -> None:
    assert refusal(client.request(method, path)) == (404, "not_found", None)


# --- never a 500 ------------------------------------------------------------------------------------------

# It can be superseded by nothing, so that every attempt reaches the policy and leaves it as it is.
LOCKED = belief(object="for good", invalidation_policy={"mode": "locked"})
ROCK = grains.encode(LOCKED).address
WRITING = ("POST /oms/grains", f"POST /oms/grains/{ROCK}/supersede")
OTHERS = (
    "POST /oms/grains/search",
    f"POST /oms/grains/{ROCK}/verification",
    f"PUT /oms/grains/{ROCK}/hold",
    f"DELETE /oms/grains/{ROCK}/hold",
    f"DELETE /oms/grains/{NOBODY}",
    "POST /oms/users/erase",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
NAMES = (
    *("type", "subject", "relation", "object", "confidence", "created_at", "namespace", "user_id", "context"),
    *("structural_tags", "invalidation_policy", "derived_from", "related_to", "supersession_auth", "content_refs"),
    *("trusted_timestamp", "valid_to", "grain", "justification", "text", "limit", "current", "cursor", "status"),
    *("reason", "by", "owner", "_elided", "provenance_chain", "session_id", "scope", "content_blocks"),
)
# Real names with wrong values reach further in than random names do.
NEARLY = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
GRAINS = NEARLY.map(lambda fields: {**belief(), **fields})
DAMAGED = st.tuples(st.sampled_from((BLOB, ENVELOPE)), st.integers(0, 400), st.binary(max_size=4)).map(
    lambda it: it[0][: it[1] % len(it[0])] + it[2] + it[0][it[1] % len(it[0]) + len(it[2]) :]
)
QUIETLY = settings(max_examples=40)


def is_answered(answer: httpx.Response) -> None:
    if answer.status_code == 200:
        assert isinstance(answer.json(), dict)
    else:
        assert refusal(answer)[0] in (400, 403, 404), answer.text


@pytest.mark.parametrize("route", WRITING + OTHERS)
@QUIETLY
@given(
    body=VALUES | NEARLY | NEARLY.map(lambda fields: belief(**fields)) | NEARLY.map(lambda f: {"grain": belief(**f)})
)
def test_no_json_value_makes_the_server_fail(client: httpx.Client, route: str, body: Any) -> None:
    method, path = route.split()
    client.post("/oms/grains", json=LOCKED)
    is_answered(client.request(method, path, content=json.dumps(body), headers=JSON_TYPE))


@pytest.mark.parametrize("media_type", [MEDIA_TYPE, SIGNED_MEDIA_TYPE, "application/json", None])
@pytest.mark.parametrize("route", WRITING + OTHERS[:1])
@QUIETLY
@given(data=st.binary(max_size=200) | DAMAGED)
def test_no_bytes_make_the_server_fail(client: httpx.Client, route: str, media_type: str | None, data: bytes) -> None:
    method, path = route.split()
    client.post("/oms/grains", json=LOCKED)
    headers = {} if media_type is None else {"content-type": media_type}
    is_answered(client.request(method, path, content=data, headers=headers))


@pytest.mark.parametrize("path", ["/oms/grains", "/oms/consents", f"/oms/grains/{NOBODY}"])
@QUIETLY
@given(query=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), st.text(max_size=20), max_size=4))
def test_no_query_makes_the_server_fail(client: httpx.Client, path: str, query: dict[str, str]) -> None:
    is_answered(client.get(path, params=query))


@QUIETLY
@given(address=st.text(min_size=1, max_size=70).filter(lambda text: text not in (".", "..")))
def test_no_address_makes_the_server_fail(client: httpx.Client, address: str) -> None:
    is_answered(client.get(f"/oms/grains/{quote(address, safe='')}"))


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_withdrawing_a_consent_erases_what_rested_on_it(client: httpx.Client) -> None:
    parties = {"type": "consent", "subject_did": OWNER, "grantee_did": "did:web:b.example", "scope": ["store"]}
    granted = put(client, **parties, is_withdrawal=False)
    resting = put(client, invalidation_policy={"mode": "consent_cascade"}, processing_basis=granted)
    answer = client.post("/oms/grains", json=belief(**parties, is_withdrawal=True, prior_consent=granted)).json()
    assert answer["warnings"][-1].startswith("1 memory erased")
    assert client.get(f"/oms/grains/{resting}").status_code == 404
    refused = client.post(
        "/oms/grains",
        json=belief(
            object="new", processing_basis=granted, type="belief", invalidation_policy={"mode": "consent_cascade"}
        ),
    )
    assert refusal(refused) == (400, "consent_violation", None)

"""What is fed to what, and what must hold of whatever is accepted.

A target takes bytes and returns normally, or raises MemorandaError. Everything else that comes out is a finding, and
so is a broken promise: what a decoder accepts must write back to the very same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import cbor2
import ormsgpack

from memoranda.errors import InvalidInput, MemorandaError, QueryError
from memoranda.model.memory import Document
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.wire.reader import from_json
from memoranda.standards.oms import canonical, cbor, cose, disclosure, grains, mapping, policy, signature
from memoranda.standards.oms.advice import warnings_for
from memoranda.standards.oms.container_reader import ContainerReader, recover
from memoranda.standards.oms.fields import compact
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import Header, namespace_hash
from memoranda.standards.oms.registry import BY_NAME
from memoranda.standards.ump import mapping as ump
from tests.fuzz.mutate import any_value, bent, bent_value
from tests.standards.cal import mutants
from tests.standards.cal.json_form import to_json
from tests.standards.cal.published import QUERIES, VALID
from tests.standards.oms.files import VERIFIED, signed_grain, some_grains, written
from tests.standards.oms.published import ADDRESS, CREATED_AT, DID, TYPE_NAMES, of_type, vector_input

Bend = Callable[[random.Random, bytes, bytes], bytes]

_EXTRAS: Final[dict[str, Any]] = {
    "structural_tags": ["plain", "pii:email"],
    "related_to": [{"hash": ADDRESS, "relation_type": "similar", "weight": 0.5}],
    "provenance_chain": [{"source_hash": ADDRESS, "method": "m", "weight": 1.0}],
    "content_refs": [{"uri": "cas://x", "modality": "image", "metadata": {"w": 1}}],
    "embedding_refs": [{"vector_id": "v", "model": "m", "dimensions": 3}],
    "invalidation_policy": {"mode": "delegated", "authorized": [DID], "scope": "lineage"},
    "context": {"k": {"n": [1, 2.5, None]}},
    "derived_from": [ADDRESS],
    "user_id": "u",
    "session_id": "s",
    "valid_from": CREATED_AT,
    "valid_to": CREATED_AT + 1,
}
_FIELDS: Final = [
    vector_input("V1"),
    vector_input("V6"),
    *(of_type(name) for name in TYPE_NAMES),
    *(of_type(name, **_EXTRAS) for name in TYPE_NAMES),
]


# More processor time than this on one input is a finding; a normal input takes microseconds.
MAX_SECONDS: Final = 1.0
# A query is read, written and read again three times over, and has at most 8,192 bytes.
QUERY_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Target:
    """One reader, good inputs to begin with, and how inputs are bent beyond loose bytes."""

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    bend: Bend = bent
    max_seconds: float = MAX_SECONDS


def _grain(data: bytes) -> None:
    _accepted(grains.decode(data))


def _accepted(grain: Grain) -> None:
    """A decoded grain must write back, and nothing that looks at it may stumble."""
    head = grain.header
    with contextlib.suppress(MemorandaError):
        again = grains.encode(
            grain.fields,
            cbor=head.is_cbor,
            signed=head.is_signed,
            sensitivity=head.sensitivity,
            type_byte=grain.type_byte,
            default_namespace=None,
        )
        # A grain that names no namespace may have any of three hashes (docs/standards/oms.md).
        start = 0 if "namespace" in grain.fields else 9
        assert again.blob[start:] == grain.blob[start:], "it was accepted and writes back to other bytes"
    warnings_for(grain.fields)
    policy.check(grain.fields, grain.fields, signer=DID, valid_signers=(DID,), now_ms=CREATED_AT)
    policy.check_erasure(grain.fields, now_ms=CREATED_AT)
    _mapped(grain)
    with contextlib.suppress(MemorandaError):
        disclosure.verify_view(disclosure.disclose(grain, [min(grain.fields)]), grain)


def _mapped(grain: Grain) -> None:
    with contextlib.suppress(MemorandaError):
        projection = mapping.project(grain, DID)
        mapping.unwrap(grain)
        document = Document(
            standard=mapping.STANDARD, media_type=mapping.MEDIA_TYPE, name=grain.address, native=grain.blob
        )
        ump.from_projection(projection, document, version="0.1")


def _loose_grain(data: bytes) -> None:
    grains.decode(data, strict=False)


def _msgpack(data: bytes) -> None:
    assert canonical.encode_value(canonical.decode_value(data)) == data, "accepted, and not canonical"


def _cbor(data: bytes) -> None:
    assert cbor.encode_value(cbor.decode_value(data)) == data, "accepted, and not deterministic"


def _envelope(data: bytes) -> None:
    message = cose.parse(data)
    signature.verify(data)
    if message.payload is not None:
        signature.quorum_signers([data], message.payload, [DID])


def _delivery(data: bytes) -> None:
    signature.open_delivery(data)


def _file(data: bytes) -> None:
    """Everything there is to do with a file; what one way of reading refuses, another may not crash on."""
    whole = list(recover(io.BytesIO(data))) if data[:3] == b"MG\x01" else []
    reader = ContainerReader(io.BytesIO(data), max_decompressed_bytes=4 * 1024 * 1024)
    for address in (ADDRESS, *(grains.address_of(signature.blob_of(each)) for each in whole[:1])):
        with contextlib.suppress(MemorandaError):
            reader.find(address)
    with contextlib.suppress(MemorandaError):
        for _ in reader.states():
            pass
    reader.verify()


def _bend_fields(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Bent values under a header that fits them, so that they get past the reader and into the rules."""
    if rng.random() < 0.3:
        return bent(rng, data, other)
    fields: dict[str, Any] = dict(rng.choice(_FIELDS))
    for _ in range(rng.choice((1, 1, 2, 4))):
        bent_fields = bent_value(rng, fields)
        fields = bent_fields if isinstance(bent_fields, dict) and bent_fields else fields
    return _packed(rng, fields) or bent(rng, data, other)


def _packed(rng: random.Random, fields: dict[str, Any]) -> bytes | None:
    """A grain with these fields, whether they make sense or not; None if no payload can hold them."""
    name, created, space = (fields.get(key) for key in ("type", "created_at", "namespace"))
    known = BY_NAME.get(name) if isinstance(name, str) else None
    byte = known.byte if known else rng.choice((0xF0, 0x0B, 0x01))
    seconds = created // 1000 if isinstance(created, int) and 0 <= created < 2**32 * 1000 else 0
    references = ("content_refs" in fields) << 3 | ("embedding_refs" in fields) << 4
    is_cbor = rng.random() < 0.3
    flags = references | is_cbor << 5 | rng.choice((0, 2, 3)) << 6
    with contextlib.suppress(MemorandaError, UnicodeEncodeError):
        payload = compact(fields, byte)
        packed = cbor2.dumps(payload, canonical=True) if is_cbor else ormsgpack.packb(payload, option=_SORTED)
        space_hash = namespace_hash(space if isinstance(space, str) else "shared")
        return Header(1, flags, byte, space_hash, seconds).pack() + packed
    return None


_SORTED: Final = ormsgpack.OPT_SORT_KEYS


def _bend_msgpack(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return bent(rng, data, other) if rng.random() < 0.7 else ormsgpack.packb(any_value(rng), option=_SORTED)


def _bend_cbor(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return bent(rng, data, other) if rng.random() < 0.7 else cbor2.dumps(any_value(rng), canonical=True)


def _bend_file(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Mostly with a right footer: behind a wrong one nothing is read."""
    body = bent(rng, data[:-32], other)
    return body + (hashlib.sha256(body).digest() if rng.random() < 0.9 else data[-32:])


# --- queries ---------------------------------------------------------------------------------------------


def _query(data: bytes) -> None:
    try:
        found = parse(data)
    except QueryError as error:
        mutants.check_refused(error, data.decode(errors="replace"))
        raise
    mutants.check_accepted(found)


def _json_query(data: bytes) -> None:
    try:
        form = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidInput("The input is not JSON.") from None
    try:
        found = from_json(form)
    except QueryError as error:
        # Its places are those of the canonical text, which nobody sees here.
        mutants.check_refused(error, " " * error.end)
        raise
    mutants.check_accepted(found)


def _bend_query(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Mostly by words, so that it gets past the reader of tokens; also from queries that are none to begin with."""
    kind = rng.random()
    if kind < 0.1:
        return bent(rng, data, other)
    if kind < 0.5:
        return mutants.respelled(rng, rng.choice(VALID)).encode()
    text = rng.choice(QUERIES) if kind < 0.7 else data.decode(errors="replace")
    return mutants.mutated(rng, text, other.decode(errors="replace")).encode(errors="surrogatepass")


def _bend_json_query(rng: random.Random, data: bytes, other: bytes) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return bent(rng, data, other)
    if kind < 0.4:
        with contextlib.suppress(QueryError):
            return json.dumps(to_json(parse(mutants.respelled(rng, rng.choice(VALID))))).encode()
    try:
        form, foreign = json.loads(data), json.loads(other)
    except (ValueError, RecursionError):
        return bent(rng, data, other)
    for _ in range(rng.choice((1, 1, 2, 3))):
        form = _grafted(rng, form, foreign) if rng.random() < 0.5 else bent_value(rng, form)
    return json.dumps(form, default=str).encode()


def _grafted(rng: random.Random, form: Any, foreign: Any) -> Any:
    """The form with some value of it replaced by, or beside, a value of the foreign one."""
    value = _some_value(rng, foreign)
    if not isinstance(form, dict | list) or not form or rng.random() < 0.2:
        return value
    changed = form.copy()
    if isinstance(changed, dict):
        other = foreign if isinstance(foreign, dict) and foreign and rng.random() < 0.3 else changed
        key = rng.choice(list(other))
        changed[key] = _grafted(rng, changed.get(key, value), foreign)
    else:
        at = rng.randrange(len(changed))
        changed[at : at + rng.randrange(2)] = [_grafted(rng, changed[at], foreign)]
    return changed


def _some_value(rng: random.Random, form: Any) -> Any:
    while isinstance(form, dict | list) and form and rng.random() < 0.7:
        form = rng.choice(list(form.values()) if isinstance(form, dict) else form)
    return form


def targets() -> Iterator[Target]:
    """All of them, with their seeds."""
    blobs = tuple(grains.encode(fields, cbor=is_cbor).blob for fields in _FIELDS for is_cbor in (False, True))
    signed = signed_grain()
    few = some_grains(3)
    files = (
        written(few),
        written([*few, signed], [VERIFIED] * 2),
        written(few, [VERIFIED], compress=True),
        written(some_grains(2, cbor=True), [VERIFIED]),
        written([]),
    )
    yield Target("grain", _grain, blobs)
    yield Target("fields", _grain, blobs, _bend_fields)
    yield Target("loose-grain", _loose_grain, blobs, _bend_fields)
    yield Target("msgpack", _msgpack, tuple(blob[9:] for blob in blobs[::2]), _bend_msgpack)
    yield Target("cbor", _cbor, tuple(blob[9:] for blob in blobs[1::2]), _bend_cbor)
    yield Target("envelope", _envelope, (signed.envelope,))
    yield Target("delivery", _delivery, (signed.envelope, *blobs[:4]))
    yield Target("file", _file, files, _bend_file)
    queries = tuple(text.encode() for text in VALID)
    forms = tuple(json.dumps(to_json(parse(text))).encode() for text in VALID)
    yield Target("cal", _query, queries, _bend_query, max_seconds=QUERY_SECONDS)
    yield Target("cal-json", _json_query, forms, _bend_json_query, max_seconds=QUERY_SECONDS)

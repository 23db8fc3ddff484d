"""Selective disclosure: views of a grain that leave fields out (OMS section 10).

A view is the grain minus some fields, plus `_elided` (field → hash of its value) and `_disclosure_of` (the address of
the original). Someone who later receives a value can check it against the view. Views are made on demand, are never
signed and must not be stored.

    the form of OMS     sha256:<hex of SHA-256(value)>
    the salted form     sha256-salted:<hex of SHA-256(salt ‖ value)>, ours

A plain hash of a name or a number does not hide it: trying all candidates takes seconds. The same holds for the
original's address if the rest of the grain is visible. So the salted form salts every elided field and the address. The
salts are sent separately, to those who may know the values.

A view cannot be unmade: choose what to leave out before sending. Fields that other rules depend on (type, times,
policy) cannot be left out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Any, Final

from memoranda.errors import GrainError
from memoranda.standards.oms import canonical, grains
from memoranda.standards.oms.fields import compact, full_name
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.normal import quote_key
from memoranda.standards.oms.registry import is_domain_byte

PLAIN_PREFIX: Final = "sha256:"
SALTED_PREFIX: Final = "sha256-salted:"
# Bytes. A fixed length: otherwise the first bytes of a value could pass as the end of a longer salt.
SALT_BYTES: Final = 32
ELIDED: Final = "_elided"
ORIGINAL: Final = "_disclosure_of"

# Section 10.2, first half of the table.
NOT_ELIDABLE: Final = frozenset(
    """type relation confidence created_at goal_state source_type priority observer_type observation_mode
    observation_scope compression_ratio""".split()
)
# The table omits the other fields, among them most private ones: content, input, output, thoughts. They may be elided,
# except those that change the meaning or the obligations of the visible fields.
NOT_ELIDABLE_EITHER: Final = frozenset(
    """invalidation_policy requires_human_review processing_basis retention_policy license identity_state
    epistemic_status temporal_type valid_from valid_to invalidation_type thinking_redacted is_withdrawal scope
    action_phase is_error threshold agreement_count dissent_count
    authorized_namespaces authorized_types authorized_tools delegation_depth delegation_expiry""".split()
)


def is_elidable(field: str) -> bool:
    """Return True if a view may leave the field out."""
    return (
        field not in NOT_ELIDABLE
        and field not in NOT_ELIDABLE_EITHER
        and field not in (ELIDED, ORIGINAL)
    )


def disclose(
    grain: Grain, elide: Collection[str], *, salts: Mapping[str, bytes] | None = None
) -> Grain:
    """Build the view of a grain without the fields in `elide`. Raises GrainError.

    `salts` has one salt of 32 bytes for each elided field and one for `_disclosure_of`, all different.
    """
    _check_elision(grain, elide)
    if salts is not None:
        _check_salts(salts, {*elide, ORIGINAL})
    visible_fields = {name: value for name, value in grain.fields.items() if name not in elide}
    salt_by_name = salts or {}
    hashes = {}
    for name in elide:
        data = _encode_field(name, grain.fields[name], grain.type_byte)
        hashes[name] = _commit_to(data, salt_by_name.get(name))
    visible_fields[ELIDED] = hashes
    if salts is None:
        visible_fields[ORIGINAL] = PLAIN_PREFIX + grain.address
    else:
        visible_fields[ORIGINAL] = _commit_to(_encode_address(grain.address), salts[ORIGINAL])
    # The header is that of the view. The hash of an elided namespace would reveal 16 bits of it, so the view has the
    # hash of no namespace. The sensitivity stays, even if the tags that demanded it are elided.
    return grains.encode(
        visible_fields,
        cbor=grain.header.is_cbor,
        sensitivity=grain.header.sensitivity,
        type_byte=grain.type_byte if is_domain_byte(grain.type_byte) else None,
        default_namespace=None,
    )


def verify_field(view: Grain, field: str, value: Any, salt: bytes | None = None) -> bool:
    """Return True if the view elided exactly this value, or has this `_disclosure_of`. Never raises."""
    try:
        if field == ORIGINAL:
            commitment = view.fields.get(ORIGINAL)
            data = _encode_address(value)
            expected = PLAIN_PREFIX + value if salt is None else _commit_to(data, salt)
        else:
            commitment = _elided_hashes(view).get(field)
            expected = _commit_to(_encode_field(field, value, view.type_byte), salt)
    except GrainError:
        return False
    return isinstance(commitment, str) and hmac.compare_digest(
        commitment.encode("utf-8"), expected.encode("ascii")
    )


def verify_view(view: Grain, original: Grain, *, salts: Mapping[str, bytes] | None = None) -> bool:
    """Return True if the view is the original minus the fields that it lists as elided, unchanged otherwise."""
    elided = _elided_hashes(view)
    salt_by_name = salts or {}
    if (
        view.type_byte != original.type_byte
        or view.header.sensitivity != original.header.sensitivity
    ):
        return False
    if not elided.keys() <= original.fields.keys() or not all(map(is_elidable, elided)):
        return False
    visible = {name: value for name, value in view.fields.items() if name not in (ELIDED, ORIGINAL)}
    expected = {name: value for name, value in original.fields.items() if name not in elided}
    # Compare encoded bytes, because 1, 1.0 and True are equal in Python.
    return (
        canonical.encode_value(visible) == canonical.encode_value(expected)
        and verify_field(view, ORIGINAL, original.address, salt_by_name.get(ORIGINAL))
        and all(
            verify_field(view, name, original.fields[name], salt_by_name.get(name))
            for name in elided
        )
    )


def _check_elision(grain: Grain, elide: Collection[str]) -> None:
    """Raise GrainError if these fields of the grain cannot be left out."""
    if ELIDED in grain.fields or ORIGINAL in grain.fields:
        raise GrainError(
            "this is already a view; make views from the original", oms_code="ERR_SCHEMA"
        )
    if not elide:
        raise GrainError("name at least one field to leave out", oms_code="ERR_SCHEMA")
    for name in sorted(elide):
        if not is_elidable(name):
            raise GrainError(
                f"{quote_key(name)} must stay visible in every view", oms_code="ERR_SCHEMA"
            )
        if name not in grain.fields:
            # Otherwise a misspelt name would leave its field visible.
            raise GrainError(
                f"the grain has no field {quote_key(name)} to leave out", oms_code="ERR_SCHEMA"
            )


def _check_salts(salts: Mapping[str, bytes], needed: set[str]) -> None:
    """Raise GrainError unless there is one distinct salt of the right size for each name."""
    if salts.keys() != needed:
        raise GrainError(
            f"salts are needed for exactly the elided fields and for {ORIGINAL}",
            oms_code="ERR_SCHEMA",
        )
    has_right_sizes = all(len(salt) == SALT_BYTES for salt in salts.values())
    if not has_right_sizes or len(set(salts.values())) != len(salts):
        raise GrainError(
            f"salts have {SALT_BYTES} bytes and are all different", oms_code="ERR_SCHEMA"
        )


def _elided_hashes(view: Grain) -> dict[str, object]:
    """Return the hashes of the elided fields by full name.

    Section 10.1 shows full names; a view with short keys is accepted as well.
    """
    hashes = view.fields.get(ELIDED)
    if not isinstance(hashes, Mapping):
        return {}
    return {full_name(name, view.type_byte): value for name, value in hashes.items()}


def _encode_field(field: str, value: object, type_byte: int) -> bytes:
    """Encode a field's value as section 10.1.1 demands: canonical MessagePack with nested short keys, also for CBOR."""
    (short,) = compact({field: value}, type_byte).values()
    return canonical.encode_value(short)


def _encode_address(address: object) -> bytes:
    """Encode an address for its hash. Raises GrainError if it is malformed."""
    if not isinstance(address, str):
        raise GrainError("not an address", oms_code="ERR_HASH_FORMAT")
    return canonical.encode_value(grains.check_address(address))


def _commit_to(data: bytes, salt: bytes | None) -> str:
    """Return the hash that stands for a value, salted if there is a salt."""
    if salt is None:
        return PLAIN_PREFIX + hashlib.sha256(data).hexdigest()
    if len(salt) != SALT_BYTES:
        raise GrainError(f"a salt has {SALT_BYTES} bytes", oms_code="ERR_SCHEMA")
    return SALTED_PREFIX + hashlib.sha256(salt + data).hexdigest()

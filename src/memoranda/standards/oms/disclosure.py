"""Showing a grain without all of it: selective disclosure (OMS section 10).

A view is the grain minus some fields, plus `_elided` (field → hash of its value) and `_disclosure_of` (the address of
the original). Whoever is told a value later can check it against the view. The original stays the one grain: views are
made on demand, are never signed and are not to be stored.

    the form of OMS     sha256:<hex of SHA-256(value)>
    the salted form     sha256-salted:<hex of SHA-256(salt ‖ value)>, ours

A plain hash of a name or a number is as good as the name: trying all of them takes seconds. The same holds for the
original's address when everything else in the grain is shown. So the salted form salts every elided field and the
address; the salts travel separately, to those who may know.
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
from memoranda.standards.oms.normal import shown
from memoranda.standards.oms.registry import is_domain_byte

PLAIN_PREFIX: Final = "sha256:"
SALTED_PREFIX: Final = "sha256-salted:"
# One length only: otherwise the first bytes of a value could be passed off as the end of a longer salt.
SALT_BYTES: Final = 32
ELIDED: Final = "_elided"
ORIGINAL: Final = "_disclosure_of"

# Section 10.2, first half of the table.
NOT_ELIDABLE: Final = frozenset(
    """type relation confidence created_at goal_state source_type priority observer_type observation_mode
    observation_scope compression_ratio""".split()
)
# The table is silent about the rest, among it most of what is private: content, input, output, thoughts. All of it may
# be elided, except what changes the meaning or the duties of what is shown.
NOT_ELIDABLE_EITHER: Final = frozenset(
    """invalidation_policy requires_human_review processing_basis retention_policy license identity_state
    epistemic_status temporal_type valid_from valid_to invalidation_type thinking_redacted is_withdrawal scope
    action_phase is_error threshold agreement_count dissent_count
    authorized_namespaces authorized_types authorized_tools delegation_depth delegation_expiry""".split()
)


def is_elidable(field: str) -> bool:
    """Whether a view may leave the field out."""
    return field not in NOT_ELIDABLE and field not in NOT_ELIDABLE_EITHER and field not in (ELIDED, ORIGINAL)


def disclose(grain: Grain, elide: Collection[str], *, salts: Mapping[str, bytes] | None = None) -> Grain:
    """The view of a grain without the fields in `elide`. Raises GrainError.

    With salts, there is one of 32 bytes for each elided field and one for `_disclosure_of`, all different.
    """
    _check_elision(grain, elide)
    if salts is not None:
        _check_salts(salts, {*elide, ORIGINAL})
    shown_fields = {name: value for name, value in grain.fields.items() if name not in elide}
    given = salts or {}
    shown_fields[ELIDED] = {
        name: _commitment(_value_bytes(name, grain.fields[name], grain.type_byte), given.get(name)) for name in elide
    }
    shown_fields[ORIGINAL] = (
        PLAIN_PREFIX + grain.address if salts is None else _commitment(_address_bytes(grain.address), salts[ORIGINAL])
    )
    # The header is that of the view: the hash of an elided namespace would tell 16 bits of it, so it is that of no
    # namespace; the sensitivity stays, also when the tags that demanded it are gone.
    return grains.encode(
        shown_fields,
        cbor=grain.header.is_cbor,
        sensitivity=grain.header.sensitivity,
        type_byte=grain.type_byte if is_domain_byte(grain.type_byte) else None,
        default_namespace=None,
    )


def verify_field(view: Grain, field: str, value: Any, salt: bytes | None = None) -> bool:
    """Whether the view elided exactly this value of the field, or comes from this `_disclosure_of`. Never raises."""
    try:
        if field == ORIGINAL:
            stated = view.fields.get(ORIGINAL)
            data = _address_bytes(value)
            expected = PLAIN_PREFIX + value if salt is None else _commitment(data, salt)
        else:
            stated = _elided(view).get(field)
            expected = _commitment(_value_bytes(field, value, view.type_byte), salt)
    except GrainError:
        return False
    return isinstance(stated, str) and hmac.compare_digest(stated.encode("utf-8"), expected.encode("ascii"))


def verify_view(view: Grain, original: Grain, *, salts: Mapping[str, bytes] | None = None) -> bool:
    """Whether the view is the original minus what it says it elided: nothing more, nothing less, nothing else."""
    elided = _elided(view)
    given = salts or {}
    if view.type_byte != original.type_byte or view.header.sensitivity != original.header.sensitivity:
        return False
    if not elided.keys() <= original.fields.keys() or not all(map(is_elidable, elided)):
        return False
    kept = {name: value for name, value in view.fields.items() if name not in (ELIDED, ORIGINAL)}
    expected = {name: value for name, value in original.fields.items() if name not in elided}
    # By their bytes: 1, 1.0 and True are equal only in Python.
    return (
        canonical.encode_value(kept) == canonical.encode_value(expected)
        and verify_field(view, ORIGINAL, original.address, given.get(ORIGINAL))
        and all(verify_field(view, name, original.fields[name], given.get(name)) for name in elided)
    )


def _check_elision(grain: Grain, elide: Collection[str]) -> None:
    if ELIDED in grain.fields or ORIGINAL in grain.fields:
        raise GrainError("this is a view already; views are made from the original", oms_code="ERR_SCHEMA")
    if not elide:
        raise GrainError("a view leaves out one field or more", oms_code="ERR_SCHEMA")
    for name in sorted(elide):
        if not is_elidable(name):
            raise GrainError(f"{shown(name)} must stay visible in every view", oms_code="ERR_SCHEMA")
        if name not in grain.fields:
            # A misspelt name must not show what it meant to hide.
            raise GrainError(f"the grain has no field {shown(name)} to leave out", oms_code="ERR_SCHEMA")


def _check_salts(salts: Mapping[str, bytes], needed: set[str]) -> None:
    if salts.keys() != needed:
        raise GrainError(f"salts are needed for exactly the elided fields and for {ORIGINAL}", oms_code="ERR_SCHEMA")
    if any(len(salt) != SALT_BYTES for salt in salts.values()) or len(set(salts.values())) != len(salts):
        raise GrainError(f"salts have {SALT_BYTES} bytes and are all different", oms_code="ERR_SCHEMA")


def _elided(view: Grain) -> dict[str, Any]:
    """Section 10.1 shows full names; a view that uses short keys is understood."""
    elided = view.fields.get(ELIDED)
    if not isinstance(elided, Mapping):
        return {}
    return {full_name(name, view.type_byte): stated for name, stated in elided.items()}


def _value_bytes(field: str, value: Any, type_byte: int) -> bytes:
    """Section 10.1.1: canonical MessagePack of the value as a payload has it, nested names short, also for CBOR."""
    (short,) = compact({field: value}, type_byte).values()
    return canonical.encode_value(short)


def _address_bytes(address: object) -> bytes:
    if not isinstance(address, str):
        raise GrainError("not an address", oms_code="ERR_HASH_FORMAT")
    return canonical.encode_value(grains.check_address(address))


def _commitment(data: bytes, salt: bytes | None) -> str:
    if salt is None:
        return PLAIN_PREFIX + hashlib.sha256(data).hexdigest()
    if len(salt) != SALT_BYTES:
        raise GrainError(f"a salt has {SALT_BYTES} bytes", oms_code="ERR_SCHEMA")
    return SALTED_PREFIX + hashlib.sha256(salt + data).hexdigest()

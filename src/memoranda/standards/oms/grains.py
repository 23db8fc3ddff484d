"""Memory grains: fields in, bytes out, and back (sections 3 to 6, 13 and 19).

A grain is a nine-byte header and a canonical map. Its address is the SHA-256 of both. The header follows from the
fields, the encoding, and whether the grain is to be signed, so a grain has exactly one spelling; `decode` refuses every
other. It returns all fields, including unknown ones.

`encode` and `decode` check everything. `read_accepted_fields`, `read_accepted_grain` and `encode_unchecked` skip checks
for bytes and fields that are known to be valid; hot paths use them.

Writing: `encode` brings the fields to normal form, checks them against the schema, builds the header and packs both.
Reading: `decode` does the same backwards and refuses everything that `encode` would not have written, so one grain has
one address in every implementation. The order of the checks decides which error code a client gets; the published
vectors fix it. The unchecked functions are safe only for bytes under a seal of the store, or for fields that were built
here. Using one of them for input from outside would let an invalid grain in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError, TooLarge
from memoranda.model.instant import parse_instant
from memoranda.model.oms_names import check_address
from memoranda.standards.oms import canonical, header, schema
from memoranda.standards.oms.advice import warnings_for
from memoranda.standards.oms.cbor import decode_value as _decode_cbor
from memoranda.standards.oms.cbor import pack as _pack_cbor
from memoranda.standards.oms.fields import (
    INDEX_FIELDS,
    REMOVED_FIELDS,
    compact,
    expand,
    expand_accepted,
)
from memoranda.standards.oms.header import HEADER_BYTES, VERSION, Header, namespace_hash
from memoranda.standards.oms.normal import is_normal, normalise, quote_key, refuse_bytes
from memoranda.standards.oms.profile import EXTENDED, SizeProfile, find_domain_problems
from memoranda.standards.oms.registry import (
    BY_BYTE,
    BY_NAME,
    DEFAULT_NAMESPACE,
    TAG_SENSITIVITY,
    is_domain_byte,
)
from memoranda.standards.oms.schema import SchemaViolation

__all__ = [
    "BINARY_FIELDS",
    "Grain",
    "SchemaViolation",
    "address_of",
    "check_address",
    "decode",
    "encode",
    "required_sensitivity",
    "warnings_for",
]

Fields = Mapping[str, Any]

# Hexadecimal digits of a SHA-256.

# Section 4.8 names four of these; the others are instants as well (section 6). All are milliseconds.
_INSTANTS: Final = frozenset(
    "created_at valid_from valid_to system_valid_from timestamp_ms deadline delegation_expiry".split()
)
_FLOATS: Final = frozenset("confidence importance progress compression_ratio".split())
# Fields whose entries have a float field `weight`.
_WEIGHTED: Final = frozenset(("related_to", "provenance_chain"))
_COERCED: Final = _INSTANTS | _FLOATS | _WEIGHTED | {"statistical_context"}
# Section 6.1 gives the first field bytes and the second COSE signatures; appendix B allows no binary data anywhere.
BINARY_FIELDS: Final = frozenset(("trusted_timestamp", "supersession_auth"))
_INDEX_ONLY: Final = INDEX_FIELDS | REMOVED_FIELDS
_REFERENCES: Final = header.CONTENT_REFS | header.EMBEDDING_REFS
# The largest integer value that a float holds exactly; greater ones are not converted.
_MAX_EXACT_INTEGER: Final = 2**53
# Tag prefixes that raise the sensitivity in the header.
_SENSITIVE: Final = tuple(TAG_SENSITIVITY)
# These prefixes and the one of domain profiles, whose fields are checked as well.
SIGNIFICANT_PREFIXES: Final = (*_SENSITIVE, "profile:")
_UNDEFINED_FLAGS: Final = header.ENCRYPTED | header.COMPRESSED


class Grain(msgspec.Struct, frozen=True, gc=False):
    """An immutable memory with the bytes that its address is computed from. Do not change its fields."""

    fields: Fields
    type_name: str
    type_byte: int
    address: str
    blob: bytes
    header: Header

    def __repr__(self) -> str:
        return f"Grain({self.address}, {dict(self.fields)!r})"

    @property
    def namespace(self) -> str:
        """The grain's namespace, or the default namespace if it names none."""
        return str(self.fields.get("namespace", DEFAULT_NAMESPACE))


def encode(
    fields: Fields,
    *,
    cbor: bool = False,
    signed: bool = False,
    sensitivity: int | None = None,
    type_byte: int | None = None,
    default_namespace: str | None = DEFAULT_NAMESPACE,
    profile: SizeProfile = EXTENDED,
) -> Grain:
    """Build the grain that has these fields. Raises GrainError or TooLarge.

    `sensitivity` is a minimum: tags may raise it (section 13). `type_byte` is for application types, 0xF0 to 0xFF.
    `default_namespace` is added to a grain that names none; with None the fields are written exactly as they are, so
    that a decoded grain encodes to the same bytes (section 4.5).

    `profile` limits size and depth: EXTENDED for grains of clients, VIEWS for views, which hold their original.
    """
    prepared_fields = _prepare_fields(fields, profile.max_depth)
    if (
        default_namespace is not None
        and "namespace" not in prepared_fields
        and "_elided" not in prepared_fields
    ):
        prepared_fields["namespace"] = default_namespace
    name, byte = _type_to_write(prepared_fields, type_byte)
    _check_writable(prepared_fields, byte, profile)
    head = Header(
        VERSION,
        _build_flags(prepared_fields, cbor=cbor, is_signed=signed, sensitivity=sensitivity),
        byte,
        _namespace_hash(prepared_fields),
        prepared_fields["created_at"] // 1000,
    )
    payload = compact(prepared_fields, byte)
    blob = head.pack() + (_pack_cbor(payload) if cbor else canonical.pack(payload))
    _check_size(blob, profile)
    return Grain(prepared_fields, name, byte, address_of(blob), blob, head)


def _check_size(blob: bytes, profile: SizeProfile) -> None:
    """Raise TooLarge if the blob is larger than the profile allows."""
    if len(blob) > profile.max_bytes:
        raise TooLarge(
            f"a grain of {len(blob)} bytes is over the limit of {profile.max_bytes} ({profile.name} profile)"
        )


def encode_unchecked(fields: dict[str, Any], type_byte: int, profile: SizeProfile) -> Grain:
    """Build a grain from fields that the caller guarantees to be valid, ASCII and in normal form. Raises TooLarge."""
    head = Header(
        VERSION, 0, type_byte, namespace_hash(fields["namespace"]), fields["created_at"] // 1000
    )
    blob = head.pack() + canonical.pack(compact(fields, type_byte))
    _check_size(blob, profile)
    return Grain(fields, fields["type"], type_byte, address_of(blob), blob, head)


def decode(
    blob: bytes, *, address: str | None = None, strict: bool = True, profile: SizeProfile = EXTENDED
) -> Grain:
    """Decode a grain and verify everything that needs no key. Raises GrainError or TooLarge.

    With `strict=False` a type byte reserved for later versions gives an opaque grain (section 19.4). MessagePack under
    the CBOR flag is then read too, because another implementation uses that flag for something else.

    `address` is what the caller expects; a difference is an integrity error. The result keeps the given bytes in
    `blob`.
    """
    _check_size(blob, profile)
    head = Header.parse(blob)
    actual = address_of(blob)
    # Section 20.4: compare in constant time.
    if address is not None and not hmac.compare_digest(actual, check_address(address)):
        raise GrainError(f"these bytes are not the grain {address}", oms_code="ERR_INTEGRITY")
    if head.flags & _UNDEFINED_FLAGS:
        # Section 20.2: OMS defines neither flag and gives no layout for them.
        raise GrainError(
            "the payload is marked encrypted or compressed, which has no defined layout",
            oms_code="ERR_CORRUPT",
        )
    payload, may_hold_bytes = _decode_payload(blob, head, profile.max_depth, strict=strict)
    if type(payload) is not dict:
        raise GrainError("the payload is not a map", oms_code="ERR_NOT_MAP")
    fields = expand(payload, head.type_byte)
    name = _read_type(fields, head.type_byte, strict=strict)
    schema.check(fields, head.type_byte)
    if may_hold_bytes:
        refuse_bytes(fields, BINARY_FIELDS)
    _check_header(head, fields)
    return Grain(fields, name, head.type_byte, actual, blob, head)


def read_accepted_fields(blob: bytes) -> tuple[int, dict[str, Any]]:
    """Return the type byte and the fields of a grain that was verified when it was stored. Checks nothing."""
    flags, type_byte = blob[1], blob[2]
    data = blob[HEADER_BYTES:]
    payload = _decode_cbor(data) if flags & header.CBOR else canonical.unpack(data)
    return type_byte, expand_accepted(payload, type_byte)


def read_accepted_grain(blob: bytes, address: str) -> Grain:
    """Build a grain from bytes that were verified under this address when they were stored. Checks nothing.

    CAL queries read thousands of grains through it, for which `decode` would be too slow.
    """
    type_byte, fields = read_accepted_fields(blob)
    return Grain(fields, _type_name(fields), type_byte, address, blob, Header.parse(blob))


def address_of(blob: bytes) -> str:
    """Return the content address: lower-case hexadecimal SHA-256 of header and payload (section 5)."""
    return hashlib.sha256(blob).hexdigest()


def required_sensitivity(fields: Fields) -> int:
    """Return the minimum sensitivity that the structural tags demand (section 13)."""
    sensitive = [tag for tag in fields.get("structural_tags") or () if tag.startswith(_SENSITIVE)]
    levels = (
        level
        for tag in sensitive
        for prefix, level in TAG_SENSITIVITY.items()
        if tag.startswith(prefix)
    )
    return max(levels, default=0)


def _decode_payload(
    blob: bytes, head: Header, max_depth: int, *, strict: bool
) -> tuple[object, bool]:
    """Decode the payload; return it and whether it may contain byte strings."""
    # No byte can begin a map in both encodings, so the lenient reading is unambiguous.
    if head.is_cbor and (strict or blob[HEADER_BYTES] not in canonical.MAP_LEADS):
        return _decode_cbor(blob[HEADER_BYTES:], max_depth=max_depth), True
    return canonical.decode_canonical(blob[HEADER_BYTES:], max_depth)


def _prepare_fields(fields: Fields, max_depth: int) -> dict[str, Any]:
    """Return a copy of the fields in normal form, with instants as milliseconds and float fields as floats."""
    if type(fields) is dict and is_normal(fields, max_depth):
        prepared_fields = dict(fields)
    else:
        prepared_fields = normalise(fields, max_depth=max_depth)
        if not isinstance(prepared_fields, dict):
            raise GrainError("a grain is a map of fields", oms_code="ERR_NOT_MAP")
        refuse_bytes(prepared_fields, BINARY_FIELDS)
    for name in _COERCED & prepared_fields.keys():
        prepared_fields[name] = _coerce_field(name, prepared_fields[name])
    return prepared_fields


def _coerce_field(name: str, value: object) -> object:
    """Convert the value of an instant or float field to its wire type."""
    if name in _FLOATS:
        return _as_float(value)
    if name in _INSTANTS:
        return _as_milliseconds(name, value) if isinstance(value, str) else value
    if name in _WEIGHTED and isinstance(value, list):
        return [_with_floats(entry, "weight") for entry in value]
    if name == "statistical_context":
        return _with_floats(value, "p_value", "effect_size", "confidence_interval")
    return value


def _as_float(value: object) -> object:
    """Return an integer as a float if that is exact; return anything else unchanged."""
    # Section 4.3 and vector 6: a whole number in a float field is a float on the wire.
    return float(value) if type(value) is int and abs(value) <= _MAX_EXACT_INTEGER else value


def _as_milliseconds(name: str, text: str) -> int:
    """Parse an RFC 3339 time. Raises GrainError that names the field."""
    try:
        return parse_instant(text)
    except ValueError:
        raise GrainError(
            f"{name} is not an RFC 3339 date-time with an offset", oms_code="ERR_SCHEMA"
        ) from None


def _with_floats(value: object, *names: str) -> object:
    """Return a copy of the map in which these fields, or their items, are floats."""
    if not isinstance(value, dict):
        return value
    converted = dict(value)
    for name in names:
        if name in converted:
            item = converted[name]
            if isinstance(item, list):
                converted[name] = [_as_float(number) for number in item]
            else:
                converted[name] = _as_float(item)
    return converted


def _type_to_write(fields: Fields, type_byte: int | None) -> tuple[str, int]:
    """Return the name and the type byte to write. Raises GrainError if they do not fit together."""
    name = _type_name(fields)
    grain_type = BY_NAME.get(name)
    if grain_type is not None:
        if type_byte not in (None, grain_type.byte):
            raise GrainError(
                f"a {name} has the type byte 0x{grain_type.byte:02x}", oms_code="ERR_SCHEMA"
            )
        return name, grain_type.byte
    if type_byte is None or not is_domain_byte(type_byte):
        raise GrainError(f"unknown memory type {quote_key(name)}", oms_code="ERR_UNKNOWN_TYPE")
    return name, type_byte


def _read_type(fields: Fields, type_byte: int, *, strict: bool) -> str:
    """Return the name of the type that was read. Raises GrainError if it does not fit the type byte."""
    name = _type_name(fields)
    grain_type = BY_BYTE.get(type_byte)
    if grain_type is None:
        if strict and not is_domain_byte(type_byte):
            raise GrainError(
                f"the type byte 0x{type_byte:02x} is reserved", oms_code="ERR_UNKNOWN_TYPE"
            )
        if name in BY_NAME:
            raise GrainError(
                f"the type byte 0x{type_byte:02x} does not belong to the type {name}",
                oms_code="ERR_SCHEMA",
            )
    elif name not in grain_type.names:
        code = "ERR_SCHEMA" if name in BY_NAME else "ERR_UNKNOWN_TYPE"
        raise GrainError(
            f"the type byte 0x{type_byte:02x} belongs to the type {grain_type.name}, not to {quote_key(name)}",
            oms_code=code,
        )
    return name


def _type_name(fields: Fields) -> str:
    """Return the value of the field `type`. Raises GrainError if it is not a name."""
    name = fields.get("type")
    if name is None:
        raise GrainError("type is required", oms_code="ERR_NO_TYPE")
    if not isinstance(name, str):
        raise GrainError("type must be text", oms_code="ERR_SCHEMA")
    if not name:
        raise GrainError("type must not be empty", oms_code="ERR_EMPTY")
    return name


def _check_writable(fields: Fields, type_byte: int, profile: SizeProfile) -> None:
    """Raise GrainError if a grain with these fields must not be written."""
    if violations := _all_problems(fields, type_byte):
        raise _as_error(violations)
    profile.check_fields(fields)


def _all_problems(fields: Fields, type_byte: int) -> list[SchemaViolation]:
    """Return the violations of the schema, of the index rules and of the domain profiles."""
    violations = schema.find_problems(fields, type_byte)
    if not _INDEX_ONLY.isdisjoint(fields):
        violations.extend(
            SchemaViolation(
                "ERR_SCHEMA", f"{name} is kept by the store and cannot be written into a grain"
            )
            for name in sorted(_INDEX_ONLY.intersection(fields))
        )
    if not violations and "structural_tags" in fields:
        violations.extend(
            SchemaViolation("ERR_SCHEMA", message) for message in find_domain_problems(fields)
        )
    return violations


def _as_error(violations: list[SchemaViolation]) -> GrainError:
    """Return an error with the code of the first violation and the messages of all."""
    return GrainError(
        "; ".join(problem.message for problem in violations), oms_code=violations[0].oms_code
    )


def _build_flags(fields: Fields, *, cbor: bool, is_signed: bool, sensitivity: int | None) -> int:
    """Return the flag bits of the header."""
    if sensitivity is not None and not 0 <= sensitivity < len(header.SENSITIVITIES):
        raise GrainError(
            "sensitivity is 0 public, 1 internal, 2 pii or 3 phi", oms_code="ERR_RANGE"
        )
    flags = max(sensitivity or 0, required_sensitivity(fields)) << header.SENSITIVITY_SHIFT
    if is_signed:
        flags |= header.SIGNED
    if cbor:
        flags |= header.CBOR
    return flags | _reference_flags(fields)


def _reference_flags(fields: Fields) -> int:
    """Return the flag bits for content and embedding references."""
    content_flag = header.CONTENT_REFS if "content_refs" in fields else 0
    embedding_flag = header.EMBEDDING_REFS if "embedding_refs" in fields else 0
    return content_flag | embedding_flag


def _namespace_hash(fields: Fields) -> int:
    """Return the namespace hash of the header."""
    if "namespace" in fields:
        return namespace_hash(fields["namespace"])
    # A disclosed view must not reveal the namespace it hides. Any other grain without one is in the default namespace.
    return namespace_hash("" if "_elided" in fields else DEFAULT_NAMESPACE)


# Hashes that implementations may write for a grain without namespace; OMS does not say which.
_NO_NAMESPACE: Final = frozenset((0, namespace_hash(""), namespace_hash(DEFAULT_NAMESPACE)))


def _check_header(head: Header, fields: Fields) -> None:
    """Raise GrainError if the header contradicts the payload."""
    if head.sensitivity < required_sensitivity(fields):
        # Section 13: parsers MUST reject.
        raise GrainError(
            "the sensitivity in the header is lower than the tags demand",
            oms_code="ERR_SENSITIVITY_MISMATCH",
        )
    if head.created_at_sec != fields["created_at"] // 1000:
        raise GrainError(
            "the creation times of the header and the payload differ", oms_code="ERR_CORRUPT"
        )
    if head.flags & _REFERENCES != _reference_flags(fields):
        raise GrainError(
            "the header's reference flags contradict the payload", oms_code="ERR_CORRUPT"
        )
    if "namespace" in fields:
        matches = head.ns_hash == namespace_hash(fields["namespace"])
    else:
        # A disclosed view may keep the hash of the namespace that it hides.
        matches = head.ns_hash in _NO_NAMESPACE or "_elided" in fields
    if not matches:
        raise GrainError(
            "the namespace hash in the header does not match the payload's namespace",
            oms_code="ERR_CORRUPT",
        )

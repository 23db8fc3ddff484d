"""Memory grains: fields in, bytes out, and back (sections 3 to 6, 13 and 19).

A grain is a nine-byte header and a canonical map; its address is the SHA-256 of both. The header follows from the
fields, from the encoding and from whether it is to be signed, so a grain has one spelling: `decode` refuses every
other. What it accepts it returns whole, fields it does not know included.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError
from memoranda.model.instant import parse_instant
from memoranda.standards.oms import canonical, header, schema
from memoranda.standards.oms.advice import warnings_for
from memoranda.standards.oms.cbor import decode_value as _decode_cbor
from memoranda.standards.oms.cbor import pack as _pack_cbor
from memoranda.standards.oms.fields import INDEX_FIELDS, REMOVED_FIELDS, accepted, compact, expand
from memoranda.standards.oms.header import HEADER_BYTES, VERSION, Header, namespace_hash
from memoranda.standards.oms.normal import is_normal, normalised, refuse_bytes, shown
from memoranda.standards.oms.profile import EXTENDED, SizeProfile, domain_problems
from memoranda.standards.oms.registry import BY_BYTE, BY_NAME, DEFAULT_NAMESPACE, TAG_SENSITIVITY, is_domain_byte
from memoranda.standards.oms.schema import Problem

__all__ = [
    "BINARY_FIELDS",
    "Grain",
    "Problem",
    "address_of",
    "check_address",
    "decode",
    "encode",
    "required_sensitivity",
    "warnings_for",
]

Fields = Mapping[str, Any]

ADDRESS_CHARS: Final = 64
_ADDRESS = re.compile(r"[0-9a-f]{64}", re.ASCII)

# Section 4.8 names four; the others are instants too (section 6).
_INSTANTS: Final = frozenset(
    "created_at valid_from valid_to system_valid_from timestamp_ms deadline delegation_expiry".split()
)
_FLOATS: Final = frozenset("confidence importance progress compression_ratio".split())
# Fields whose entries have a float called weight.
_WEIGHTED: Final = frozenset(("related_to", "provenance_chain"))
_COERCED: Final = _INSTANTS | _FLOATS | _WEIGHTED | {"statistical_context"}
# Section 6.1 gives the one bytes and the other COSE signatures; appendix B has no binary anywhere.
BINARY_FIELDS: Final = frozenset(("trusted_timestamp", "supersession_auth"))
_INDEX_ONLY: Final = INDEX_FIELDS | REMOVED_FIELDS
_REFERENCES: Final = header.CONTENT_REFS | header.EMBEDDING_REFS
# Larger integers would not survive the way into a float.
_EXACT_FLOAT: Final = 2**53
# How tags begin that the header has to tell of.
_SENSITIVE: Final = tuple(TAG_SENSITIVITY)
# And those that mean more than themselves: by them a domain's own fields are checked, too.
MARKS: Final = (*_SENSITIVE, "profile:")
_UNDEFINED_FLAGS: Final = header.ENCRYPTED | header.COMPRESSED


class Grain(msgspec.Struct, frozen=True, gc=False):
    """One immutable memory, with the bytes that are its identity. Its fields are for reading only."""

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
        """The namespace it is in, also when it names none."""
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
    """Make the grain that has these fields. Raises GrainError or TooLarge.

    `sensitivity` is a floor: tags may raise it (section 13). `type_byte` is for types of applications, 0xF0 to 0xFF.
    `default_namespace` is written into a grain that names none; None writes the fields exactly as they are, which is
    what reading and writing back needs (section 4.5).
    """
    prepared = _prepared(fields, profile.max_depth)
    if default_namespace is not None and "namespace" not in prepared and "_elided" not in prepared:
        prepared["namespace"] = default_namespace
    name, byte = _written_type(prepared, type_byte)
    _check_writable(prepared, byte, profile)
    head = Header(
        VERSION,
        _flags(prepared, cbor=cbor, signed=signed, sensitivity=sensitivity),
        byte,
        _namespace_hash(prepared),
        prepared["created_at"] // 1000,
    )
    payload = compact(prepared, byte)
    blob = head.pack() + (_pack_cbor(payload) if cbor else canonical.pack(payload))
    profile.check_size(blob)
    return Grain(prepared, name, byte, address_of(blob), blob, head)


def encode_plain(fields: dict[str, Any], type_byte: int, profile: SizeProfile) -> Grain:
    """The same for fields of our own making, which are right and in normal form: whoever made them saw to that."""
    head = Header(VERSION, 0, type_byte, namespace_hash(fields["namespace"]), fields["created_at"] // 1000)
    blob = head.pack() + canonical.pack(compact(fields, type_byte))
    profile.check_size(blob)
    return Grain(fields, fields["type"], type_byte, address_of(blob), blob, head)


def decode(blob: bytes, *, address: str | None = None, strict: bool = True, profile: SizeProfile = EXTENDED) -> Grain:
    """Read a grain and verify everything that can be verified without a key. Raises GrainError or TooLarge.

    With `strict=False` a type byte that is reserved for later versions gives an opaque grain (section 19.4), and a
    MessagePack map is read even under the flag for CBOR, which another implementation uses for something else.
    """
    profile.check_size(blob)
    head = Header.parse(blob)
    found = address_of(blob)
    # Section 20.4: compare in constant time.
    if address is not None and not hmac.compare_digest(found, check_address(address)):
        raise GrainError(f"these bytes are not the grain {address}", oms_code="ERR_INTEGRITY")
    if head.flags & _UNDEFINED_FLAGS:
        # Section 20.2: the format itself defines neither, and no layout is given for them.
        raise GrainError(
            "the payload is marked encrypted or compressed, which has no defined layout", oms_code="ERR_CORRUPT"
        )
    payload, may_hold_bytes = _payload(blob, head, profile.max_depth, strict=strict)
    if type(payload) is not dict:
        raise GrainError("the payload is not a map", oms_code="ERR_NOT_MAP")
    fields = expand(payload, head.type_byte)
    name = _read_type(fields, head.type_byte, strict=strict)
    schema.check(fields, head.type_byte)
    if may_hold_bytes:
        refuse_bytes(fields, BINARY_FIELDS)
    _check_header(head, fields)
    return Grain(fields, name, head.type_byte, found, blob, head)


def accepted_fields(blob: bytes) -> tuple[int, dict[str, Any]]:
    """The type byte and the fields of a grain that was verified when it was accepted; only for such."""
    flags, type_byte = blob[1], blob[2]
    payload = _decode_cbor(blob[HEADER_BYTES:]) if flags & header.CBOR else canonical.unpack(blob[HEADER_BYTES:])
    return type_byte, accepted(payload, type_byte)


def accepted_grain(blob: bytes, address: str) -> Grain:
    """The same as a grain, under the address that was verified then."""
    type_byte, fields = accepted_fields(blob)
    return Grain(fields, _type_name(fields), type_byte, address, blob, Header.parse(blob))


def address_of(blob: bytes) -> str:
    """The content address: lower-case hexadecimal SHA-256 of header and payload (section 5)."""
    return hashlib.sha256(blob).hexdigest()


def check_address(text: str) -> str:
    """Return the text if it is written like a content address. Raises GrainError."""
    if len(text) != ADDRESS_CHARS:
        raise GrainError(
            f"a content address has {ADDRESS_CHARS} characters, not {len(text)}", oms_code="ERR_HASH_LENGTH"
        )
    if _ADDRESS.fullmatch(text) is None:
        # Section 5: upper case MUST be rejected.
        raise GrainError("a content address is lower-case hexadecimal", oms_code="ERR_HASH_FORMAT")
    return text


def required_sensitivity(fields: Fields) -> int:
    """The least sensitivity that the structural tags demand (section 13)."""
    marks = [tag for tag in fields.get("structural_tags") or () if tag.startswith(_SENSITIVE)]
    return max(
        (least for tag in marks for prefix, least in TAG_SENSITIVITY.items() if tag.startswith(prefix)), default=0
    )


def _payload(blob: bytes, head: Header, max_depth: int, *, strict: bool) -> tuple[Any, bool]:
    # No byte begins a map in both encodings, so the loose reading is no guess.
    if head.is_cbor and (strict or blob[HEADER_BYTES] not in canonical.MAP_LEADS):
        return _decode_cbor(blob[HEADER_BYTES:], max_depth=max_depth), True
    return canonical.read(blob[HEADER_BYTES:], max_depth)


def _prepared(fields: Fields, max_depth: int) -> dict[str, Any]:
    """The fields in normal form, with datetimes as milliseconds and float fields as floats, in a map of their own."""
    if type(fields) is dict and is_normal(fields, max_depth):
        prepared = dict(fields)
    else:
        prepared = normalised(fields, max_depth=max_depth)
        if not isinstance(prepared, dict):
            raise GrainError("a grain is a map of fields", oms_code="ERR_NOT_MAP")
        refuse_bytes(prepared, BINARY_FIELDS)
    for name in _COERCED & prepared.keys():
        prepared[name] = _coerced(name, prepared[name])
    return prepared


def _coerced(name: str, value: Any) -> Any:
    if name in _FLOATS:
        return _as_float(value)
    if name in _INSTANTS:
        return _as_milliseconds(name, value) if isinstance(value, str) else value
    if name in _WEIGHTED and isinstance(value, list):
        return [_with_floats(entry, "weight") for entry in value]
    if name == "statistical_context":
        return _with_floats(value, "p_value", "effect_size", "confidence_interval")
    return value


def _as_float(value: Any) -> Any:
    # Section 4.3 and vector 6: an integral value of a float field is a float on the wire.
    return float(value) if type(value) is int and abs(value) <= _EXACT_FLOAT else value


def _as_milliseconds(name: str, text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError:
        raise GrainError(f"{name} is not an RFC 3339 date-time with an offset", oms_code="ERR_SCHEMA") from None


def _with_floats(value: Any, *names: str) -> Any:
    if not isinstance(value, dict):
        return value
    changed = dict(value)
    for name in names:
        if name in changed:
            item = changed[name]
            changed[name] = [_as_float(each) for each in item] if isinstance(item, list) else _as_float(item)
    return changed


def _written_type(fields: Fields, type_byte: int | None) -> tuple[str, int]:
    name = _type_name(fields)
    kind = BY_NAME.get(name)
    if kind is not None:
        if type_byte not in (None, kind.byte):
            raise GrainError(f"a {name} has the type byte 0x{kind.byte:02x}", oms_code="ERR_SCHEMA")
        return name, kind.byte
    if type_byte is None or not is_domain_byte(type_byte):
        raise GrainError(f"unknown memory type {shown(name)}", oms_code="ERR_UNKNOWN_TYPE")
    return name, type_byte


def _read_type(fields: Fields, type_byte: int, *, strict: bool) -> str:
    name = _type_name(fields)
    kind = BY_BYTE.get(type_byte)
    if kind is None:
        if strict and not is_domain_byte(type_byte):
            raise GrainError(f"the type byte 0x{type_byte:02x} is reserved", oms_code="ERR_UNKNOWN_TYPE")
        if name in BY_NAME:
            raise GrainError(f"the type byte 0x{type_byte:02x} is not that of a {name}", oms_code="ERR_SCHEMA")
    elif name not in kind.names:
        code = "ERR_SCHEMA" if name in BY_NAME else "ERR_UNKNOWN_TYPE"
        raise GrainError(
            f"the type byte 0x{type_byte:02x} is that of a {kind.name}, not of {shown(name)}", oms_code=code
        )
    return name


def _type_name(fields: Fields) -> str:
    name = fields.get("type")
    if name is None:
        raise GrainError("type is required", oms_code="ERR_NO_TYPE")
    if not isinstance(name, str):
        raise GrainError("type must be text", oms_code="ERR_SCHEMA")
    if not name:
        raise GrainError("type must not be empty", oms_code="ERR_EMPTY")
    return name


def _check_writable(fields: Fields, type_byte: int, profile: SizeProfile) -> None:
    if found := _all_problems(fields, type_byte):
        raise _error(found)
    profile.check_fields(fields)


def _all_problems(fields: Fields, type_byte: int) -> list[Problem]:
    found = schema.problems(fields, type_byte)
    if not _INDEX_ONLY.isdisjoint(fields):
        found.extend(
            Problem("ERR_SCHEMA", f"{name} is kept by the store and cannot be written into a grain")
            for name in sorted(_INDEX_ONLY.intersection(fields))
        )
    if not found and "structural_tags" in fields:
        found.extend(Problem("ERR_SCHEMA", message) for message in domain_problems(fields))
    return found


def _error(found: list[Problem]) -> GrainError:
    return GrainError("; ".join(problem.message for problem in found), oms_code=found[0].oms_code)


def _flags(fields: Fields, *, cbor: bool, signed: bool, sensitivity: int | None) -> int:
    if sensitivity is not None and not 0 <= sensitivity < len(header.SENSITIVITIES):
        raise GrainError("sensitivity is 0 public, 1 internal, 2 pii or 3 phi", oms_code="ERR_RANGE")
    flags = max(sensitivity or 0, required_sensitivity(fields)) << header.SENSITIVITY_SHIFT
    if signed:
        flags |= header.SIGNED
    if cbor:
        flags |= header.CBOR
    return flags | _reference_flags(fields)


def _reference_flags(fields: Fields) -> int:
    return (header.CONTENT_REFS if "content_refs" in fields else 0) | (
        header.EMBEDDING_REFS if "embedding_refs" in fields else 0
    )


def _namespace_hash(fields: Fields) -> int:
    if "namespace" in fields:
        return namespace_hash(fields["namespace"])
    # A view does not say which namespace it hides; any other grain without one is in the default namespace.
    return namespace_hash("" if "_elided" in fields else DEFAULT_NAMESPACE)


# How others may have read the silence of the specification on a grain without namespace.
_NO_NAMESPACE: Final = frozenset((0, namespace_hash(""), namespace_hash(DEFAULT_NAMESPACE)))


def _check_header(head: Header, fields: Fields) -> None:
    if head.sensitivity < required_sensitivity(fields):
        # Section 13: parsers MUST reject.
        raise GrainError("the header claims less sensitivity than the tags demand", oms_code="ERR_SENSITIVITY_MISMATCH")
    if head.created_at_sec != fields["created_at"] // 1000:
        raise GrainError("the header has another creation time than the payload", oms_code="ERR_CORRUPT")
    if head.flags & _REFERENCES != _reference_flags(fields):
        raise GrainError("the header's reference flags contradict the payload", oms_code="ERR_CORRUPT")
    if "namespace" in fields:
        known = head.ns_hash == namespace_hash(fields["namespace"])
    else:
        # A view may have kept the hash of the namespace it does not show.
        known = head.ns_hash in _NO_NAMESPACE or "_elided" in fields
    if not known:
        raise GrainError("the header has the hash of another namespace than the payload's", oms_code="ERR_CORRUPT")

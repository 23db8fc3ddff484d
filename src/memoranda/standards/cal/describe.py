"""DESCRIBE, and the declaration of what this implementation supports (sections 8.6, 24).

Every list comes from the tables that the parser uses, so a client that follows DESCRIBE never writes a query that is
refused for its names. `capabilities` is the declaration by which others decide what they may send: claim only what the
tests of the specification pass, and take limits from the constants that enforce them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict

from memoranda.standards.cal import fields, grammar, limits
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.canonical import sections_text
from memoranda.standards.cal.language.syntax import DefineTemplate, Describe, Sections
from memoranda.standards.oms.registry import BY_NAME

CAL_VERSION: Final = "1.0"
# The parent of a template without EXTENDS (section 10.6).
DEFAULT_PARENT: Final = "readable"

# Our kinds of fields → the specification's names, which distinguish less.
_KINDS: Final[Mapping[FieldKind, str]] = {
    FieldKind.STRING: "String",
    FieldKind.ADDRESS: "String",
    FieldKind.WORD: "String",
    FieldKind.FRACTION: "Number",
    FieldKind.NUMBER: "Number",
    FieldKind.BOOLEAN: "Boolean",
    FieldKind.ARRAY: "Array",
    FieldKind.TYPE: "Type name",
    FieldKind.SINCE: "Temporal",
    FieldKind.INSTANT: "Temporal",
    FieldKind.HASH: "Hash",
    FieldKind.ANY: "Any",
}


def describe(
    statement: Describe,
    *,
    capabilities: Mapping[str, object],
    server: Mapping[str, object],
    templates: Sequence[DefineTemplate],
) -> object:
    """Return the answer to DESCRIBE as JSON: a list of entries, or one object."""
    answers: Mapping[str, Callable[[], object]] = {
        "grain_types": grain_types,
        "fields": lambda: field_rows(statement.grain_type),
        "capabilities": lambda: dict(capabilities),
        "server": lambda: dict(server),
        "templates": lambda: [_template_row(template) for template in templates],
        "grammar": lambda: {"ebnf": grammar.ebnf()},
    }
    return answers[statement.target]()


def grain_types() -> list[dict[str, object]]:
    """Return the ten grain types, and whether the language may add or supersede each."""
    return [
        {
            "type": singular,
            "plural": plural,
            "code": f"0x{BY_NAME[singular].byte:02X}",
            "addable": singular in fields.ADDABLE,
            # Section 8.9: only beliefs evolve.
            "supersedable": singular == "belief",
        }
        for plural, singular in fields.PLURALS.items()
    ]


def field_rows(grain_type: str | None = None) -> list[dict[str, object]]:
    """Return the fields that every type has, then those of one type, or of all types."""
    rows = [_field_row(field, None) for field in fields.COMMON_FIELDS.values()]
    for name in fields.SINGULARS if grain_type is None else (grain_type,):
        rows += (
            _field_row(field, name)
            for field in fields.fields_of(name).values()
            if field.name not in fields.COMMON_FIELDS
        )
    return rows


def _field_row(field: Field, grain_type: str | None) -> dict[str, object]:
    """Return one field as a row of DESCRIBE fields."""
    row = {
        "field": field.name,
        "type": _KINDS[field.kind],
        "operators": [operator for operator in grammar.OPERATORS if operator in field.operators],
        "sortable": field.sortable,
        "projectable": field.projectable,
        "groupable": field.groupable,
        "grain_type": grain_type,
    }
    return row | {"values": list(field.words)} if field.words else row


def _template_row(template: DefineTemplate) -> dict[str, object]:
    """Return one template as a row of DESCRIBE templates."""
    names = [
        name for name in Sections.__struct_fields__ if getattr(template.sections, name) is not None
    ]
    return {
        "name": template.name,
        "extends": template.extends or DEFAULT_PARENT,
        "sections": names,
        "bytes": len(sections_text(template.sections).encode()),
    }


# --- declaration -----------------------------------------------------------------------------------------

# The features that section 24 requires for the level "extended", except search across languages.
EXTENDED_FEATURES: Final = tuple(
    """stages set_operations subqueries explain history_as_of history_diff describe batch coalesce let shortcuts
    assemble diversity score_breakdown explanation provenance progressive_disclosure formats json_form suggestions
    type_fields category_shortcuts domain_fields thread""".split()
)
# Features of the level "full" that are always on.
FULL_FEATURES: Final = ("content_projection", "describe_grammar")
# Limits of our own parser, which are no limits of the language.
_INTERNAL_LIMITS: Final = frozenset(("INTEGER_MAX", "CANONICAL_GROWTH"))


class Capabilities(TypedDict):
    """The conformance declaration of section 24."""

    cal_conformance: str
    cal_version: str
    features: list[str]
    cross_lingual_search: bool
    embedding_model: str | None
    supported_languages: list[str]
    search: str
    token_counter: str
    tier1_enabled: bool
    streaming: bool
    templates: bool
    auto_toon_enabled: bool
    formats: list[str]
    limits: dict[str, object]


def capabilities(
    *,
    tier1_enabled: bool,
    streaming: bool,
    templates: bool,
    auto_toon: bool,
    token_counter: str,
    embedding_model: str | None,
    languages: Sequence[str],
) -> Capabilities:
    """Return the conformance declaration (section 24): the highest level we meet, and the features beyond it.

    The level "extended" requires search across languages, and so multilingual embeddings; without them it is "core".
    """
    optional_features = {
        "evolve": tier1_enabled,
        "two_phase": tier1_enabled,
        "streaming": streaming,
        "templates": templates,
    }
    return {
        "cal_conformance": "core",
        "cal_version": CAL_VERSION,
        "features": [
            *EXTENDED_FEATURES,
            *FULL_FEATURES,
            *(name for name, is_on in optional_features.items() if is_on),
        ],
        "cross_lingual_search": False,
        "embedding_model": embedding_model,
        "supported_languages": list(languages),
        "search": "lexical" if embedding_model is None else "hybrid",
        "token_counter": token_counter,
        "tier1_enabled": tier1_enabled,
        "streaming": streaming,
        "templates": templates,
        "auto_toon_enabled": auto_toon,
        "formats": [*words.FORMATS, *words.PRESETS],
        "limits": {
            name.lower(): value
            for name, value in vars(limits).items()
            if name.isupper() and name not in _INTERNAL_LIMITS
        },
    }

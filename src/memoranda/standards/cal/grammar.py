"""The grammar as text, for DESCRIBE grammar, and a summary for language models (sections 8.6, 27).

The rules are data. The parser has a method for each rule, whose docstring quotes it; a test compares both. Keywords in
tables are taken from these tables. The notation is that of the XML specification: `?` optional, `*` any number, `+` at
least one, `|` or.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from textwrap import fill
from types import MappingProxyType
from typing import Final

from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.language import words

# In the order in which they are listed for people.
OPERATORS: Final = tuple("= != >= <= > < IN BETWEEN INCLUDE EXCLUDE IS".split())


def _alternatives(terminals: Iterable[str]) -> str:
    """Return the terminals in quotes, separated by `|`."""
    return " | ".join(f'"{terminal}"' for terminal in terminals)


# Token → a description of its text.
TOKENS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "STR": r"text in double quotes; \" is a quote in it, \\ a backslash",
        "NUM": "digits, with a fraction or a minus sign if need be: 5, -2, 0.75",
        "INT": "digits; 0 only after OFFSET",
        "HASH": "sha256: and 8 to 64 hexadecimal digits; fewer than 64 are a prefix",
        "PARAM": "$ and a name; its value is passed with the query",
        "WORD": "a letter, then letters, digits and _, all ASCII",
        "ID": f"a WORD that is not reserved, at most {limits.NAME_CHARS} characters",
        "X_ID": f"a WORD that begins with {words.EXTENSION_PREFIX}",
        "DOMAIN_FIELD": f"WORD:WORD without spaces, the first usually one of {', '.join(fields.PROFILES)}",
        "TEXT": "everything up to the brace that matches; {{ and }} are tags, not braces",
        "EOF": "the end of the query",
    }
)

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "query": "version? let_binding* statement EOF",
        "version": '"CAL" "/" "1"',
        "let_binding": '"LET" PARAM "=" recall ";"',
        "statement": "explain | explainable",
        "explain": '"EXPLAIN" explainable',
        "explainable": "recall | assemble | set | exists | history | describe | batch | coalesce"
        " | define_template | add | supersede | revert",
        # Reading: RECALL.
        "recall": '"RECALL" "MY"? type_plural? recall_clause*',
        "recall_clause": 'in_clause | "ABOUT" text | "LIKE" text | "SINCE" text | "BETWEEN" value "AND" value'
        ' | "THREAD" (text | "FROM" hashp) | where | with | stage | "RECENT" count | "CONTRADICTIONS"'
        ' | ("AS" | "FORMAT") format_name',
        "in_clause": '"IN" "SCOPE"? STR',
        "where": '"WHERE" condition ("AND" condition)*',
        "condition": 'field cmp value | field "IN" "(" (value ("," value)* | recall) ")"'
        ' | field "BETWEEN" value "AND" value | field ("INCLUDE" | "EXCLUDE") (array | PARAM)'
        ' | "relation" "IS" category',
        "with": '"WITH" option ("," option)*',
        "option": '"superseded" | "score_breakdown" | "explanation" | "provenance" | "contradiction_detection"'
        ' | "summarize" | "iso_timestamps"'
        ' | "progressive_disclosure" ("(" ("summary" | "standard" | "headlines" | "full") ")")?'
        ' | "diversity" "(" ("mmr" ("," "lambda" "=" NUM)? | "threshold" "," NUM) ")"'
        ' | "consistency" "(" ("eventual" | "bounded" "(" NUM ")" | "linearizable") ")"'
        ' | "dedup" "(" sfield ")" | "locale" "(" STR ")" | "cache" "(" "ttl" "=" INT ")"'
        ' | X_ID ("(" value ("," value)* ")")?',
        "stage": '"|"? ("SELECT" sfield ("," sfield)* | "ORDER" "BY" sfield ("ASC" | "DESC")?'
        ' | "LIMIT" count | "OFFSET" count | "COUNT" | "FIRST" | "SUBJECTS" | "OBJECTS" | "HASHES"'
        ' | "GROUP" "BY" sfield | "PROJECT" pspec ("," pspec)*)',
        "pspec": '("content" | "attr") "(" pfield ("," pfield)* ")"',
        # Reading: the other statements.
        "assemble": '"ASSEMBLE" ID? ("FOR" STR)? "FROM" source ("," source)* assemble_clause*',
        "assemble_clause": f'"BUDGET" INT ({_alternatives(words.BUDGET_UNITS)}) | "PRIORITY" label (">" label)*'
        ' | "FORMAT" format_spec | stream | with',
        "source": '(label ":")? ("(" recall ")" | PARAM | "(" PARAM ")")',
        "format_spec": 'format_name | "TEMPLATE" ID | "TEMPLATE" "{" section+ "}"',
        "stream": '"STREAM" ("{" sopt ("," sopt)* "}")?',
        "sopt": f'{_alternatives(words.STREAM_OPTIONS)} | "chunk_size" "=" INT',
        "set": "operand (set_op operand)+",
        "operand": '"(" version? (recall | coalesce | set) ")"',
        "set_op": _alternatives(words.SET_OPERATORS),
        "exists": '"EXISTS" hashp',
        "history": '"HISTORY" hashp ("DIFF" hashp)?'
        ' | "HISTORY" in_clause? "WHERE" "subject" "=" text "AND" "relation" "=" text ("AS" "OF" text)?',
        "describe": '"DESCRIBE" ("fields" type_singular? | '
        + _alternatives(target for target in words.DESCRIBE_TARGETS if target != "fields")
        + ")",
        "batch": '"BATCH" "{" entry ("," entry)* "}"',
        "entry": 'label ":" (recall | exists | history | describe | coalesce)',
        "coalesce": '"COALESCE" "(" recall ("," recall)+ ")"',
        # Evolving: these append, and nothing removes.
        "add": '"ADD" type_singular ("SET" add_field "=" value)* "REASON" STR',
        "supersede": '"SUPERSEDE" hashp ("SET" evolve_field "=" value)+ "REASON" STR',
        "revert": '"REVERT" hashp "REASON" STR',
        # Templates.
        "define_template": '"DEFINE" "TEMPLATE" ID ("EXTENDS" ('
        + _alternatives(preset for preset in words.PRESETS if preset != "data")
        + "))? section+",
        "section": f'({_alternatives(words.SECTIONS)}) "{{" TEXT "}}"',
        # Values and names.
        "text": "STR | PARAM",
        "count": "INT | PARAM",
        "hashp": "HASH | PARAM",
        "label": "WORD",
        "value": 'STR | NUM | "true" | "false" | PARAM | HASH | array',
        "array": '"[" (value ("," value)*)? "]"',
        "cmp": _alternatives(operator for operator in OPERATORS if operator in words.COMPARATORS),
        "category": _alternatives(words.CATEGORIES),
        "format_name": _alternatives((*words.FORMATS, *words.PRESETS)),
        "type_plural": _alternatives(fields.PLURALS),
        "type_singular": _alternatives(fields.SINGULARS),
        "field": "sfield | DOMAIN_FIELD",
        "sfield": "common_field | type_field",
        "pfield": "sfield | DOMAIN_FIELD | X_ID | "
        + _alternatives(sorted(fields.PROJECTED_ALWAYS | fields.PROJECTED_ANYWHERE)),
        "common_field": _alternatives(fields.COMMON_FIELDS),
        "type_field": _alternatives(fields.TYPES_WITH),
        "add_field": _alternatives(fields.SETTABLE),
        "evolve_field": _alternatives(name for name in fields.SETTABLE if name in fields.EVOLVABLE),
    }
)

_INTRODUCTION: Final = """\
/* CAL 1.0 as it is read here. "x" stands for itself; RULE? is optional, RULE* any number, RULE+ at least one.
   Words in quotes are written in either case; capitals without quotes are tokens, described at the end.
   White space is free; -- begins a comment that ends with the line. Each clause of RECALL and ASSEMBLE stands once.
   Which operators a field takes, and which types have it: DESCRIBE fields. */"""
_WIDTH: Final = 120


@cache
def ebnf() -> str:
    """Return the grammar, one rule after another."""
    rules = [fill(f"{name} ::= {definition}", _WIDTH, subsequent_indent="    ", break_long_words=False,
                  break_on_hyphens=False) for name, definition in RULES.items()]  # fmt: skip
    tokens = [f"{name} ::= /* {description} */" for name, description in TOKENS.items()]
    return "\n".join((_INTRODUCTION, *rules, *tokens, ""))


# --- the card --------------------------------------------------------------------------------------------

_READ_EXAMPLES: Final = (
    'RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 | LIMIT 10 AS markdown',
    'RECALL MY goals WHERE goal_state = "active" AND tags INCLUDE ["work"]',
    'RECALL events LIKE "deployment failed" SINCE "last 7 days"',
    'RECALL events WHERE subject IN (RECALL beliefs WHERE relation IS AGENCY | SUBJECTS) RECENT 5',
    'RECALL actions WHERE tool_name = "search" | GROUP BY action_phase',
    'RECALL events THREAD "session-1"',
    'RECALL beliefs WHERE user_id = $user | COUNT',
    ('ASSEMBLE briefing FOR "helping alice" FROM known: (RECALL beliefs ABOUT "alice"), plans: (RECALL goals) '
    "BUDGET 2000 tokens PRIORITY known > plans FORMAT sml WITH dedup(subject), progressive_disclosure"),
    "(RECALL beliefs) EXCEPT (RECALL beliefs CONTRADICTIONS)",
    'COALESCE(RECALL beliefs ABOUT "alice", RECALL beliefs LIKE "alice")',
    'BATCH { facts: RECALL beliefs RECENT 5, known: EXISTS $hash }',
    "LET $people = RECALL beliefs | SUBJECTS; RECALL events WHERE subject IN ($people)",
    'HISTORY WHERE subject = "alice" AND relation = "prefers" AS OF "2026-03-01"',
    "HISTORY $old DIFF $new",
    "EXPLAIN RECALL beliefs RECENT 3",
    "DESCRIBE fields goal",
)  # fmt: skip
_WRITE_EXAMPLES: Final = (
    'ADD belief SET subject = "alice" SET relation = "prefers" SET object = "tea" REASON "she said so"',
    'SUPERSEDE $hash SET object = "coffee" SET confidence = 0.9 REASON "she changed her mind"',
    'REVERT $hash REASON "it was a misunderstanding"',
)


@cache
def prompt_card() -> str:
    """Return a summary of the language from which a model can write queries, about 1,200 tokens.

    It is built from the tables of the parser, so that it cannot drift from them.
    """
    parts = (
        "# CAL/1: ask a memory what belongs into the context now",
        "Read:",
        *(f"  {example}" for example in _READ_EXAMPLES),
        "Evolve (appends; needs permission):",
        *(f"  {example}" for example in _WRITE_EXAMPLES),
        f"Types: {', '.join(fields.PLURALS)} (RECALL without one: any type).",
        "Fields of every type: " + _fields_line(fields.COMMON_FIELDS) + ".",
        "More, if the type is named: "
        + "; ".join(f"{plural} {_fields_line(_type_fields(singular))}" for plural, singular in fields.PLURALS.items()
                    if _type_fields(singular))
        + ".",
        "Closed values: " + "; ".join(f"{name} {' '.join(values)}" for name, values in _closed_values().items()) + ".",
        f"relation IS {' | '.join(words.CATEGORIES)}.",
        "Conditions are joined by AND only: no OR, no NOT, no NULL; a missing field never matches.",
        'Values: "text", 0.8, true, ["a", "b"], sha256:…, $param (pass its value with the query).',
        'Times: "last 7 days", "3 hours ago", "yesterday", "this week", "2026-03-01", RFC 3339.',
        ("Shortcuts: ABOUT = subject or search, LIKE = search, SINCE and BETWEEN = time, MY = this user,"
        " RECENT n = newest n, THREAD = a session, CONTRADICTIONS. Not ABOUT with LIKE, RECENT with LIMIT or ORDER BY,"
        " SINCE with BETWEEN."),
        "Stages and options, as the grammar has them (sfield and pfield are fields, count is a number):",
        *(f"  {name} ::= {RULES[name]}" for name in ("stage", "pspec", "option")),
        (f"Formats (AS, FORMAT): {', '.join((*words.FORMATS, *words.PRESETS))}, TEMPLATE name. Add STREAM to ASSEMBLE"
        " to stream it."),
        (f"ADD takes {', '.join(fields.ADDABLE)}; needs {', '.join(fields.ADD_REQUIRED)}. SUPERSEDE sets"
        f" {', '.join(name for name in fields.SETTABLE if name in fields.EVOLVABLE)}, of beliefs."),
        (f"Rules: LIMIT is always in force (default {limits.LIMIT_DEFAULT}, at most {limits.LIMIT_MAX}). At most"
        f" {limits.STAGES} stages, {limits.SOURCES} sources, {limits.BATCH_ENTRIES} entries of BATCH,"
        f" {limits.BUDGET['tokens']} tokens. Nothing can be deleted. REASON is mandatory."
        " Look at HISTORY before SUPERSEDE."),
        "",
    )  # fmt: skip
    return "\n".join(parts)


def _type_fields(grain_type: str) -> dict[str, fields.Field]:
    """Return the fields that this type has and not every type."""
    return {
        name: field
        for name, field in fields.fields_of(grain_type).items()
        if name not in fields.COMMON_FIELDS
    }


def _closed_values() -> dict[str, tuple[str, ...]]:
    """Return the fields with a closed list of values."""
    tables = (fields.COMMON_FIELDS, *map(_type_fields, fields.SINGULARS))
    return {field.name: field.words for table in tables for field in table.values() if field.words}


def _fields_line(table: Mapping[str, fields.Field]) -> str:
    """Return fields with their operators; neighbours with the same operators are grouped."""
    groups: list[tuple[list[str], str]] = []
    for name, field in table.items():
        operators = " ".join(operator for operator in OPERATORS if operator in field.operators)
        if groups and groups[-1][1] == operators:
            groups[-1][0].append(name)
        else:
            groups.append(([name], operators))
    return ", ".join(f"{' '.join(names)} ({operators})" for names, operators in groups)

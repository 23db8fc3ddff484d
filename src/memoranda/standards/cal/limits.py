"""The limits of a query (section 17.3). No syntax can raise one. `describe.capabilities` publishes them by name."""

from __future__ import annotations

from typing import Final

# UTF-8 bytes of the text of a query.
QUERY_BYTES: Final = 8192
# Results of a query without LIMIT.
LIMIT_DEFAULT: Final = 20
# Results of a query with LIMIT or RECENT.
LIMIT_MAX: Final = 1000
# Levels of subqueries in IN.
SUBQUERY_DEPTH: Final = 3
# Stages of one pipeline; RECENT counts as two, THREAD as one.
STAGES: Final = 5
# Conditions of one RECALL.
CONDITIONS: Final = 200
# Values of one IN.
IN_VALUES: Final = 100
# Operands of one chain of set operations.
SET_OPERANDS: Final = 5
# Parameters of one query.
PARAMETERS: Final = 20
# Characters of a REASON.
REASON_CHARS: Final = 500
# Entries of one BATCH.
BATCH_ENTRIES: Final = 10
# Branches of one COALESCE.
COALESCE_BRANCHES: Final = 5
# LET bindings of one query.
LETS: Final = 5
# Levels of LETs that use one another.
LET_DEPTH: Final = 3
# Sources of one ASSEMBLE.
SOURCES: Final = 8
# The greatest BUDGET, by its unit: tokens, or grains.
BUDGET: Final = {"tokens": 16_000, "grains": 200}
# Characters of the name of a context or a template.
NAME_CHARS: Final = 64
# Characters of the text after FOR.
INTENT_CHARS: Final = 256
# UTF-8 bytes of a template, all its sections together.
TEMPLATE_BYTES: Final = 4096
# Levels of nested sections in a template.
TEMPLATE_DEPTH: Final = 5
# Tokens of one chunk of a stream.
CHUNK_MIN: Final = 20
# Tokens of one chunk of a stream.
CHUNK_MAX: Final = 1000

# Ours: levels of nested arrays. The specification sets no limit; this one prevents a stack overflow.
ARRAY_DEPTH: Final = 8
# Ours: the greatest whole number as a value; greater ones become doubles, as in JSON.
INTEGER_MAX: Final = 2**63 - 1
# Ours: ratio. Canonical text is at most this many times as long as the query (by added spaces and normalisation).
CANONICAL_GROWTH: Final = 4

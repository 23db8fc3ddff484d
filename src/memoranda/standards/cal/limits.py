"""Every limit of a query (section 17.3). No syntax can raise one."""

from __future__ import annotations

from typing import Final

QUERY_BYTES: Final = 8192
LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 1000
SUBQUERY_DEPTH: Final = 3
STAGES: Final = 5
CONDITIONS: Final = 200
IN_VALUES: Final = 100
SET_OPERANDS: Final = 5
PARAMETERS: Final = 20
REASON_CHARS: Final = 500
BATCH_ENTRIES: Final = 10
COALESCE_BRANCHES: Final = 5
LETS: Final = 5
LET_DEPTH: Final = 3
SOURCES: Final = 8
BUDGET: Final = {"tokens": 16_000, "grains": 200}
NAME_CHARS: Final = 64
INTENT_CHARS: Final = 256
TEMPLATE_BYTES: Final = 4096
TEMPLATE_DEPTH: Final = 5
CHUNK_MIN: Final = 20
CHUNK_MAX: Final = 1000

# Ours: arrays in arrays are legal without end; this keeps every reader's stack small.
ARRAY_DEPTH: Final = 8
# Ours: whole numbers beyond it are doubles, as in JSON.
INTEGER_MAX: Final = 2**63 - 1
# Ours: canonical text is longer than what was written (spaces, normalisation), at most this many times.
CANONICAL_GROWTH: Final = 4

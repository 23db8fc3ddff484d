"""Every error Memoranda raises, as one tree.

    MemorandaError                  code, message, and data on attributes
    ├── InvalidInput                invalid_record      the caller sent something that is not well-formed
    │   ├── MalformedJson           invalid_record      not JSON, or JSON outside our limits
    │   ├── GrainError              invalid_record      not a memory grain, with the OMS code that says why
    │   ├── QueryError              invalid_record      a CAL query refused, with its CAL code, place and suggestion
    │   └── TooLarge                invalid_record      over a stated limit
    ├── Unauthorized                unauthorized        no credential, or one that does not hold
    ├── ForbiddenScope              forbidden_scope     a good credential that does not reach this far
    ├── NotFound                    not_found           nothing there, or nothing you may see
    ├── ConsentViolation            consent_violation   the memory's own consent forbids it
    ├── SignatureInvalid            signature_invalid   an integrity block that does not verify
    ├── Unsupported                 unsupported         a feature this store does not offer
    ├── RateLimited                 rate_limited        too much, too fast
    ├── Conflict                    invalid_record      an identity that is already something else
    ├── StoreUnavailable            unavailable         the database cannot be opened, is locked, or is full
    └── StoreCorrupt                corrupt             the database contradicts itself

`code` is stable and is what the bindings put on the wire; the eight codes of UMP section 3.7 are among them.
A message says what was wrong and where, in one sentence, and never quotes stored content.
"""

from __future__ import annotations


class MemorandaError(Exception):
    """Something Memoranda refuses or cannot do."""

    code = "internal"

    def __init__(self, message: str | None = None) -> None:
        self.message = message or (self.__doc__ or self.code).strip().splitlines()[0]
        super().__init__(self.message)


class InvalidInput(MemorandaError):
    """The input is not well-formed."""

    code = "invalid_record"


class MalformedJson(InvalidInput):
    """The input is not acceptable JSON."""


class GrainError(InvalidInput):
    """Not a memory grain."""

    def __init__(self, message: str | None = None, *, oms_code: str) -> None:
        super().__init__(message)
        # One of the seventeen codes of OMS section 19, such as "ERR_CORRUPT".
        self.oms_code = oms_code


class QueryError(InvalidInput):
    """Not a query that can be run."""

    def __init__(
        self,
        message: str | None = None,
        *,
        cal_code: str,
        line: int = 1,
        column: int = 1,
        suggestion: str | None = None,
        start: int = 0,
        end: int = 0,
        reason: str | None = None,
        oms_error: str | None = None,
    ) -> None:
        super().__init__(message)
        # One of the codes of CAL section 22, such as "CAL-E002".
        self.cal_code = cal_code
        # Where, counted in characters: line and column from 1, start and end (exclusive) from 0.
        self.line = line
        self.column = column
        self.start = start
        self.end = end
        self.suggestion = suggestion
        # What kind of mistake, where one code stands for several.
        self.reason = reason
        # The code of OMS that stands behind it, such as "ERR_INVALIDATION_DENIED".
        self.oms_error = oms_error


class TooLarge(InvalidInput):
    """The input is over a stated limit."""


class Unauthorized(MemorandaError):
    """A valid credential is required."""

    code = "unauthorized"


class ForbiddenScope(MemorandaError):
    """The credential does not reach this scope."""

    code = "forbidden_scope"


class NotFound(MemorandaError):
    """No such memory."""

    code = "not_found"


class ConsentViolation(MemorandaError):
    """The memory's consent forbids this."""

    code = "consent_violation"


class SignatureInvalid(MemorandaError):
    """The integrity block does not verify."""

    code = "signature_invalid"


class Unsupported(MemorandaError):
    """This store does not offer that."""

    code = "unsupported"


class RateLimited(MemorandaError):
    """Too many requests; try again shortly."""

    code = "rate_limited"

    def __init__(self, message: str | None = None, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Conflict(MemorandaError):
    """That identity already names something else."""

    code = "invalid_record"


class StoreUnavailable(MemorandaError):
    """The store cannot be used right now."""

    code = "unavailable"


class StoreCorrupt(MemorandaError):
    """The store contradicts itself."""

    code = "corrupt"

"""Every error Memoranda raises, as one tree.

    MemorandaError                  code, message, and data on attributes
    ├── InvalidInput                invalid_record      the caller sent something that is not well-formed
    │   ├── MalformedJson           invalid_record      not JSON, or JSON outside our limits
    │   ├── GrainError              invalid_record      not a memory grain, with the OMS code that says why
    │   ├── QueryError              invalid_record      a CAL query refused, with its CAL code, place and suggestion
    │   ├── WorkflowError           invalid_record      refused to a workflow host, with openwop's code and details
    │   └── TooLarge                invalid_record      over a stated limit
    ├── Unauthorized                unauthorized        no credential, or one that does not hold
    ├── ForbiddenScope              forbidden_scope     a good credential that does not reach this far
    │   └── CrossNamespace          forbidden_scope     a namespace of someone who did not consent (OAMS -32005)
    ├── NotFound                    not_found           nothing there, or nothing you may see
    │   ├── NamespaceNotFound       not_found           a namespace in which nothing was ever stored (OAMS -32001)
    │   └── MemoryNotFound          not_found           no memory under this key (OAMS -32002)
    ├── ConsentViolation            consent_violation   the memory's own consent forbids it
    ├── SignatureInvalid            signature_invalid   an integrity block that does not verify
    ├── Unsupported                 unsupported         a feature this store does not offer
    ├── RateLimited                 rate_limited        too much, too fast
    │   └── QuotaExceeded           rate_limited        more than a tenant may keep or do (OAMS -32004)
    ├── Conflict                    invalid_record      an identity that is already something else
    │   └── VersionMismatch         invalid_record      not the version that the caller expected
    ├── StoreUnavailable            unavailable         the database cannot be opened, is locked, or is full
    └── StoreCorrupt                corrupt             the database contradicts itself

`code` is stable and is what the bindings put on the wire; the eight codes of UMP section 3.7 are among them.
A message says what was wrong and where, in one sentence, and never quotes stored content. A client is told the message
alone. The log and the command line show the error as text, which also names the file of this machine that it is about.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final


class MemorandaError(Exception):
    """Something Memoranda refuses or cannot do."""

    code = "internal"

    def __init__(self, message: str | None = None, *, path: object = None) -> None:
        """Set the message, by default the class's own, and the path of the file that the error is about."""
        self.message = message or (self.__doc__ or self.code).strip().splitlines()[0]
        self.path = None if path is None else str(path)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.path is None else f"{self.path}: {self.message}"


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
        retry_after_seconds: float = 1.0,
    ) -> None:
        super().__init__(message)
        # Seconds to wait, for an error about too many queries.
        self.retry_after_seconds = retry_after_seconds
        # One of the codes of CAL section 22, such as "CAL-E002".
        self.cal_code = cal_code
        # The position in characters: line and column from 1, start and end (exclusive) from 0.
        self.line = line
        self.column = column
        self.start = start
        self.end = end
        self.suggestion = suggestion
        # The kind of mistake, if one code stands for several.
        self.reason = reason
        # The OMS code of the cause, such as "ERR_INVALIDATION_DENIED".
        self.oms_error = oms_error


class WorkflowError(InvalidInput):
    """Not what a workflow host may ask."""

    def __init__(
        self,
        message: str | None = None,
        *,
        openwop_code: str,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        # One of openwop's codes, such as "token_budget_exceeded".
        self.openwop_code = openwop_code
        # Details for programs; never the content of entries.
        self.details = dict(details or {})


class TooLarge(InvalidInput):
    """The input is over a stated limit."""


class Unauthorized(MemorandaError):
    """A valid credential is required."""

    code = "unauthorized"


class ForbiddenScope(MemorandaError):
    """The credential does not reach this scope."""

    code = "forbidden_scope"

    def __init__(self, message: str | None = None, *, scope: str | None = None) -> None:
        super().__init__(message)
        # The scope that the credential would need, where it is one of ours.
        self.scope = scope


class CrossNamespace(ForbiddenScope):
    """The namespace belongs to someone who did not consent."""


class NotFound(MemorandaError):
    """No such memory."""

    code = "not_found"


class NamespaceNotFound(NotFound):
    """Nothing was ever stored in this namespace."""


class MemoryNotFound(NotFound):
    """There is no memory under this key."""


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


class QuotaExceeded(RateLimited):
    """More than this tenant may keep or do."""


class Conflict(MemorandaError):
    """The identity already names something else."""

    code = "invalid_record"


class VersionMismatch(Conflict):
    """Not the version that was expected."""


class StoreUnavailable(MemorandaError):
    """The store cannot be used right now."""

    code = "unavailable"


class StoreCorrupt(MemorandaError):
    """The store contradicts itself."""

    code = "corrupt"


# By the code on the wire; of several errors with one code, the one that the others are kinds of.
BY_CODE: Final[Mapping[str, type[MemorandaError]]] = {
    kind.code: kind
    for kind in (
        InvalidInput,
        Unauthorized,
        ForbiddenScope,
        NotFound,
        ConsentViolation,
        SignatureInvalid,
        Unsupported,
        RateLimited,
        StoreUnavailable,
        StoreCorrupt,
    )
}

_DISK_WORDS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EFBIG: "the file would be larger than is allowed here",
    errno.EIO: "the disk could not be read or written",
    errno.EACCES: "not allowed for this user",
    errno.EPERM: "not allowed for this user",
    errno.ENOENT: "there is no such file or folder",
}


def words_of(error: OSError) -> str:
    """Return a system error in words for people, such as "the disk is full"."""
    return _DISK_WORDS.get(error.errno or 0) or (error.strerror or str(error)).lower()

"""The errors of Memoranda, as one class tree.

    MemorandaError                  code, message, and data as attributes
    ├── InvalidInput                invalid_record      the request or document is malformed
    │   ├── MalformedJson           invalid_record      not JSON, or JSON over a limit
    │   ├── GrainError              invalid_record      not a valid grain; `oms_code` has the code of OMS
    │   ├── QueryError              invalid_record      a refused CAL query, with code, position and suggestion
    │   ├── WorkflowError           invalid_record      a refused request of a workflow host, with openwop's code
    │   └── TooLarge                invalid_record      over a limit
    ├── Unauthorized                unauthorized        no credential, or an invalid one
    ├── ForbiddenScope              forbidden_scope     the credential does not allow this
    │   └── CrossNamespace          forbidden_scope     the owner of the namespace did not consent (OAMS -32005)
    ├── NotFound                    not_found           no such memory, or none that the caller may see
    │   ├── NamespaceNotFound       not_found           the namespace never had memories (OAMS -32001)
    │   └── MemoryNotFound          not_found           no memory under this key (OAMS -32002)
    ├── ConsentViolation            consent_violation   the memory's consent forbids this
    ├── SignatureInvalid            signature_invalid   the signature does not verify
    ├── Unsupported                 unsupported         this store does not support the feature
    ├── RateLimited                 rate_limited        too many requests
    │   └── QuotaExceeded           rate_limited        a quota of the owner is exceeded (OAMS -32004)
    ├── Conflict                    invalid_record      the name belongs to other data
    │   └── VersionMismatch         invalid_record      not the version that the caller expected
    ├── StoreUnavailable            unavailable         the database cannot be opened, is locked, or is full
    └── StoreCorrupt                corrupt             the database is inconsistent

`code` is stable, and part of every answer; the eight codes of UMP section 3.7 are among them. A message is one sentence
that never quotes stored content. Clients only get the message. The log and the command line also show the path of the
file that the error is about.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final


class MemorandaError(Exception):
    """An operation that Memoranda refuses or cannot do."""

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
    """The grain is invalid."""

    def __init__(self, message: str | None = None, *, oms_code: str) -> None:
        super().__init__(message)
        # One of the seventeen codes of OMS section 19, such as "ERR_CORRUPT".
        self.oms_code = oms_code


class QueryError(InvalidInput):
    """The query is invalid."""

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
    """The request of the workflow host is refused."""

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
    """The input is over a limit."""


class Unauthorized(MemorandaError):
    """A valid credential is required."""

    code = "unauthorized"


class ForbiddenScope(MemorandaError):
    """The credential does not allow this."""

    code = "forbidden_scope"

    def __init__(self, message: str | None = None, *, scope: str | None = None) -> None:
        super().__init__(message)
        # The missing scope of the credential, if Memoranda defines it.
        self.scope = scope


class CrossNamespace(ForbiddenScope):
    """The owner of the namespace did not consent."""


class NotFound(MemorandaError):
    """No such memory."""

    code = "not_found"


class NamespaceNotFound(NotFound):
    """The namespace never had memories."""


class MemoryNotFound(NotFound):
    """There is no memory under this key."""


class ConsentViolation(MemorandaError):
    """The memory's consent forbids this."""

    code = "consent_violation"


class SignatureInvalid(MemorandaError):
    """The signature does not verify."""

    code = "signature_invalid"


class Unsupported(MemorandaError):
    """This store does not support this."""

    code = "unsupported"


class RateLimited(MemorandaError):
    """Too many requests; try again shortly."""

    code = "rate_limited"

    def __init__(self, message: str | None = None, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QuotaExceeded(RateLimited):
    """A quota of the owner is exceeded."""


class Conflict(MemorandaError):
    """The name belongs to other data."""

    code = "invalid_record"


class VersionMismatch(Conflict):
    """The version differs from the expected one."""


class StoreUnavailable(MemorandaError):
    """The store cannot be used right now."""

    code = "unavailable"


class StoreCorrupt(MemorandaError):
    """The store is inconsistent."""

    code = "corrupt"


def describe_error(error: BaseException) -> str:
    """Return the message of our own errors; of others only the type, as their message may quote a memory."""
    return error.message if isinstance(error, MemorandaError) else type(error).__name__


# Errors by code; if several share a code, their common base class.
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

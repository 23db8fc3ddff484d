"""Workspace files (RFC 0059): paths, versions, ETags, and the content of a write.

Paths are names with slashes; there are no folders. The versions of a file count 1, 2, 3 and so on, also across
deletions. No two contents share a version, so the version serves as the ETag.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from memoranda.errors import InvalidInput, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    check_closed_object,
    check_integer,
    check_text,
    check_time,
    require_fields,
)
from memoranda.standards.openwop.problem import WORKSPACE_CONFLICT, WORKSPACE_TOO_LARGE

WorkspaceFile = dict[str, Any]

DEFAULT_TYPE: Final = "text/markdown"

# Bytes. Basic knowledge that a model reads: identity, directives, an index. A mebibyte is a thick book.
MAX_FILE_BYTES: Final = 1_048_576
# Files; a listing is rendered in memory.
MAX_FILES: Final = 1000
# Versions kept per file; two years of weekly edits.
MAX_VERSIONS: Final = 100
# Characters of a path.
MAX_PATH_CHARS: Final = 256

_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,255}", re.ASCII)
_TYPE: Final = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:\s*;[\x20-\x7e]{0,128})?", re.ASCII
)
_FIELDS: Final = ("path", "content", "version", "updatedAt", "contentType", "etag")
_ETAG: Final = re.compile(r'(?:W/)?"v?(\d{1,15})"|v?(\d{1,15})', re.ASCII)
# Characters of an If-Match header.
_MAX_HEADER_CHARS: Final = 1024


def is_path(text: object) -> bool:
    """Return True for a path of the schema without `.`, `..` or empty parts."""
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        return False
    # The pattern of workspace-file.schema.json permits `a/../b`, but agent-workspace.md forbids `..`.
    return all(part not in ("", ".", "..") for part in text.split("/"))


def check_path(value: object) -> str:
    """Return the value if it is a path. Raises InvalidInput."""
    if not is_path(value):
        raise InvalidInput(
            f"path must be 1 to {MAX_PATH_CHARS} letters, digits, dots, hyphens, underscores and slashes, "
            "beginning with a letter or digit, without empty parts, . and .."
        )
    return str(value)


def is_prefix(text: str) -> bool:
    """Return True if a path can begin with this text, also for an empty text."""
    return text == "" or (len(text) <= MAX_PATH_CHARS and _PATH.fullmatch(text) is not None)


class WorkspaceDraft(OpenwopShape):
    """The content and content type of a PUT. Too much content is `workspace_too_large`."""

    content: str
    content_type: Annotated[
        str,
        Meta(
            pattern=f"^(?:{_TYPE.pattern})(?![\\s\\S])",
            extra={"expected": "a media type such as text/markdown"},
            extra_json_schema={"pattern": None},
        ),
    ] = DEFAULT_TYPE

    def __post_init__(self) -> None:
        check_content(self.content)


def check_content(value: object, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Check a file's content and return it. Raises InvalidInput or WorkflowError."""
    if not isinstance(value, str):
        raise InvalidInput("content must be a string")
    try:
        size_bytes = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInput("content must have no lone surrogate") from None
    if size_bytes > max_bytes:
        raise WorkflowError(
            f"content has {size_bytes} bytes; the limit is {max_bytes}",
            openwop_code=WORKSPACE_TOO_LARGE,
            details={"maxFileBytes": max_bytes},
        )
    return value


def build_file(
    *, path: str, content: str, version: int, updated: Instant, content_type: str = DEFAULT_TYPE
) -> WorkspaceFile:
    """Build a checked WorkspaceFile."""
    file: WorkspaceFile = {
        "path": path,
        "content": content,
        "contentType": content_type,
        "version": version,
        "etag": etag_of(version),
        "updatedAt": format_instant(updated),
    }
    return check_file(file)


def check_file(value: object) -> WorkspaceFile:
    """Check a WorkspaceFile from untrusted JSON and return it unchanged. Raises InvalidInput."""
    file = check_closed_object(value, _FIELDS, "file")
    require_fields(file, _FIELDS[:4], "file")
    check_path(file["path"])
    check_content(file["content"])
    check_integer(file["version"], "file.version", least=1)
    check_time(file["updatedAt"], "file.updatedAt")
    for name in ("contentType", "etag"):
        if name in file:
            check_text(file[name], f"file.{name}", MAX_PATH_CHARS)
    return file


def etag_of(version: int) -> str:
    """Return the ETag of a version, such as `"v3"` in the specification's example."""
    return f'"v{version}"'


class WriteCondition(msgspec.Struct, frozen=True, kw_only=True):
    """The headers `If-Match` and `If-None-Match` of a write; None for one that is absent."""

    if_match: str | None = None
    if_none_match: str | None = None


UNCONDITIONAL: Final = WriteCondition()


def next_version(current: int | None, last: int, condition: WriteCondition = UNCONDITIONAL) -> int:
    """Return the version that a write creates. Raises WorkflowError `workspace_conflict` (409) with the current one.

    `current` is the current version, or None without a file. `last` is the highest version that ever existed.
    """
    if_match, if_none_match = condition.if_match, condition.if_none_match
    if if_match is not None and (current is None or not _matches(if_match, current)):
        raise _build_conflict(current)
    if if_none_match is not None and current is not None and _matches(if_none_match, current):
        raise _build_conflict(current)
    return last + 1


def _matches(header: str, version: int) -> bool:
    """Return True if a condition header includes the version or `*`."""
    if len(header) > _MAX_HEADER_CHARS:
        return False
    for item in header.split(","):
        match = _ETAG.fullmatch(item.strip())
        if item.strip() == "*" or (match is not None and int(match[1] or match[2]) == version):
            return True
    return False


def _build_conflict(current: int | None) -> WorkflowError:
    """Return the error of a failed condition."""
    state = "there is no such file" if current is None else f"the file is at version {current}"
    return WorkflowError(
        f"the file does not have the expected version: {state}",
        openwop_code=WORKSPACE_CONFLICT,
        # A file that does not exist counts as version 0.
        details={"currentVersion": current or 0},
    )

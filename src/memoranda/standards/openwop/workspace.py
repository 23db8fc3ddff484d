"""Workspace files (RFC 0059): paths, versions, ETags, and what a write may say.

Names with slashes in them, not folders. A file's versions count 1, 2, 3 and on, through deletions too, so that no two
contents ever share a version; that is why the version alone can be the ETag.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from msgspec import Meta

from memoranda.errors import InvalidInput, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    check_integer,
    check_text,
    check_time,
    closed_object,
    require,
)
from memoranda.standards.openwop.problem import WORKSPACE_CONFLICT, WORKSPACE_TOO_LARGE

WorkspaceFile = dict[str, Any]

DEFAULT_TYPE: Final = "text/markdown"

# Ground truth that a model reads: identity, directives, an index. A mebibyte is a thick book.
MAX_FILE_BYTES: Final = 1_048_576
# A listing is rendered in memory.
MAX_FILES: Final = 1000
# History is best effort; a year of weekly edits twice over.
MAX_VERSIONS: Final = 100
MAX_PATH_CHARS: Final = 256

_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,255}", re.ASCII)
_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:\s*;[\x20-\x7e]{0,128})?", re.ASCII)
_FIELDS: Final = ("path", "content", "version", "updatedAt", "contentType", "etag")
_ETAG: Final = re.compile(r'(?:W/)?"v?(\d{1,15})"|v?(\d{1,15})', re.ASCII)
_MAX_HEADER_CHARS: Final = 1024


def is_path(text: object) -> bool:
    """Whether a path is one of the schema's, and has no `.`, `..` or empty part."""
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        return False
    # workspace-file.schema.json's pattern lets `a/../b` pass; agent-workspace.md says that it forbids `..`.
    return all(part not in ("", ".", "..") for part in text.split("/"))


def check_path(value: object) -> str:
    """A path. Raises InvalidInput."""
    if not is_path(value):
        raise InvalidInput(
            f"path must be 1 to {MAX_PATH_CHARS} letters, digits, dots, hyphens, underscores and slashes, "
            "beginning with a letter or digit, without empty parts, . and .."
        )
    return str(value)


def is_prefix(text: str) -> bool:
    """Whether a listing can be asked for by this: the beginning of some path, or nothing."""
    return text == "" or (len(text) <= MAX_PATH_CHARS and _PATH.fullmatch(text) is not None)


class WorkspaceDraft(OpenwopShape):
    """What a PUT says: the content, and what type it has. Too large is `workspace_too_large`."""

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
    """A file's content."""
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


def workspace_file(
    *, path: str, content: str, version: int, updated: Instant, content_type: str = DEFAULT_TYPE
) -> WorkspaceFile:
    """A checked WorkspaceFile."""
    made: WorkspaceFile = {
        "path": path,
        "content": content,
        "contentType": content_type,
        "version": version,
        "etag": etag_of(version),
        "updatedAt": format_instant(updated),
    }
    return check_file(made)


def check_file(value: object) -> WorkspaceFile:
    """A WorkspaceFile from untrusted JSON, as it was given."""
    found = closed_object(value, _FIELDS, "file")
    require(found, _FIELDS[:4], "file")
    check_path(found["path"])
    check_content(found["content"])
    check_integer(found["version"], "file.version", least=1)
    check_time(found["updatedAt"], "file.updatedAt")
    for name in ("contentType", "etag"):
        if name in found:
            check_text(found[name], f"file.{name}", MAX_PATH_CHARS)
    return found


def etag_of(version: int) -> str:
    """The ETag of a version; as in the specification's example, `"v3"`."""
    return f'"v{version}"'


def next_version(
    current: int | None, last: int, *, if_match: str | None = None, if_none_match: str | None = None
) -> int:
    """The version that a write makes. Raises WorkflowError `workspace_conflict` (409) with the current version.

    `current` is the version that is there now, None if there is no file; `last` the highest there ever was.
    """
    if if_match is not None and (current is None or not _matches(if_match, current)):
        raise _conflict(current)
    if if_none_match is not None and current is not None and _matches(if_none_match, current):
        raise _conflict(current)
    return last + 1


def _matches(header: str, version: int) -> bool:
    if len(header) > _MAX_HEADER_CHARS:
        return False
    for item in header.split(","):
        match = _ETAG.fullmatch(item.strip())
        if item.strip() == "*" or (match is not None and int(match[1] or match[2]) == version):
            return True
    return False


def _conflict(current: int | None) -> WorkflowError:
    said = "there is no such file" if current is None else f"the file is at version {current}"
    return WorkflowError(
        f"not the version that was expected: {said}",
        openwop_code=WORKSPACE_CONFLICT,
        # A file that is not there is at version 0, before its first.
        details={"currentVersion": current or 0},
    )

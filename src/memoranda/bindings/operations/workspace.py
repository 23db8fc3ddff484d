"""The operations of openwop's workspace files: one set of rows, for the host's files and for those of a run."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.operations.row import Row, in_header, row_constructor
from memoranda.encoding.shapes import TEXT
from memoranda.standards.openwop.requests import GetFileRequest, ListFilesRequest
from memoranda.standards.openwop.workspace import WorkspaceDraft

_IF_MATCH: Final = in_header("If-Match", TEXT, 'The expected version, such as `"v3"`; `*` for any.')
_IF_NONE_MATCH: Final = in_header(
    "If-None-Match", {"const": "*"}, "Only if the file does not exist."
)
_ETAG: Final = {"ETag": {"description": "The version of the file.", "schema": TEXT}}
_NO_FILE: Final = "no such workspace file"

row: Final = row_constructor("openwop")


def file_rows(path: str, name: str, summary: str) -> tuple[Row, ...]:
    """Return the rows about workspace files: those of the host, or those of a run."""
    one = path + "/{path}"
    return (
        row(
            "GET",
            path,
            f"{name}_files",
            f"{summary}, without their content",
            "OpenwopFiles",
            ListFilesRequest,
            {"prefix": "notes/"},
            verb="files",
            under="files",
        ),
        row(
            "GET",
            one,
            f"{name}_file",
            "Return a workspace file, in its current or an earlier version",
            "OpenwopFile",
            GetFileRequest,
            verb="file",
            headers=_ETAG,
        ),
        row(
            "PUT",
            one,
            f"{name}_write_file",
            "Write the next version of a workspace file",
            "OpenwopFile",
            WorkspaceDraft,
            {"content": "# Plan\n"},
            verb="write_file",
            conditions={"if_match": "If-Match", "if_none_match": "If-None-Match"},
            parameters=(_IF_MATCH, _IF_NONE_MATCH),
            headers=_ETAG,
        ),
        row(
            "DELETE",
            one,
            f"{name}_remove_file",
            "Remove a workspace file and its versions",
            verb="remove_file",
            conditions={"if_match": "If-Match"},
            missing=_NO_FILE,
            parameters=(_IF_MATCH,),
            success=(204,),
        ),
    )

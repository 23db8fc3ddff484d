"""Memories as MCP resources: `ump://{project}/{id}` (UMP section 4.1), and `ump://{project}/` for all of a project.

Both parts are percent-encoded, because a project may contain slashes. `_` stands for "no project"; a project with the
name `_` is written `%5F`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import mcp_types as types

from memoranda.encoding.json_text import dump
from memoranda.encoding.untrusted import neutralize_json, neutralize_tags
from memoranda.errors import InvalidInput, NotFound
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.mapping import MEDIA_TYPE
from memoranda.standards.ump.record import Record, is_name

SCHEME: Final = "ump://"
NO_PROJECT: Final = "_"
# Memories per page: enough for a picker, and small enough for a model's context. The cursor leads to the next page.
PAGE_LIMIT: Final = 50
# A cursor is the number of memories on earlier pages. Nine digits are more than any client pages through.
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
# Characters of a URI: both names may be long, and an escape has three characters for each byte.
_MAX_URI_CHARS: Final = 8_192
# Characters of a title; pickers show one line.
_TITLE_CHARS: Final = 80
_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceName:
    """A project (empty for "no project") and a memory in it; an empty id stands for the whole project."""

    project: str
    id: str = ""


def format_uri(name: ResourceName) -> str:
    """Return the URI of a resource in the one form that we write."""
    project = quote(name.project, safe="") if name.project else NO_PROJECT
    if name.project == NO_PROJECT:
        project = "%5F"
    return f"{SCHEME}{project}/{quote(name.id, safe=':')}"


def parse_uri(uri: str) -> ResourceName:
    """Return the name in a URI, however its characters are escaped. Raises InvalidInput."""
    project, slash, name = uri.removeprefix(SCHEME).partition("/")
    is_ours = uri.startswith(SCHEME) and len(uri) <= _MAX_URI_CHARS and bool(project)
    decoded = ResourceName(
        project="" if project == NO_PROJECT else _decode(project), id=_decode(name)
    )
    well_formed = all(is_name(part) for part in (decoded.project, decoded.id) if part)
    if not is_ours or not slash or "/" in name or not well_formed:
        raise InvalidInput(
            "uri must be ump://{project}/{id} or ump://{project}/, with both parts percent-encoded"
        )
    return decoded


def name_of_record(record: Record) -> ResourceName:
    """Return the name of the resource that shows a record."""
    return ResourceName(project=record["scope"].get("project", ""), id=record["id"])


TEMPLATES: Final = (
    types.ResourceTemplate(
        name="memory",
        title="One memory",
        uri_template="ump://{project}/{id}",
        description="A memory as a UMP record, for a model to read. Use _ as the project of a memory that has none.",
        mime_type=MEDIA_TYPE,
    ),
    types.ResourceTemplate(
        name="project",
        title="The latest memories of a project",
        uri_template="ump://{project}/",
        description=f"The last {PAGE_LIMIT} current memories of a project. Subscribe to it to hear of every change.",
        mime_type=MEDIA_TYPE,
    ),
)


def list_resources(
    service: Service, access: Access, cursor: str | None
) -> types.ListResourcesResult:
    """Return a page of the current memories, newest first. Raises MemorandaError."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidInput("cursor is not one that this server gave")
    records, next_position = service.list_records(access, after=int(cursor or 0), limit=PAGE_LIMIT)
    return types.ListResourcesResult(
        resources=[_resource_entry(record) for record in records],
        next_cursor=None if next_position is None else str(next_position),
    )


def read_resource(service: Service, access: Access, uri: str) -> types.ReadResourceResult:
    """Return a memory, or the latest memories of a project as sub-resources. Raises MemorandaError."""
    name = parse_uri(uri)
    if not name.id:
        records, _ = service.list_records(access, project=name.project, limit=PAGE_LIMIT)
        return _resource_contents(
            [(format_uri(name_of_record(record)), record) for record in records]
        )
    record = service.get(access, name.id)
    if name_of_record(record).project != name.project:
        # A memory has one address; under another project's it does not exist.
        raise NotFound(f"no memory {name.id} in that project")
    return _resource_contents([(uri, record)])


def _resource_contents(records: list[tuple[str, Record]]) -> types.ReadResourceResult:
    """Return the result with these records, each under its URI."""
    contents: list[types.TextResourceContents | types.BlobResourceContents] = [
        types.TextResourceContents(uri=uri, mime_type=MEDIA_TYPE, text=_dump_record(record))
        for uri, record in records
    ]
    return types.ReadResourceResult(contents=contents)


def _dump_record(record: Record) -> str:
    """Return a record as JSON in which no text can be read as a tag of the frame around memories."""
    return dump(neutralize_json(record)).decode("utf-8")


def _resource_entry(record: Record) -> types.Resource:
    """Return the entry of a memory in the list of resources."""
    name = name_of_record(record)
    # Twice the length, because runs of spaces collapse to one.
    opening = neutralize_tags(record["body"]["text"][: _TITLE_CHARS * 2])
    title = _UNPRINTABLE.sub(" ", opening).strip()
    if len(title) > _TITLE_CHARS:
        title = title[: _TITLE_CHARS - 1] + "…"
    description = f"{record['kind']} memory"
    if name.project:
        description += f" of {neutralize_tags(name.project)}"
    return types.Resource(
        name=record["id"],
        title=title,
        uri=format_uri(name),
        description=description,
        mime_type=MEDIA_TYPE,
        size=len(_dump_record(record).encode()),
        annotations=types.Annotations(last_modified=record["time"].get("observed")),
    )


def _decode(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput("uri holds escapes that are not UTF-8") from None

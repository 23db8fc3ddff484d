"""Memories as MCP resources: `ump://{project}/{id}` (UMP section 4.1), and `ump://{project}/` for a whole project.

Both parts are percent-encoded, since a project may contain slashes. `_` stands for "no project"; a project that
is really called `_` is written `%5F`.
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
# Enough for a picker, small enough for a model's context; the cursor leads on.
PAGE_LIMIT: Final = 50
# A cursor counts what was passed over; nobody pages through more than this by hand.
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_MAX_URI_CHARS: Final = 8_192
_TITLE_CHARS: Final = 80
_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a URI names: a project (empty for "no project"), and a memory in it, or all of it."""

    project: str
    id: str = ""


def uri_of(place: Place) -> str:
    """The one way we write it."""
    project = quote(place.project, safe="") if place.project else NO_PROJECT
    if place.project == NO_PROJECT:
        project = "%5F"
    return f"{SCHEME}{project}/{quote(place.id, safe=':')}"


def place_of(uri: str) -> Place:
    """What a URI names, however it was escaped."""
    project, slash, name = uri.removeprefix(SCHEME).partition("/")
    is_ours = uri.startswith(SCHEME) and len(uri) <= _MAX_URI_CHARS and bool(project)
    decoded = Place(project="" if project == NO_PROJECT else _decoded(project), id=_decoded(name))
    well_formed = all(is_name(part) for part in (decoded.project, decoded.id) if part)
    if not is_ours or not slash or "/" in name or not well_formed:
        raise InvalidInput(
            "uri must be ump://{project}/{id} or ump://{project}/, with both parts percent-encoded"
        )
    return decoded


def place_of_record(record: Record) -> Place:
    return Place(project=record["scope"].get("project", ""), id=record["id"])


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


def listing(service: Service, access: Access, cursor: str | None) -> types.ListResourcesResult:
    """A page of the current memories, newest first. Raises MemorandaError."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidInput("cursor is not one that this server gave")
    records, following = service.list_records(access, after=int(cursor or 0), limit=PAGE_LIMIT)
    return types.ListResourcesResult(
        resources=[_resource(record) for record in records],
        next_cursor=None if following is None else str(following),
    )


def read(service: Service, access: Access, uri: str) -> types.ReadResourceResult:
    """A memory, or the latest ones of a project as sub-resources. Raises MemorandaError."""
    place = place_of(uri)
    if not place.id:
        records, _ = service.list_records(access, project=place.project, limit=PAGE_LIMIT)
        return _contents([(uri_of(place_of_record(record)), record) for record in records])
    record = service.get(access, place.id)
    if place_of_record(record).project != place.project:
        # A memory has one address; under another project's it does not exist.
        raise NotFound(f"no memory {place.id} in that project")
    return _contents([(uri, record)])


def _contents(found: list[tuple[str, Record]]) -> types.ReadResourceResult:
    contents: list[types.TextResourceContents | types.BlobResourceContents] = [
        types.TextResourceContents(uri=uri, mime_type=MEDIA_TYPE, text=_text(record))
        for uri, record in found
    ]
    return types.ReadResourceResult(contents=contents)


def _text(record: Record) -> str:
    """A record for a model: what it says spells no tag of a frame."""
    return dump(neutralize_json(record)).decode("utf-8")


def _resource(record: Record) -> types.Resource:
    place = place_of_record(record)
    text = _UNPRINTABLE.sub(
        " ", neutralize_tags(record["body"]["text"][: _TITLE_CHARS * 2])
    ).strip()
    short = text if len(text) <= _TITLE_CHARS else text[: _TITLE_CHARS - 1] + "…"
    return types.Resource(
        name=record["id"],
        title=short,
        uri=uri_of(place),
        description=f"{record['kind']} memory"
        + (f" of {neutralize_tags(place.project)}" if place.project else ""),
        mime_type=MEDIA_TYPE,
        size=len(_text(record).encode()),
        annotations=types.Annotations(last_modified=record["time"].get("observed")),
    )


def _decoded(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput("uri holds escapes that are not UTF-8") from None

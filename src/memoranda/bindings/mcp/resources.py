"""Resources and prompts of MCP.

A memory is the resource `ump://{project}/{id}` (UMP section 4.1), and `ump://{project}/` all of a project. Both parts
are percent-encoded, because a project may contain slashes. `_` stands for "no project"; a project with the name `_` is
written `%5F`.

The prompts are `ump.rehydrate`, recalled memories as one framed block (UMP section 5.3), and the card of CAL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import mcp_types as types

from memoranda.bindings.mcp.offer import ToolOffer
from memoranda.encoding.json_text import dump
from memoranda.encoding.untrusted import neutralize_json, neutralize_tags
from memoranda.errors import InvalidInput, NotFound
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.mapping import MEDIA_TYPE
from memoranda.standards.ump.record import Record, is_name
from memoranda.standards.ump.requests import MAX_BUDGET_CHARS, RehydrateRequest

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


NAME: Final = "ump.rehydrate"
# The name without a dot, which every host accepts.
PLAIN_NAME: Final = "ump_rehydrate"
_NO_MEMORIES: Final = "No memories were found for this query."

PROMPT: Final = types.Prompt(
    name=NAME,
    title="Recall into this conversation",
    description="Puts the memories that matter for a query into the conversation, framed as untrusted reference data.",
    arguments=[
        types.PromptArgument(
            name="query", description="What the conversation is about.", required=True
        ),
        types.PromptArgument(
            name="project",
            description="Memories of this project, and those without a project.",
            required=False,
        ),
        types.PromptArgument(
            name="budget",
            description=f"Characters that the block may have, up to {MAX_BUDGET_CHARS}.",
            required=False,
        ),
    ],
)
CARD_NAME: Final = "cal-card"
CARD: Final = types.Prompt(
    name=CARD_NAME,
    title="How to query the memory",
    description="The query language CAL on one card, for an agent that is to use the cal tool.",
)


def list_prompts(offer: ToolOffer) -> list[types.Prompt]:
    """Return the prompts under the names that a client is offered."""
    name = NAME if offer.names == "reserved" else PLAIN_NAME
    return [PROMPT.model_copy(update={"name": name}), CARD]


def rehydrate(
    service: Service, access: Access, arguments: Mapping[str, str] | None
) -> types.GetPromptResult:
    """Return one user message with the block of recalled memories. Raises MemorandaError."""
    values = dict(arguments or {})
    allowed = [argument.name for argument in PROMPT.arguments or ()]
    if unknown := [name for name in values if name not in allowed]:
        raise InvalidInput(f"unknown argument {unknown[0][:40]!a}; there are {', '.join(allowed)}")
    request: dict[str, object] = {"query": values.get("query"), "max_visibility": "public"}
    if values.get("project"):
        request["scope"] = {"project": values["project"]}
    if values.get("budget"):
        request["budget_chars"] = _parse_budget(values["budget"])
    block = service.for_prompt(access, RehydrateRequest.parse(request))
    content = types.TextContent(type="text", text=block.text or _NO_MEMORIES)
    return types.GetPromptResult(
        description=f"Memories: {len(block.injected)}",
        messages=[types.PromptMessage(role="user", content=content)],
    )


def _parse_budget(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput("budget must be a whole number of characters")
    return int(text)


def cal_card(arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return the card of CAL as one user message. Raises InvalidInput if there are arguments."""
    # Loaded here, because the grammar takes long to load and few sessions ask for the card.
    from memoranda.standards.cal.grammar import prompt_card

    if arguments:
        raise InvalidInput(f"{CARD_NAME} has no arguments")
    content = types.TextContent(type="text", text=prompt_card())
    return types.GetPromptResult(
        description="CAL on one card", messages=[types.PromptMessage(role="user", content=content)]
    )

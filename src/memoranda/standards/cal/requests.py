"""The parameters around a query, such as its namespace and its cursor, declared once (sections 15, 18, 26).

The text of a query is checked by the parser of the language.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from memoranda.encoding.shapes import Shape
from memoranda.standards.cal import limits
from memoranda.standards.cal.token import LIFETIME_MAX_MS, LIFETIME_MS
from memoranda.standards.oms.requests import Name

# Characters. The token of a prepared query holds the query and its parameters, which may fill a request.
MAX_TOKEN_CHARS: Final = 2_097_152

Params = Annotated[
    dict[str, Any],
    Meta(
        description="A value for each $name: text, number, boolean, or a list of these.",
        examples=[{"who": "ada"}],
        extra={"expected": "an object of names and values"},
    ),
]
Cursor = Annotated[
    str,
    Meta(
        description="`next_cursor` of the page before, with the same query.",
        extra={"expected": "the next_cursor of the page before"},
    ),
]
Namespace = Annotated[
    Name,
    Meta(description="The namespace; by default the project of the credential, else `shared`."),
]
User = Annotated[
    Name,
    Meta(
        description="The user on whose behalf the query runs, for MY and $current_user_id; by default the owner."
    ),
]
Owner = Annotated[
    Name,
    Meta(
        description="The owner of the memory, for a credential with access to several; by default its own."
    ),
]
Agent = Annotated[
    Name, Meta(description="The agent that sends the query; recorded in the audit log.")
]


class TextQuery(Shape):
    """A query as text, and the values of its parameters."""

    query: Annotated[
        str,
        Meta(
            description="One query. Write values as $name and pass them in params, especially text from users.",
            examples=['RECALL beliefs ABOUT "ada" WHERE confidence >= 0.8 | LIMIT 5 AS markdown'],
            extra={"expected": "the text of a query"},
            # For documentation only: the parser reports violations, with CAL's error codes.
            extra_json_schema={"minLength": 1, "maxLength": limits.QUERY_BYTES},
        ),
    ]
    params: Params | None = None
    namespace: Namespace | None = None


class PagedTextQuery(TextQuery):
    """A query as text, its values, and the page of the answer to return."""

    cursor: Cursor | None = None


class Query(Shape):
    """A query and its values, and the user on whose behalf it runs, which is never part of the query."""

    query: Annotated[
        str | dict[str, Any],
        Meta(
            description="The text of a query, or its JSON form.",
            extra={"expected": "the text of a query, or its JSON form"},
        ),
    ]
    params: Params | UnsetType = UNSET
    namespace: Namespace | None = None
    user: User | None = None
    owner: Owner | None = None
    agent: Agent | None = None
    strict: Annotated[bool, Meta(description="Follow the printed specification strictly.")] = False


class TokenRequest(Shape):
    """The rights of a new capability token: namespace, operations, lifetime and uses (section 18)."""

    namespace: Namespace | None = None
    user: (
        Annotated[
            Name, Meta(description="The user on whose behalf queries run; by default the owner.")
        ]
        | None
    ) = None
    tier1: Annotated[bool, Meta(description="True if the token may append.")] = False
    operations: Annotated[
        tuple[Name, ...], Meta(max_length=32, description="Allowed operations; by default all.")
    ] = ()
    grain_types: Annotated[
        tuple[Name, ...], Meta(max_length=32, description="Allowed grain types; by default all.")
    ] = ()
    lifetime_ms: Annotated[int, Meta(ge=1, le=LIFETIME_MAX_MS)] = LIFETIME_MS
    uses: Annotated[int, Meta(ge=1)] = 1
    writes: Annotated[int, Meta(ge=0)] = 0


class TemplateRequest(Shape):
    """The name of a template, and the namespace in which it is defined."""

    name: Name
    namespace: Namespace | None = None
    owner: Owner | None = None


class PagedQuery(Query):
    """A query and its values, and the page of the answer to return."""

    cursor: Cursor | None = None


class ExecuteRequest(Shape):
    """The token of a prepared query."""

    token: Annotated[
        str,
        Meta(
            description="The token that cal.prepare returned: valid for five minutes, one execution, and only for you.",
            extra={"expected": "the token that prepare returned"},
            extra_json_schema={"minLength": 1, "maxLength": MAX_TOKEN_CHARS},
        ),
    ]


class OwnedExecuteRequest(ExecuteRequest):
    """The token of a prepared query, and the owner of the memory."""

    owner: Owner | None = None

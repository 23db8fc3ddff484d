"""The schemas the tools are listed with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from memoranda.bindings.mcp.definition import MemoryTool
from memoranda.bindings.mcp.tools import OPERATIONS, error_result
from memoranda.errors import GrainError, NotFound, QueryError

EACH = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))


def output_of(operation: MemoryTool) -> dict[str, Any]:
    schema = operation.tool.output_schema
    assert schema is not None
    return schema


def properties_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner
        yield from properties_of(inner, f"{path}{name}.")


@pytest.mark.requirement("UMP-4.1-tools")
def test_there_are_exactly_the_seven_reserved_tools_and_one_of_ours() -> None:
    names = ("capabilities", "recall", "remember", "get", "revise", "forget", "feedback", "list")
    assert [name for name in OPERATIONS if name.startswith("ump.")] == [f"ump.{name}" for name in names]


def test_there_are_no_other_tools_than_those_of_the_standards() -> None:
    assert {name.partition(".")[0] for name in OPERATIONS} == {"ump", "oams", "oms", "cal"}


@pytest.mark.requirement("CAL-26-mcp")
def test_there_are_four_tools_for_queries() -> None:
    assert [name for name in OPERATIONS if name.startswith("cal")] == ["cal", "cal.check", "cal.prepare", "cal.execute"]


def test_there_are_four_tools_for_grains_and_none_erases() -> None:
    assert [name for name in OPERATIONS if name.startswith("oms.")] == [
        f"oms.{name}" for name in ("put", "get", "find", "supersede")
    ]


@EACH
@pytest.mark.requirement("UMP-4.1-tools")
def test_schemas_are_draft_2020_12_objects_at_their_root(operation: MemoryTool) -> None:
    for schema in (operation.tool.input_schema, output_of(operation)):
        assert jsonschema_rs.meta.is_valid(schema)
        assert (schema["$schema"], schema["type"]) == ("https://json-schema.org/draft/2020-12/schema", "object")


@EACH
def test_no_input_schema_has_an_alternative_at_its_root(operation: MemoryTool) -> None:
    # Model providers refuse tools whose schema begins with one of these.
    assert not {"anyOf", "oneOf", "allOf"} & set(operation.tool.input_schema)


@EACH
def test_every_argument_is_described_or_limited_for_the_model(operation: MemoryTool) -> None:
    tool = operation.tool
    assert tool.title
    assert tool.description
    assert tool.annotations is not None
    for path, schema in properties_of(tool.input_schema):
        assert "description" in schema or "default" in schema or "type" in schema, path


@EACH
def test_an_error_is_valid_against_every_output_schema(operation: MemoryTool) -> None:
    validator = jsonschema_rs.Draft202012Validator(output_of(operation))
    assert validator.is_valid(error_result(NotFound()).structured_content)
    wrong = GrainError(oms_code="ERR_SCHEMA")
    assert validator.is_valid(error_result(wrong, tool=operation.tool.name).structured_content)
    unread = QueryError("Not so.", cal_code="CAL-E044", suggestion="Thus.", reason="replayed", oms_error="ERR_SCHEMA")
    assert validator.is_valid(error_result(unread, tool=operation.tool.name).structured_content)
    assert not validator.is_valid({})
    assert not validator.is_valid({"error": {"message": "a code is missing"}})


def test_only_forget_is_said_to_destroy_and_only_reading_to_be_read_only() -> None:
    hints = {name: operation.tool.annotations for name, operation in OPERATIONS.items()}
    destructive = {name for name, hint in hints.items() if hint and hint.destructive_hint}
    read_only = {name for name, hint in hints.items() if hint and hint.read_only_hint}
    assert destructive == {"ump.forget"}
    assert read_only == {
        "ump.capabilities",
        "ump.recall",
        "ump.get",
        "ump.list",
        "oams.dreams",
        "oms.get",
        "oms.find",
        "cal.check",
        "cal.prepare",
    }

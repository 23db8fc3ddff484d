"""`ump://` URIs and the places they name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.bindings.mcp.resources import ResourceName, format_uri, parse_uri
from memoranda.errors import InvalidInput

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60)


@given(project=st.just("") | NAMES, name=st.just("") | NAMES)
@pytest.mark.requirement("UMP-4.1-resources")
def test_every_place_survives_being_written_as_a_uri(project: str, name: str) -> None:
    place = ResourceName(project=project, id=name)
    uri = format_uri(place)
    assert parse_uri(uri) == place
    assert re.fullmatch(r"ump://[A-Za-z0-9%._~-]+/[A-Za-z0-9%._~:-]*", uri)


def test_a_project_called_underscore_is_not_the_lack_of_one() -> None:
    assert format_uri(ResourceName(project="_")) == "ump://%5F/"
    assert parse_uri("ump://%5F/") == ResourceName(project="_")
    assert parse_uri("ump://_/urn:ump:abc") == ResourceName(project="", id="urn:ump:abc")


def test_escapes_in_either_case_name_the_same_place() -> None:
    assert parse_uri("ump://acme%2fweb/urn%3aump%3aabc") == parse_uri("ump://acme%2Fweb/urn:ump:abc")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "ump:",
        "ump://",
        "ump:///urn:ump:abc",
        "ump://project",
        "ump://acme/web/urn:ump:abc",
        "http://project/urn:ump:abc",
        "ump://%ff/urn:ump:abc",
        "ump://p/%0a",
        "ump://p/" + "a" * 10_000,
        "ump://" + "a" * 2_000 + "/",
    ],
)
def test_anything_else_is_refused_with_a_sentence(uri: str) -> None:
    with pytest.raises(InvalidInput, match="uri"):
        parse_uri(uri)

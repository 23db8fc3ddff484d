"""`ump://` URIs and the places they name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.bindings.mcp.resources import Place, place_of, uri_of
from memoranda.errors import InvalidInput

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60)


@given(project=st.just("") | NAMES, name=st.just("") | NAMES)
@pytest.mark.requirement("UMP-4.1-resources")
def test_every_place_survives_being_written_as_a_uri(project: str, name: str) -> None:
    place = Place(project=project, id=name)
    uri = uri_of(place)
    assert place_of(uri) == place
    assert re.fullmatch(r"ump://[A-Za-z0-9%._~-]+/[A-Za-z0-9%._~:-]*", uri)


def test_a_project_called_underscore_is_not_the_lack_of_one() -> None:
    assert uri_of(Place(project="_")) == "ump://%5F/"
    assert place_of("ump://%5F/") == Place(project="_")
    assert place_of("ump://_/urn:ump:abc") == Place(project="", id="urn:ump:abc")


def test_escapes_in_either_case_name_the_same_place() -> None:
    assert place_of("ump://acme%2fweb/urn%3aump%3aabc") == place_of("ump://acme%2Fweb/urn:ump:abc")


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
        place_of(uri)

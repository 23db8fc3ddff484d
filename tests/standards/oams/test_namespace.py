"""Namespaces, and that they are the spaces of a tenant: each exactly one of the other."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.standards.oams.strategies import NAMESPACES, SCOPES, TENANT, TEXTS

from memoranda.errors import InvalidInput
from memoranda.standards.oams.namespace import (
    MAX_OWNER_CHARS,
    MAX_SCOPE_CHARS,
    Namespace,
    namespace_of,
    owner_hash,
    parse_namespace,
    space_of,
)

OWN = owner_hash(TENANT)


@pytest.mark.requirement("OAMS-4-form")
@pytest.mark.parametrize(
    "text",
    ["user-x123ab:personal", "user-x123ab:project-mithril", "org-acme:legal-archive", "agent-research-bot:scratchpad"],
)
def test_the_examples_of_the_specification_are_namespaces(text: str) -> None:
    assert str(parse_namespace(text)) == text


@pytest.mark.requirement("OAMS-4-form", "OAMS-4-scope-characters")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "a string"),
        (7, "a string"),
        ("", "one colon"),
        ("personal", "one colon"),
        (":personal", "an owner before"),
        ("user:", "a scope after"),
        ("user:a:b", "no colon in its scope"),
        ("user:a/b", "no slash in its scope"),
        ("us/er:a", "no slash in its owner"),
        ("us er:a", "no whitespace in its owner"),
        ("us\u00a0er:a", "no whitespace in its owner"),
        ("user:a\n", "no control character in its scope"),
        ("us\x00er:a", "no control character in its owner"),
        ("user:\ud800", "no lone surrogate in its scope"),
        ("u" * (MAX_OWNER_CHARS + 1) + ":a", f"an owner of at most {MAX_OWNER_CHARS}"),
        ("u:" + "a" * (MAX_SCOPE_CHARS + 1), f"a scope of at most {MAX_SCOPE_CHARS}"),
    ],
)
def test_what_is_no_namespace_is_refused_with_the_reason(text: object, reason: str) -> None:
    with pytest.raises(InvalidInput, match=r"^namespace must") as caught:
        parse_namespace(text)
    assert reason in caught.value.message


@pytest.mark.requirement("OAMS-4-owner-hash")
def test_the_owner_hash_is_fixed_and_tells_nothing() -> None:
    # printf 'memoranda owner\0did:example:ada' | sha256sum | xxd -r -p | base32 | tr A-Z a-z | head -c 20
    assert owner_hash("did:example:ada") == "o-6fgd7yirafgl5tudhyak"
    assert owner_hash("did:example:ada") != owner_hash("did:example:bob")
    assert parse_namespace(owner_hash(TENANT) + ":default")


def test_known_spaces_have_known_namespaces() -> None:
    expected = {
        "": f"{OWN}:default",
        "default": f"{OWN}:%64efault",
        "project-y": f"{OWN}:project-y",
        "a/b": f"{OWN}:a%2Fb",
        "100%": f"{OWN}:100%25",
        "two words": f"{OWN}:two words",
        "user-x123ab:personal": "user-x123ab:personal",
        "a:b:c": f"{OWN}:a%3Ab%3Ac",
        ":b": f"{OWN}:%3Ab",
        f"{OWN}:x": f"{OWN}:{OWN}%3Ax",
    }
    assert {space: namespace_of(space, TENANT) for space in expected} == expected


SPACES = (
    TEXTS
    | NAMESPACES
    | SCOPES.map(f"{OWN}:{{}}".format)
    | st.recursive(
        TEXTS | st.just("%41"), lambda inner: inner.map(lambda text: namespace_of(text, TENANT)), max_leaves=4
    )
)


@given(SPACES)
@example("%64efault")
@example(f"{OWN}:default")
@example(f"{OWN}:%41")
@example(f"{OWN}:a%3Ab")
@example("\x85" * 1024)
def test_every_space_has_a_namespace_that_leads_back(space: str) -> None:
    namespace = parse_namespace(namespace_of(space, TENANT))
    assert space_of(namespace, TENANT) == space


@given(NAMESPACES | SPACES.map(lambda space: namespace_of(space, TENANT)) | SCOPES.map(f"{OWN}:{{}}".format))
@example(f"{OWN}:%41")
@example(f"{OWN}:%2f")
@example(f"{OWN}:%ff")
@example(f"{OWN}:%")
@example(f"{OWN}:{OWN}%3Adefault")
@example(f"{OWN}:user%3Apersonal")
def test_every_namespace_has_a_space_that_leads_back(text: str) -> None:
    assert namespace_of(space_of(parse_namespace(text), TENANT), TENANT) == text


def test_a_space_with_an_endless_name_has_a_namespace_all_the_same() -> None:
    long = "x" * 100_000
    namespace = parse_namespace(namespace_of(long, TENANT))
    assert namespace.owner == OWN
    assert namespace_of(long + "y", TENANT) != str(namespace)


def test_a_space_called_like_a_namespace_of_a_space_called_like_a_namespace_leads_back() -> None:
    space, depth = "x", 0
    while "%~" not in (namespace := namespace_of(space, TENANT)):
        assert space_of(parse_namespace(namespace), TENANT) == space
        space, depth = namespace, depth + 1
    assert depth > 10


def test_another_tenant_has_other_namespaces() -> None:
    assert namespace_of("x", TENANT) != namespace_of("x", "did:example:bob")
    # What is one tenant's own namespace is a foreign one for the other.
    assert space_of(Namespace(OWN, "x"), "did:example:bob") == f"{OWN}:x"

"""People who sign in to the console with an account of their organisation, and the roles of their groups.

The module that verified a person (bindings/console/oidc.py) states issuer, subject and groups. The operator's rules
map groups to a role and an owner. A session stores only the person; the rules are applied to each request, so a
rule that is removed ends the access of everybody who had it by that rule.

Rules are an ordered list, like those of a firewall: the first matching rule chooses the owner. A person has no row in
the store; the id of a person is a digest, so that no name of the provider gets into audit entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from memoranda.encoding.bases import base32_encode
from memoranda.errors import InvalidInput, Unauthorized
from memoranda.model.owner import check_owner
from memoranda.service.core.access import ALL_VERBS, Access

# The scopes of each role.
ROLES: Final[Mapping[str, frozenset[str]]] = {
    "reader": frozenset(("read",)),
    "writer": frozenset(("read", "write", "derive")),
    "manager": frozenset(("read", "write", "derive", "export", "activate")),
    "owner": ALL_VERBS,
}
# Stands for a group that everybody is in, and for an owner that each person is alone.
EVERYBODY: Final = "*"
PERSONAL: Final = "@person"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person as the provider states it. Groups without a rule are left out."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]

    @property
    def key_id(self) -> str:
        """A name for the person that contains nothing personal, in place of the id of an API key."""
        return f"person:{_digest(self.issuer, self.subject)}"


class RoleRule(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its role, and the owner whose memories its members see; "" is the default owner."""

    group: str
    role: str
    owner: str = ""


def parse_rule(text: str) -> RoleRule:
    """Return the rule of a text `GROUP=ROLE` or `GROUP=ROLE:OWNER`. Raises InvalidInput."""
    # Groups of a directory may contain `=`, and owners `:`.
    group, _, role_and_owner = text.rpartition("=")
    role, _, owner = role_and_owner.partition(":")
    if not group or role not in ROLES:
        raise InvalidInput(
            f"oidc_roles: {text!r} is not GROUP=ROLE or GROUP=ROLE:OWNER, with a role of {', '.join(ROLES)}"
        )
    if owner and owner != PERSONAL:
        check_owner(owner, "oidc_roles")
    return RoleRule(group=group, role=role, owner=owner)


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a provider and of our registration with it."""

    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"


class People:
    """The rules of the operator for people."""

    def __init__(self, rules: Sequence[RoleRule], default_owner: str) -> None:
        self._rules = tuple(rules)
        self._default_owner = default_owner

    def select_groups(self, groups: Sequence[str]) -> tuple[str, ...]:
        """Return the groups that a rule names, in the order of the rules."""
        members = {*groups, EVERYBODY}
        return tuple(dict.fromkeys(rule.group for rule in self._rules if rule.group in members))

    def admit(self, person: Person, credential: str) -> Access:
        """Return the access of a person. Raises Unauthorized if no rule is for one of their groups.

        The first rule decides about the owner; later rules for the same owner add their scopes.
        """
        rules = [rule for rule in self._rules if rule.group in person.groups]
        if not rules:
            raise Unauthorized("none of your groups may use this memory; ask its operator")
        owners = [self._owner_of(rule, person) for rule in rules]
        owner = owners[0]
        verbs = frozenset[str]().union(
            *(ROLES[rule.role] for rule, name in zip(rules, owners, strict=True) if name == owner)
        )
        return Access(
            credential=credential,
            actor=person.key_id,
            actor_kind="user",
            tenant=owner,
            verbs=verbs,
            default_tenant=owner,
        )

    def _owner_of(self, rule: RoleRule, person: Person) -> str:
        if rule.owner == PERSONAL:
            return person.key_id
        return rule.owner or self._default_owner


def _digest(issuer: str, subject: str) -> str:
    """Return a name of a person, the same in every session."""
    text = f"{issuer}\0{subject}".encode("utf-8", "surrogatepass")
    return base32_encode(hashlib.sha256(text).digest()[:15])

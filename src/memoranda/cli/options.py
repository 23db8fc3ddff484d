"""Options that several commands about memories share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.values import without_none

Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
MemoryId = Annotated[str, Parameter(name="ID", help="The memory's id, or the beginning of it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """The scope of a memory: project, user, agent, session and visibility."""

    project: Annotated[str | None, Parameter(help="The project it belongs to.")] = None
    user: Annotated[str | None, Parameter(help="The user it is about.")] = None
    agent: Annotated[str | None, Parameter(help="The agent it belongs to.")] = None
    session: Annotated[str | None, Parameter(help="The session it comes from.")] = None
    visibility: Annotated[
        Visibility | None, Parameter(help="Who may see it (default: private).")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        return without_none(
            project=self.project,
            user=self.user,
            agent=self.agent,
            session=self.session,
            visibility=self.visibility,
        )


# Neither a project nor any other part of a scope.
ANY_SCOPE = MemoryScope()

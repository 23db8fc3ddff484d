"""Turns of persons that something is learnt from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTurn:
    """A turn of a person, and where it stands."""

    text: str
    agent: str
    session: str
    # The id of the turn in its session, or its number.
    id: str
    project: str = ""

    @property
    def reference(self) -> str:
        """The name by which a candidate refers to the turn."""
        return f"{self.agent}:{self.session}#{self.id}"[:1000]

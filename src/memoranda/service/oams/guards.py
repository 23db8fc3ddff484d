"""What a write has to pass: the condition that its caller set."""

from __future__ import annotations

from memoranda.errors import VersionMismatch


def check_condition(etag: str | None, if_match: str | None, if_absent: bool) -> None:
    """Raise VersionMismatch unless what is there is what the caller has seen."""
    if if_absent and etag is not None:
        raise VersionMismatch("there is a memory under this key already")
    if if_match is None:
        return
    if etag is None or (if_match != "*" and etag not in _tags(if_match)):
        raise VersionMismatch("the memory has changed since; read it again")


def _tags(if_match: str) -> list[str]:
    return [tag.strip().removeprefix("W/").strip('"') for tag in if_match.split(",")]

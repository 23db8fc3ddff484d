"""Erasing a version for good, whichever standard it was written in."""

from __future__ import annotations

from memoranda.encoding.json_text import dump
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.service.context import Context
from memoranda.service.protection import check_erasure
from memoranda.service.views import view
from memoranda.standards.ump import rules
from memoranda.standards.ump.signature import sign
from memoranda.storage.engine import Unit


def erase_version(context: Context, unit: Unit, version: Version, reason: str, now: Instant) -> None:
    """Content, words and subject go; what is left is a record that says only that there was something.

    Raises GrainError if the version is held. Call `Engine.scrub` after the unit.
    """
    check_erasure(version, now)
    skeleton = sign(rules.erase(view(context, version, now), reason=reason), context.operator)
    unit.erase(version, skeleton=dump(skeleton), now=now)

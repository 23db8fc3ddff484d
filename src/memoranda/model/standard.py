"""The names of the standards: a document says by them which one it was written in."""

from __future__ import annotations

from typing import Final, Literal

UMP: Final = "ump"
OMS: Final = "oms"
OAMS: Final = "oams"
OPENWOP: Final = "openwop"

Standard = Literal["ump", "oms", "oams", "openwop"]

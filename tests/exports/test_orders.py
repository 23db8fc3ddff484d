"""Files of one memory in any order end with its newest version. `python -m tests.exports.orders` takes hundreds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.exports.orders import ImportOrder, make_order, try_order

# Each ended with two current versions: the key of an OAMS memory was not connected with versions in other forms.
LOST = (
    # A key that is a name of a version which is not stored, but superseded by a stored one.
    ImportOrder(
        standards=("oms", "ump", "oams"), forms=(("ndjson", True), ("mg", False), ("oams", False)), imports=(1, 2, 0)
    ),
    # A version between the first one and the memory with its key.
    ImportOrder(
        standards=("oms", "oms", "ump"), forms=(("mg", True), ("json", True), ("oams", False)), imports=(2, 0, 0, 1, 2)
    ),
    # The name of an openwop entry, which its revisions state as their origin.
    ImportOrder(
        standards=("openwop", "ump", "ump"), forms=(("oams", True), ("json", False), ("oams", True)), imports=(1, 0, 2)
    ),
    # Versions that OAMS wrote before the newest one, which arrive later.
    ImportOrder(
        standards=("oms", "openwop", "oams", "ump"),
        forms=(("json", True), ("json", True), ("book", True), ("mg", False)),
        imports=(3, 0, 1, 2, 3),
    ),
    # An older version of the key that names a successor in another standard.
    ImportOrder(
        standards=("oams", "oms", "oms"), forms=(("json", False), ("json", True), ("oams", True)), imports=(2, 0, 1)
    ),
    # Two versions that only their first one connects, which comes last.
    ImportOrder(
        standards=("openwop", "oms", "openwop"),
        forms=(("json", True), ("markdown", False), ("oams", False)),
        imports=(1, 2, 0, 2),
    ),
)


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("order", [*LOST, *(make_order(random.Random(seed)) for seed in range(6))])
def test_files_in_any_order_end_with_the_newest_version(tmp_path: Path, order: ImportOrder) -> None:
    assert try_order(order, tmp_path / "order") is None

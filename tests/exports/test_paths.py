"""Paths through file forms lose nothing in silence. `python -m tests.exports.paths` takes hundreds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.exports.paths import FilePath, make_path, walk

# Each lost something in silence: the start of validity, the author of a revised record, a key, the id of a memory that
# moved to another namespace, the end of a memory.
LOST = (
    FilePath(steps=(("remember", 0), ("store_again", 0)), forms=(("bundle", True), ("all.mg", True))),
    FilePath(steps=(("remember_of_another", 0), ("revise", 0)), forms=(("bundle", True), ("all.ump.md", True))),
    FilePath(steps=(("remember_of_another", 0), ("revise", 0)), forms=(("all.mg", False), ("all.ndjson", True))),
    FilePath(steps=(("store", 0), ("supersede", 0)), forms=(("all.mg", False), ("all.ump.json", True))),
    FilePath(steps=(("remember", 0), ("store", 0), ("supersede", 1), ("revise", 1)), forms=(("folder/", False),)),
    FilePath(steps=(("entry", 0), ("store_again", 0)), forms=(("all.mg", True), ("all.oams.md", True))),
    FilePath(steps=(("entry", 0), ("entry", 0), ("store_again", 0)), forms=(("all.mg", False), ("all.ump.md", True))),
)


@pytest.mark.requirement("UMP-OURS-no-silent-loss")
@pytest.mark.parametrize("path", [*LOST, *(make_path(random.Random(seed)) for seed in range(6))])
def test_a_path_of_forms_loses_nothing_or_names_it(tmp_path: Path, path: FilePath) -> None:
    assert walk(path, tmp_path / "path").losses == []

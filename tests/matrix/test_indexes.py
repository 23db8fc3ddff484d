"""`verify` compares every row by which a memory is found with what its document says, whichever standard wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.doors import REVISES, WRITES, House


def problems(house: House) -> tuple[str, ...]:
    return house.service.verify_store().index


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which every way to write and to revise was used; some of it forgotten, and erased."""
    path = tmp_path_factory.mktemp("indexes") / "store.db"
    house = House(path=path)
    for number, write in enumerate(WRITES.values()):
        write(house, f"word{number}")
    for number, revise in enumerate(REVISES.values()):
        said = house.named("ump", house.remember(f"before{number}", scope={"project": "lab", "user": "ada"}))
        revise(house, house.names(said), f"after{number}")
    house.forget(house.remember("soft"))
    house.forget(house.remember("hard"), hard=True)
    assert problems(house) == ()
    house.service.close()
    return path


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE state SET space = 'elsewhere' WHERE version_id = 2", "state rows"),
        ("UPDATE state SET subject_key = x'00' WHERE version_id = 3", "state rows"),
        ("DELETE FROM facet WHERE version_id = 2", "field texts"),
        ("INSERT INTO measure (tenant_id, name, number, version_id) SELECT 1, 'x', 1, 2", "field numbers"),
        ("DELETE FROM alias WHERE standard = 'oms'", "names"),
        (
            "INSERT INTO facet SELECT tenant_id, 'label', x'01', version_id FROM state WHERE erased = 1",
            "rows of erased versions",
        ),
    ],
)
def test_a_row_that_says_something_else_is_noticed(filled: Path, tmp_path: Path, damage: str, named: str) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(filled.read_bytes())
    house = House(path=path)
    house.engine._database.write(lambda connection: connection.select(damage, {}))
    found = problems(house)
    house.service.close()
    assert any(named in each for each in found), found

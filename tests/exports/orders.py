"""Files of one memory in any order: in the end the newest version is current, and no earlier one.

A memory is written and revised through random standards, and the store is exported after each step, in a random form
and with or without its history. The files are imported in a random order, some of them twice, into another store of the
same owner, or adopted by another owner.

`python -m tests.exports.orders [--orders 500] [--seed 1]` tries many orders. Exit status 1 if one of them ends with
another memory than the newest version.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from memoranda.errors import QueryError
from tests.lines import stage as verbs
from tests.lines.model import Names
from tests.lines.stage import FAMILIES, FORMS, Clock, Stage, words_in, words_in_path
from tests.matrix.doors import texts

STANDARDS: Final = ("ump", "oams", "oms", "cal", "openwop")
MAX_VERSIONS: Final = 4


class ImportOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The standards that write the versions, the form of the file after each, and the order of the imports."""

    standards: tuple[str, ...]
    forms: tuple[tuple[str, bool], ...]
    # Indexes into `forms`.
    imports: tuple[int, ...]
    is_adopted: bool = False


def make_order(choice: random.Random) -> ImportOrder:
    """Return a random order."""
    count = choice.randint(2, MAX_VERSIONS)
    is_adopted = choice.random() < 0.3
    families = sorted(set(FAMILIES.values()))
    family = choice.choice(families)
    # An adopted memory has a new name, and the name that it had in the standard of the first file only.
    names = [form for form in FORMS if not is_adopted or FAMILIES[form] == family]
    imports = [*range(count), *choice.choices(range(count), k=choice.randint(0, 2))]
    choice.shuffle(imports)
    return ImportOrder(
        standards=tuple(choice.choice(STANDARDS) for _ in range(count)),
        forms=tuple((choice.choice(names), choice.random() < 0.5) for _ in range(count)),
        imports=tuple(imports),
        is_adopted=is_adopted,
    )


class Imported(msgspec.Struct, frozen=True):
    """One import: the texts of its file, and the current texts of the store after it."""

    words: set[str]
    current: set[str]
    # True if a report named a name of the line that the file does not hold.
    is_named: bool


def walk(order: ImportOrder, folder: Path) -> list[Imported]:
    """Write, export and import; return the imports."""
    clock = Clock()
    with clock.installed():
        stage = Stage(folder / "home", clock)
        files: list[Path] = []
        named: list[bool] = []
        names: Names = {}
        for number, (standard, (form, history)) in enumerate(zip(order.standards, order.forms, strict=True)):
            word = word_of(number)
            if number == 0:
                verbs.write(stage, "library", standard, word, "private")
            else:
                try:
                    verbs.revise(stage, "library", standard, names, word, "private")
                except QueryError:
                    # CAL revises no memory with parts that a grain cannot express.
                    verbs.revise(stage, "library", "ump", names, word, "private")
            names = stage.names(stage.head(word))
            stage.advance(1)
            files.append(stage.export(form, folder, history=history)[0])
            named.append(any("belongs to the first version" in line for line in stage.export_warnings))
        other = Stage(folder / "other", clock) if order.is_adopted else stage.twin(folder / "other")
        imports: list[Imported] = []
        for index in order.imports:
            other.import_file(files[index], adopt=order.is_adopted)
            other.advance(1)
            current = words_in(" ".join(texts([memory.record for memory in other.local])))
            words = words_in_path(files[index]) if files[index].exists() else set()
            imports.append(Imported(words, current, named[index]))
        other.close()
        stage.close()
        return imports


def word_of(number: int) -> str:
    return f"zq{number + 1:06}"


def compare(order: ImportOrder, imports: Sequence[Imported]) -> str | None:
    """Return what differs from the newest version of the files so far; None if nothing does."""
    newest, is_named = "", False
    # A form that cannot state a version leaves it out by name. The words grow with the number of the version.
    for number, (index, imported) in enumerate(zip(order.imports, imports, strict=True), start=1):
        newest, is_named = max(newest, *imported.words, ""), is_named or imported.is_named
        expected = {newest} - {""}
        # The first version, which joins its lines, may come with a later file.
        is_enough = is_named and number < len(imports) and expected <= imported.current
        if imported.current != expected and not is_enough:
            return f"{sorted(imported.current)} instead of {newest} after the file {index + 1}"
    return None


def try_order(order: ImportOrder, folder: Path) -> str | None:
    """Return what an order ends with, if that is not the newest version."""
    folder.mkdir()
    return compare(order, walk(order, folder))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exports.orders", description=__doc__)
    parser.add_argument("--orders", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    os.environ["MEMORANDA_EMBEDDER"] = "off"
    count = 0
    for number in range(arguments.orders):
        order = make_order(random.Random(f"{arguments.seed} {number}"))
        with tempfile.TemporaryDirectory() as folder:
            difference = try_order(order, Path(folder) / "order")
        if difference is not None:
            count += 1
            print(f"DIFFERENCE in order {number}: {difference}; {order}", flush=True)
    print(f"{arguments.orders} orders: {count} end with another version than the newest")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

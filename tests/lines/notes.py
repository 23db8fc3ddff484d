"""A folder of notes that sequences keep in step with the store, and what people do to its files."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, Literal

from tests.lines.clients import Unavailable
from tests.lines.stage import Stage, words_in

Change = Literal["nothing", "edit", "delete", "rename", "copy"]
CHANGES: Final[tuple[Change, ...]] = ("nothing", "nothing", "edit", "delete", "rename", "copy")
TRASH: Final = ".trash"


class NoteFolder:
    """The folder, as it was synchronised last."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        # The number of the version that the note of each memory shows.
        self.shown: dict[int, int] = {}
        self._count = 0

    def sync(self, stage: Stage) -> None:
        """Bring folder and store in step, by the command line."""
        # Exit code 1: a conflict, or a file that cannot be synchronised.
        with contextlib.suppress(Unavailable):
            stage.command("sync", str(self.path))

    def find(self, word: str) -> Path | None:
        """Return the note with a word, or a copy of it that a person made."""
        return next((path for path in self._notes() if word in words_in(path.read_text())), None)

    def find_copy(self, word: str) -> Path | None:
        """Return a copy that a person made of the note with a word."""
        return next((path for path in self._notes() if _is_copy(path) and word in words_in(path.read_text())), None)

    def change(self, path: Path, change: Change, old: str, new: str) -> None:
        """Do something to a file; an edit replaces a word of the text."""
        self._count += 1
        if change == "edit":
            front, fence, text = path.read_text().rpartition("---\n")
            path.write_text(front + fence + text.replace(old, new))
        elif change == "delete":
            path.unlink()
        elif change == "rename":
            path.rename(path.with_name(f"renamed {self._count}.md"))
        elif change == "copy":
            path.with_name(f"copy {self._count}.markdown").write_bytes(path.read_bytes())

    def words(self, *, copies: bool) -> set[str]:
        """Return the words of the notes, or of the copies that a person made of them."""
        paths = (path for path in self._notes() if _is_copy(path) == copies)
        return set().union(*(words_in(path.read_text()) for path in paths))

    def discarded_words(self) -> set[str]:
        """Return the words in the trash and in the copies that conflicts left."""
        paths = [*self.path.glob(f"{TRASH}/*"), *self.path.glob("*.conflict*")]
        return set().union(*(words_in(path.read_text()) for path in paths))

    def _notes(self) -> list[Path]:
        paths = [*self.path.glob("*.md"), *self.path.glob("*.markdown")]
        # The copies come last: they follow the note.
        return sorted(
            (path for path in paths if ".conflict" not in path.name),
            key=lambda path: (_is_copy(path), path),
        )


def _is_copy(path: Path) -> bool:
    return path.suffix == ".markdown"

"""A vault of some hundred notes in the habits people have, made anew and always the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDERS: Final = ("", "", "Projects/", "Projects/Garden shed/", "Journal/2024/", "Menschen und Örte/", "人/")
WORDS: Final = (
    "water the tomatoes before noon and ask Ada about seeds pnpm builds faster than npm löschen 記憶 café".split()
)
TABLE: Final = "| plant | water |\n|---|---:|\n| tomato | 2 l |\n| bean   | 1 l |"
CODE: Final = "```python\n# not a #tag, [[not a link]]\nprint('---')\n```"


class Writer:
    """Texts, links and tags for notes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[str] = []

    def words(self, count: int) -> str:
        return " ".join(self.random.choices(WORDS, k=count))

    def link(self) -> str:
        target = self.random.choice(self.names) if self.names else "Nowhere"
        stem = target.rsplit("/", 1)[-1]
        return self.random.choice([f"[[{target}]]", f"[[{stem}|as they say]]", f"[[{stem}#Part]]", "[[Not there yet]]"])

    def body(self, number: int) -> str:
        parts = [f"# Note {number}", self.words(12), TABLE, CODE, f"- [ ] {self.words(4)} {self.link()}", "---"]
        parts += [f"{self.words(6)} #idea/{number % 7} {self.link()}", "![[photo.png]]", f"> {self.words(5)}  \n> end"]
        return f"Number {number}: {self.words(5)}\n\n" + "\n\n".join(self.random.sample(parts, 4))


def plain(writer: Writer, number: int) -> bytes:
    return (writer.body(number) + "\n").encode()


def no_newline(writer: Writer, number: int) -> bytes:
    return writer.body(number).encode()


def windows(writer: Writer, number: int) -> bytes:
    text = f"---\ntitle: Seed {number}\nrating: 5 # of 5\n---\n\n{writer.body(number)}\n\n"
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


def marked(writer: Writer, number: int) -> bytes:
    return "\ufeff".encode() + plain(writer, number)


def obsidian(writer: Writer, number: int) -> bytes:
    front = f"aliases:\n  - Old name {number}\ntags:\n  - garden\n  - '#year/2024' # mine\ncssclass: wide\n"
    return f"---\n{front}---\n{writer.body(number)}\n".encode()


def flow(writer: Writer, number: int) -> bytes:
    front = f"{{date: 2024-01-{number % 28 + 1:02}, tags: [a, 'b c',], up: \"[[Index]]\"}}"
    return f"---\n{front}\n---\n\n{writer.body(number)}\n".encode()


def commented(writer: Writer, number: int) -> bytes:
    front = f"# made by hand\nnumber: {number}   # own\n\nkind: procedural\ntags: garden, shed\n# the end\n"
    return f"---\n{front}---\n{writer.body(number)}\n\n\n".encode()


def zettel(writer: Writer, number: int) -> bytes:
    front = f"id: 2024{number:08}\nkind: zettel\ntitle: 'It''s {number}: a title'\nsource: >\n  folded\n  text\n"
    return f"--- \n{front}---\t\n\n\n{writer.body(number)}".encode()


def anchored(writer: Writer, number: int) -> bytes:
    front = f"base: &b {{x: {number}}}\nother: *b\n? [complex, key]\n: yes\ntag: one\nyear: 010\nanswer: NO\n"
    return f"---\n{front}---\n{writer.body(number)}\n".encode()


def broken(writer: Writer, number: int) -> bytes:
    return f"---\ntitle: Re: number {number}\ntags: [open\n---\n{writer.body(number)}\n".encode()


def rulers(writer: Writer, number: int) -> bytes:
    return f"---\n\nA ruler above, number {number}\n\n---\n\n{writer.body(number)}\n".encode()


def mixed(writer: Writer, number: int) -> bytes:
    return plain(writer, number).replace(b"\n", b"\r\n", 3)


def empty(_: Writer, number: int) -> bytes:
    return b"" if number % 2 else b"---\ntags: [stub]\n---\n"


HABITS: Final[tuple[Callable[[Writer, int], bytes], ...]] = (
    plain, no_newline, windows, marked, obsidian, flow, commented, zettel, anchored, broken, rulers, mixed, empty,
)  # fmt: skip


def make_vault(folder: Path, *, count: int, seed: int = 9) -> dict[str, bytes]:
    """Write a vault; its notes by path."""
    writer = Writer(seed)
    notes: dict[str, bytes] = {}
    for number in range(count):
        name = f"{writer.random.choice(FOLDERS)}Note {number} – {writer.words(2)}"
        notes[f"{name}.md"] = HABITS[number % len(HABITS)](writer, number)
        writer.names.append(name)
    attachments = {"photo.png": b"\x89PNG\r\n\x1a\n\0", "Projects/plan.canvas": b"{}", "notes.txt": b"not Markdown"}
    hidden = {".obsidian/app.json": b"{}", ".obsidian/templates/daily.md": b"# {{date}}", ".trash/old.md": b"gone"}
    for name, data in {**notes, **attachments, **hidden}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return notes


def bytes_in(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by path; without the marker of its synchronisation."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".memoranda-sync.json"
    }

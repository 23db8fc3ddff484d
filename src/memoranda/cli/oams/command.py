"""oams: memories of the Open Agent Memory Standard, in the store and in files."""

from __future__ import annotations

from memoranda.cli.commands import App, Group
from memoranda.cli.oams import files, verbs

oams = App(
    name="oams",
    about="Memories of OAMS: in the store, and in files.",
)
_BOTH = Group("In the store, or in a JSONL file", sort_key=0)
_STORE = Group("In the store", sort_key=1)
_FILES = Group("In files, without a store", sort_key=2)

for command in (verbs.recall, verbs.list_memories, verbs.get, verbs.namespaces):
    oams.command(command, name="list" if command is verbs.list_memories else None, group=_BOTH)
for stored in (verbs.store, verbs.forget):
    oams.command(stored, group=_STORE)
oams.command(files.validate, group=_FILES)

"""oams: memories of the Open Agent Memory Standard, in the store and in files."""

from __future__ import annotations

from cyclopts import App, Group, Parameter

from memoranda.cli.oams import files, verbs

oams = App(
    name="oams",
    help="Memories of OAMS: in the store, and in files.",
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable="", negative_bool="", show_default=False),
)
_BOTH = Group("In the store, or in a JSONL file", sort_key=0)
_STORE = Group("In the store", sort_key=1)
_FILES = Group("In files, without a store", sort_key=2)

for command in (verbs.recall, verbs.list_memories, verbs.get, verbs.namespaces):
    oams.command(command, name="list" if command is verbs.list_memories else None, group=_BOTH)
for stored in (verbs.store, verbs.forget):
    oams.command(stored, group=_STORE)
oams.command(files.validate, group=_FILES)

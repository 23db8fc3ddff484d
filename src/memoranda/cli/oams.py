"""oams: memories of the Open Agent Memory Standard, in the store and in files."""

from __future__ import annotations

from cyclopts import App, Group, Parameter

from memoranda.cli import oams_files, oams_verbs

oams = App(
    name="oams",
    help="Memories of OAMS: in the store, and in files.",
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable="", negative_bool="", show_default=False),
)
_BOTH = Group("In the store, or in a JSONL file", sort_key=0)
_STORE = Group("In the store", sort_key=1)
_FILES = Group("In files, without a store", sort_key=2)

for command in (oams_verbs.recall, oams_verbs.list_memories, oams_verbs.get, oams_verbs.namespaces):
    oams.command(command, name="list" if command is oams_verbs.list_memories else None, group=_BOTH)
for stored in (oams_verbs.store, oams_verbs.forget):
    oams.command(stored, group=_STORE)
oams.command(oams_files.validate, group=_FILES)

"""oms: memory grains, in files and in the store."""

from __future__ import annotations

from memoranda.cli.commands import App, Group
from memoranda.cli.oms import files, store

oms = App(
    name="oms",
    about="Memory grains (OMS): in the store, and in .mg files.",
)
_FILES = Group("In files, without a store", sort_key=0)
_STORE = Group("In the store", sort_key=1)

for command in (
    files.inspect,
    files.verify,
    files.pack,
    files.unpack,
    files.sign,
    files.disclose,
):
    oms.command(command, group=_FILES)
for stored in (
    store.put,
    store.get,
    store.find,
    store.supersede,
    store.verification,
    store.hold,
    store.erase,
    store.erase_user,
    store.consent,
    store.rotate_key,
):
    oms.command(stored, group=_STORE)

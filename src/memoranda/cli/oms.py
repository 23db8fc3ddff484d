"""oms: memory grains, in files and in the store."""

from __future__ import annotations

from cyclopts import App, Group, Parameter

from memoranda.cli import oms_files, oms_store

oms = App(
    name="oms",
    help="Memory grains (OMS): in the store, and in .mg files.",
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable="", negative_bool="", show_default=False),
)
_FILES = Group("In files, without a store", sort_key=0)
_STORE = Group("In the store", sort_key=1)

for command in (
    oms_files.inspect,
    oms_files.verify,
    oms_files.pack,
    oms_files.unpack,
    oms_files.sign,
    oms_files.disclose,
):
    oms.command(command, group=_FILES)
for stored in (
    oms_store.put,
    oms_store.get,
    oms_store.find,
    oms_store.supersede,
    oms_store.verification,
    oms_store.hold,
    oms_store.erase,
    oms_store.erase_user,
    oms_store.consent,
    oms_store.rotate_key,
):
    oms.command(stored, group=_STORE)

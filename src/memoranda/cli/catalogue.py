"""The catalogue of commands: the name of each, the function that runs it, and its line in the overview.

A target such as `memoranda.cli.browse:undo` names a module and a function in it. The catalogue imports none of these
modules, because `memoranda --help` needs only their names; `command_line.py` imports the module of the command that
runs, and `help.py` the modules of those it describes.

A new command needs a line here, and a function in a module of `cli/` with a docstring, which is its help. The summary
is an imperative sentence.
"""

from __future__ import annotations

import msgspec


class CommandEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and the commands below it, such as `add` below `key`."""

    name: str
    # The function as `module:function`; empty if only the commands below it can run.
    target: str
    # The line in the overview; for a command below another, help shows the first line of its docstring instead.
    summary: str = ""
    # Commands below it, under the headings that help shows.
    sections: tuple[Section, ...] = ()

    @property
    def below(self) -> dict[str, CommandEntry]:
        """The commands below it, by name."""
        return {entry.name: entry for section in self.sections for entry in section.entries}


class Section(msgspec.Struct, frozen=True):
    """A heading, and the commands listed under it."""

    title: str
    entries: tuple[CommandEntry, ...]


def _command(name: str, target: str, summary: str) -> CommandEntry:
    return CommandEntry(name=name, target=f"memoranda.cli.{target}", summary=summary)


def _below(title: str, module: str, functions: str) -> Section:
    """List commands below another: names of functions in one module, or NAME=FUNCTION where the two differ."""
    entries: list[CommandEntry] = []
    for word in functions.split():
        name, _, function = word.partition("=")
        entries.append(
            CommandEntry(
                name=name, target=f"memoranda.cli.{module}:{function or name.replace('-', '_')}"
            )
        )
    return Section(title, tuple(entries))


_OPENWOP_COMMITMENTS = "commitments=list_commitments cancel snooze"

_MEMORIES = Section(
    "Memories",
    (
        _command("remember", "remember:remember", "Remember a text."),
        _command("recall", "recall:recall", "Find the best memories for a question."),
        _command("search", "recall:recall", "Find the best memories (same as recall)."),
        _command("show", "memories:get", "Show one memory."),
        _command("get", "memories:get", "Show one memory (same as show)."),
        _command("revise", "remember:revise", "Write a new version of a memory."),
        _command("edit", "edit:edit", "Change the text of a memory in your editor."),
        _command("forget", "memories:forget", "Forget a memory, or erase it permanently."),
        _command(
            "suspicious", "screening:suspicious", "List memories that look like prompt injection."
        ),
        _command("redact", "screening:redact", "List likely secrets, or redact them permanently."),
        _command("history", "memories:history", "Show all versions of a memory."),
        _command("feedback", "memories:feedback", "Report how a recalled memory was used."),
        _command("list", "browse:list_memories", "List memories, last updated first."),
        _command("stats", "browse:stats", "Count memories by kind and project."),
        _command("undo", "browse:undo", "Undo the last action."),
        _command("redo", "browse:redo", "Do the action again that was undone last."),
        _command("rules", "config:rules", "Show or change your compliance presets and limits."),
        _command(
            "cal", "cal.command:cal", "Run a query in CAL, the query language, or open its prompt."
        ),
        CommandEntry(
            name="consolidate",
            target="memoranda.cli.consolidate:dream",
            summary="Combine related memories: preview the results, then write them.",
            sections=(_below("Commands", "consolidate", "refuse runs undo"),),
        ),
    ),
)

_AGENTS = Section(
    "Agents",
    (
        _command(
            "connect",
            "connect:connect",
            "Add Memoranda to the agents on this machine: Claude Code, Cursor, …",
        ),
        _command("disconnect", "connect:disconnect", "Remove Memoranda from them again."),
        _command("hook", "hook:hook", "Handle a session event; run by agents, not by people."),
        CommandEntry(
            name="openwop",
            target="",
            summary="Agent memory of openwop: entries, distillation, commitments.",
            sections=(
                _below("Entries", "openwop", "put list=list_entries get delete"),
                _below("Maintenance", "openwop", "compact distill schedules consolidate"),
                _below("Commitments", "openwop", _OPENWOP_COMMITMENTS),
            ),
        ),
        _command(
            "distill", "openwop:distill", "Summarise entries of openwop within a token budget."
        ),
        CommandEntry(
            name="commitments",
            target="memoranda.cli.openwop:list_commitments",
            summary="List, postpone or cancel commitments found in memories.",
            sections=(_below("Commands", "openwop", "cancel snooze"),),
        ),
        _command("learn", "learn:learn", "Propose what people stated in sessions."),
        CommandEntry(
            name="candidates",
            target="memoranda.cli.candidates:list_candidates",
            summary="Review what was learnt from sessions: accept or reject it.",
            sections=(_below("Commands", "candidates", "accept reject"),),
        ),
        CommandEntry(
            name="proposals",
            target="",
            summary="Review what agents propose to learn: apply or reject it.",
            sections=(
                _below(
                    "Commands",
                    "proposals",
                    "list=list_proposals show synthesise revise apply approve reject archive",
                ),
            ),
        ),
    ),
)

_FILES = Section(
    "Files",
    (
        _command("export", "export:export", "Write memories to a file or a folder."),
        _command(
            "import",
            "importing:import_files",
            "Read memories from files or folders into the store.",
        ),
        _command("verify", "verify:verify", "Check signatures of the whole store, or of files."),
        _command(
            "conformance",
            "conformance:conformance",
            "Check any server against the standards.",
        ),
        _command(
            "convert", "convert:convert", "Convert a file to another format, without a store."
        ),
        CommandEntry(
            name="oams",
            target="",
            summary="Memories of OAMS, in the store and in files.",
            sections=(
                _below(
                    "In the store, or in a JSONL file",
                    "oams.verbs",
                    "recall list=list_memories get namespaces store batch forget",
                ),
                _below("In files, without a store", "oams.files", "validate"),
            ),
        ),
        CommandEntry(
            name="oms",
            target="",
            summary="Memory grains (OMS), in the store and in .mg files.",
            sections=(
                Section(
                    "In files, without a store",
                    (
                        *_below("", "oms.files", "inspect verify pack unpack").entries,
                        *_below("", "oms.signing", "sign disclose").entries,
                    ),
                ),
                _below(
                    "In the store",
                    "oms.store",
                    "put get find supersede verification hold erase erase-user consent rotate-key",
                ),
            ),
        ),
        _command("backup", "backup:backup", "Write the whole store, with its keys, to one file."),
        _command("restore", "backup:restore", "Restore a store from a backup."),
        _command(
            "migrate-store",
            "backup:migrate_store",
            "Copy the store from SQLite to PostgreSQL, or back.",
        ),
        _command("sync", "folder:sync", "Keep a folder of Markdown files in step with the store."),
    ),
)

_SERVERS = Section(
    "Servers",
    (
        _command(
            "serve",
            "serve:serve",
            "Serve memories over HTTP, with MCP at /mcp and a console at /console/.",
        ),
        _command(
            "console",
            "console:console",
            "Print a link that signs a browser in to a running server.",
        ),
        _command("health", "health:health", "Check that a running server and its store answer."),
        _command(
            "mcp", "mcp:mcp", "Serve memories to one agent over MCP on standard input and output."
        ),
    ),
)

_ADMINISTRATION = Section(
    "Access and administration",
    (
        CommandEntry(
            name="key",
            target="",
            summary="API keys, and the operator's own key.",
            sections=(
                _below(
                    "Commands", "access", "show add list=list_keys rotate change revoke program"
                ),
            ),
        ),
        CommandEntry(
            name="token",
            target="",
            summary="Capability tokens.",
            sections=(_below("Commands", "access", "mint inspect revoke=revoke_token"),),
        ),
        CommandEntry(
            name="tenant",
            target="",
            summary="The owners of the store: list them, limit, export or delete one.",
            sections=(_below("Commands", "tenants", "list=list_tenants quota export delete"),),
        ),
        CommandEntry(
            name="config",
            target="memoranda.cli.config:show",
            summary="Show the settings in force and their origin, or change one.",
            sections=(_below("Commands", "config", "set=set_one unset"),),
        ),
        CommandEntry(
            name="audit",
            target="memoranda.cli.verify:audit",
            summary="Show who did what, and check that the record is complete.",
            sections=(_below("Commands", "verify", "prune"),),
        ),
        _command("doctor", "doctor:doctor", "Look for problems and say how to fix them."),
        _command("purge", "doctor:purge", "Erase memories past their retention period now."),
        _command("reindex", "doctor:reindex", "Rebuild the search index from the documents."),
        CommandEntry(
            name="models",
            target="memoranda.cli.models:show",
            summary="Embedding models for semantic search.",
            sections=(_below("Commands", "models", "list=list_models add verify embed drop"),),
        ),
        _command("completion", "completion:completion", "Print the completion script for a shell."),
        _command("help", "help:show_help", "List the commands, or show the help of one."),
        _command("version", "help:version", "Show the version."),
    ),
)

SECTIONS: tuple[Section, ...] = (_MEMORIES, _AGENTS, _FILES, _SERVERS, _ADMINISTRATION)

OPTIONS: tuple[tuple[str, str], ...] = (
    ("--data DIR", "the data directory (MEMORANDA_HOME; default: ~/.memoranda)"),
    (
        "--store URL",
        "the store, as sqlite:///PATH or postgresql://… (MEMORANDA_STORE; default: memoranda.db in --data)",
    ),
    ("--owner NAME", "the owner of the memories (MEMORANDA_OWNER; default: the operator's DID)"),
    ("--new-owner", "create the owner in --owner if the store does not have it"),
    ("--json", "answer in JSON on standard output, and write nothing else there"),
    ("--help, -h", "show this help, or the help of a command"),
    ("--version", "show the version"),
)


def overview() -> str:
    """Return the help of `memoranda` itself."""
    lines = [
        "Usage: memoranda COMMAND [OPTIONS]",
        "",
        "The memory of AI agents, kept by the people it belongs to.",
    ]
    for section in SECTIONS:
        lines += ["", f"{section.title}:"]
        lines += [f"  {entry.name:<13}  {entry.summary}" for entry in section.entries]
    lines += ["", "Options, before or after the command:"]
    lines += [f"  {flag:<13}  {meaning}" for flag, meaning in OPTIONS]
    lines += ["", "Help for one command: memoranda help COMMAND"]
    return "\n".join(lines) + "\n"

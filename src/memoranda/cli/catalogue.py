"""Every command: its name, where it lives and what it is for. Light, because `memoranda --help` reads only this."""

from __future__ import annotations

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One command."""

    name: str
    target: str
    summary: str


class Section(msgspec.Struct, frozen=True):
    """Commands that belong together."""

    title: str
    entries: tuple[Entry, ...]


def _entries(module: str, *commands: tuple[str, str, str]) -> tuple[Entry, ...]:
    return tuple(Entry(name, f"memoranda.cli.{module}:{target}", summary) for name, target, summary in commands)


SECTIONS: tuple[Section, ...] = (
    Section(
        "Memories",
        (
            *_entries(
                "memories",
                ("remember", "remember", "Remember a text."),
                ("recall", "recall", "Find the best memories for a question."),
                ("show", "get", "Show one memory."),
                ("get", "get", "The same as show."),
                ("revise", "revise", "Write a new version of a memory."),
                ("edit", "edit", "Change the text of a memory in your editor."),
                ("forget", "forget", "Forget a memory, or erase it for good."),
                ("suspicious", "suspicious", "List memories that read as if they gave orders to a model."),
                ("redact", "redact", "List memories that look like secrets, or take the secret out of one."),
                ("history", "history", "Show all versions of a memory."),
                ("feedback", "feedback", "Say what became of a recalled memory."),
            ),
            *_entries(
                "browse",
                ("list", "list_memories", "Show the latest memories."),
                ("stats", "stats", "Show how much is remembered, of what kind and where."),
                ("undo", "undo", "Take back the last change."),
            ),
            *_entries("rules", ("rules", "rules", "Show or change what holds for your memory: presets and limits.")),
            *_entries("cal.command", ("cal", "cal", "Ask in CAL, the query language of memory, or at its prompt.")),
            *_entries(
                "consolidate",
                ("consolidate", "consolidate", "Show what memories come to together, and write it down."),
            ),
        ),
    ),
    Section(
        "Agents",
        (
            *_entries(
                "connect",
                ("connect", "connect", "Add the memory to the agents on this machine: Claude Code, Cursor, Codex …"),
                ("disconnect", "disconnect", "Take the memory out of them again."),
            ),
            *_entries("hook", ("hook", "hook", "What a host runs when a session begins or ends.")),
            *_entries(
                "openwop",
                ("openwop", "openwop", "Agent memory of openwop: entries, distillation, commitments."),
                ("distill", "distill", "Make an archive of memories within a budget of tokens."),
                ("commitments", "commitments", "What was promised in memories, and when it is due."),
                ("proposals", "proposals", "What agents propose to learn: apply it, or refuse it."),
            ),
        ),
    ),
    Section(
        "Files",
        (
            *_entries(
                "exchange",
                ("export", "export", "Write memories to a file or a folder."),
                ("import", "import_files", "Take memories in from files or folders."),
                ("verify", "verify", "Check signatures: of the whole store, or of files."),
            ),
            *_entries("convert", ("convert", "convert", "Write a file in another form, without a store.")),
            *_entries("oams.command", ("oams", "oams", "Memories of OAMS: in the store, and in files.")),
            *_entries("oms.command", ("oms", "oms", "Memory grains (OMS): in the store, and in .mg files.")),
            *_entries(
                "backup",
                ("backup", "backup", "Write the whole store, with its keys, to one file."),
                ("restore", "restore", "Put a store back from a backup."),
            ),
            *_entries(
                "migrate_store",
                ("migrate-store", "migrate_store", "Move the whole store from SQLite to PostgreSQL, or back."),
            ),
            *_entries("folder", ("sync", "sync", "Keep a folder of Markdown files and the store the same.")),
        ),
    ),
    Section(
        "Servers",
        (
            *_entries(
                "serve",
                ("serve", "serve", "Serve the memories over HTTP, with MCP at /mcp and pages at /console/."),
                ("console", "console", "Print a link that signs a browser in to a running server."),
            ),
            *_entries("health", ("health", "health", "Ask a running server whether it and its store answer.")),
            *_entries("mcp", ("mcp", "mcp", "Serve the memories to one agent over MCP on standard input and output.")),
        ),
    ),
    Section(
        "Access and care",
        (
            *_entries(
                "access",
                ("key", "key", "API keys, and the operator's own key."),
                ("token", "token", "Capability tokens."),
            ),
            *_entries(
                "config", ("config", "config", "Show the settings in force, and where each comes from; set one.")
            ),
            *_entries("audit", ("audit", "audit", "Show who did what, and check that nothing is missing.")),
            *_entries(
                "doctor",
                ("doctor", "doctor", "Look for what is wrong and say how to mend it."),
                ("purge", "purge", "Erase now what is past its retention."),
                ("reindex", "reindex", "Make the word index anew from the documents."),
            ),
            *_entries("models", ("models", "models", "Models that tell what texts mean.")),
            *_entries("completion", ("completion", "completion", "Print the completion script for a shell.")),
        ),
    ),
)

OPTIONS: tuple[tuple[str, str], ...] = (
    ("--data DIR", "the data directory (MEMORANDA_HOME; by default ~/.memoranda)"),
    (
        "--store URL",
        "the store, as sqlite:///PATH or postgresql://… (MEMORANDA_STORE; by default memoranda.db in --data)",
    ),
    ("--owner NAME", "whose memory it is (MEMORANDA_OWNER; by default the operator's DID)"),
    ("--json", "answer in JSON on standard output, and write nothing else there"),
    ("--help, -h", "show this, or the help of a command"),
    ("--version", "show the version"),
)


def overview() -> str:
    """The help of `memoranda` itself."""
    lines = ["Usage: memoranda COMMAND [OPTIONS]", "", "The memory of AI agents, kept by the people it belongs to."]
    for section in SECTIONS:
        lines += ["", f"{section.title}:"]
        lines += [f"  {entry.name:<12}  {entry.summary}" for entry in section.entries]
    lines += ["", "Options, before or after the command:"]
    lines += [f"  {flag:<12}  {meaning}" for flag, meaning in OPTIONS]
    lines += ["", "More about a command: memoranda COMMAND --help"]
    return "\n".join(lines) + "\n"

"""The command-line reference, docs/reference/cli.md, generated from the commands.

    python -m memoranda.cli.reference > docs/reference/cli.md

A test compares the page with the output.
"""

from __future__ import annotations

from memoranda.cli.catalogue import OPTIONS
from memoranda.cli.command_line import load_command
from memoranda.cli.help import HelpPage, argument_text, first_line, help_text, option_text, pages

_HEAD = """\
# The command line

<!-- Written by `python -m memoranda.cli.reference`; edit the commands instead. -->

For people at a terminal, and for scripts.

Each command calls the library once. These options can stand before or after the command:

{options}

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused, not found, or not verified |
| 2 | wrong usage |
| 130 | interrupted |
| 141 | output pipe closed |

An error is one sentence on standard error; an error in a query also shows its line and column and a suggestion. With
`--json`, standard output also has `{{"error": {{"code": …, "message": …}}}}`.
"""


def reference() -> str:
    """Return the whole page."""
    options = "\n".join(f"- `{flag}`: {meaning}" for flag, meaning in OPTIONS)
    return "\n".join([_HEAD.format(options=options), *map(_part, pages())])


def _part(page: HelpPage) -> str:
    """Return the part about one command, in Markdown."""
    lines = [f"{'##' if len(page.path) == 1 else '###'} memoranda {' '.join(page.path)}", ""]
    lines += ["```console", page.usage, "```", "", page.about, ""]
    for section in page.sections:
        rows = [f"* `{entry.name}`: {first_line(load_command(entry))}" for entry in section.entries]
        lines += [f"**{section.title}**:", "", *rows, ""]
    for title, slots, name_of in (
        ("Arguments", page.arguments, argument_text),
        ("Options", page.options, option_text),
    ):
        if slots:
            lines += [
                f"**{title}**:",
                "",
                *(f"* `{name_of(slot)}`: {help_text(slot)}" for slot in slots),
                "",
            ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference(), end="")

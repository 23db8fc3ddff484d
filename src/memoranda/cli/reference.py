"""The command-line reference, docs/reference/cli.md, from the commands themselves.

    python -m memoranda.cli.reference > docs/reference/cli.md

A test compares the two.
"""

from __future__ import annotations

from memoranda.cli.catalogue import OPTIONS
from memoranda.cli.help import Page, argument_text, first_line, grouped, help_text, option_text, pages

_HEAD = """\
# The command line

<!-- Written by `python -m memoranda.cli.reference`; edit the commands instead. -->

Every command is one call of the library. These options can stand before or after the command:

{options}

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused, not found, or not verified |
| 2 | wrong usage |
| 130 | interrupted |
| 141 | the reader of the output closed it |

An error is one sentence on standard error; one in a query has its place and a suggestion below it. With `--json` it
is also `{{"error": {{"code": …, "message": …}}}}` on standard output.
"""


def reference() -> str:
    """Return the whole page."""
    options = "\n".join(f"- `{flag}`: {meaning}" for flag, meaning in OPTIONS)
    return "\n".join([_HEAD.format(options=options), *map(_part, pages())])


def _part(page: Page) -> str:
    """Return the part about one command, in Markdown."""
    lines = [f"{'##' if len(page.path) == 1 else '###'} memoranda {' '.join(page.path)}", ""]
    lines += ["```console", page.usage, "```", "", page.about, ""]
    for title, commands in grouped(page.commands):
        lines += [f"**{title}**:", "", *(f"* `{name}`: {first_line(below)}" for name, below in commands), ""]
    for title, slots, name_of in (("Arguments", page.arguments, argument_text), ("Options", page.options, option_text)):
        if slots:
            lines += [f"**{title}**:", "", *(f"* `{name_of(slot)}`: {help_text(slot)}" for slot in slots), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference(), end="")

"""completion: print the script that lets a shell complete commands, options and listed values.

The scripts are generated from the same help pages as `help`, so a new command or option appears in them without a
change here. A script contains all words and calls no program while the person types, which keeps it fast; values that
depend on the store are not completed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from memoranda.cli.catalogue import OPTIONS
from memoranda.cli.help import HelpPage, first_line, pages
from memoranda.cli.run import GivenRun, Parameter

Shell = Literal["bash", "zsh", "fish", "powershell"]
_SHARED: Final = tuple(flag.split()[0].rstrip(",") for flag, _ in OPTIONS)

# Behind the name of a command, its options and the commands below it are completed; behind an option with listed
# values, those values; anywhere else, file names.
_BASH: Final = """\
_memoranda() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{names}
    esac
  done
  case "$path $previous" in
{values}
  esac
  local words
  case "$path" in
{words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _memoranda memoranda
"""
_ZSH: Final = """\
#compdef memoranda
autoload -U +X bashcompinit && bashcompinit
"""
_POWERSHELL: Final = """\
Register-ArgumentCompleter -Native -CommandName memoranda -ScriptBlock {{
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @{{
{words}
  }}
  $path = ""
  foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {{
    $next = ("$path " + $element.Extent.Text).Trim()
    if ($words.ContainsKey($next)) {{ $path = $next }}
  }}
  $words[$path] | Where-Object {{ $_ -like "$wordToComplete*" }} |
    ForEach-Object {{ [System.Management.Automation.CompletionResult]::new($_, $_, "ParameterValue", $_) }}
}}
"""


def script_for(shell: str) -> str:
    """Return the completion script for a shell."""
    all_pages = list(pages())
    if shell == "fish":
        return "\n".join(_fish_lines(all_pages)) + "\n"
    if shell == "powershell":
        tables = "\n".join(
            f'    "{path}" = @({", ".join(map(_quoted, words))})'
            for path, words in _words(all_pages)
        )
        return _POWERSHELL.format(words=tables)
    script = _BASH.format(
        names="\n".join(f'      " {path}") path="{path}" ;;' for path in _paths(all_pages, depth=1))
        + "\n"
        + "\n".join(f'      "{path}") path="{path}" ;;' for path in _paths(all_pages, depth=2)),
        values="\n".join(_bash_values(all_pages)),
        words="\n".join(
            f'    "{path}") words="{" ".join(words)}" ;;' for path, words in _words(all_pages)
        ),
    )
    return script if shell == "bash" else _ZSH + script


def _paths(all_pages: list[HelpPage], *, depth: int) -> list[str]:
    """Return the names of commands of one depth: 1 for `key`, 2 for `key add`."""
    return [" ".join(page.path) for page in all_pages if len(page.path) == depth]


def _words(all_pages: list[HelpPage]) -> Iterator[tuple[str, list[str]]]:
    """Yield each command, first the empty one, with the words that may follow it."""
    yield "", [*_paths(all_pages, depth=1), *_SHARED]
    for page in all_pages:
        options = [name for slot in page.options for name in (*slot.options, slot.negative) if name]
        choices = [choice for slot in page.arguments for choice in slot.choices]
        commands = [entry.name for section in page.sections for entry in section.entries]
        yield " ".join(page.path), [*commands, *choices, *options, *_SHARED]


def _bash_values(all_pages: list[HelpPage]) -> Iterator[str]:
    """Yield a case of the script for each option with listed values."""
    for page in all_pages:
        for slot in page.options:
            for name in slot.options if slot.choices else ():
                reply = f'COMPREPLY=($(compgen -W "{" ".join(slot.choices)}" -- "$current"))'
                yield f'    "{" ".join(page.path)} {name}") {reply}; return ;;'


def _fish_lines(all_pages: list[HelpPage]) -> Iterator[str]:
    """Yield a `complete` line for each command and each option."""
    for page in all_pages:
        *parents, name = page.path
        if parents:
            outer = f"__fish_seen_subcommand_from {parents[0]}"
            yield f"complete -c memoranda -n {_quoted(outer)} -a {name} -d {_quoted(_summary(page))}"
            condition = (
                f"__fish_seen_subcommand_from {parents[0]}; and __fish_seen_subcommand_from {name}"
            )
        else:
            yield f"complete -c memoranda -n __fish_use_subcommand -a {name} -d {_quoted(_summary(page))}"
            condition = f"__fish_seen_subcommand_from {name}"
        for slot in page.options:
            needs_value = "" if slot.is_flag else " -r"
            values = f" -x -a {_quoted(' '.join(slot.choices))}" if slot.choices else needs_value
            for option in filter(None, (*slot.options, slot.negative)):
                flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                yield f"complete -c memoranda -n {_quoted(condition)} {flag}{values} -d {_quoted(slot.help)}"


def _summary(page: HelpPage) -> str:
    return page.summary or (first_line(page.function) if page.function is not None else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'


def completion(
    shell: Annotated[Shell, Parameter(help="The shell.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Print the completion script for a shell.

    For bash: memoranda completion bash > ~/.local/share/bash-completion/completions/memoranda
    """
    script = script_for(shell)
    run.answer({"script": script}, lambda: print(script))

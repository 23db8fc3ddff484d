"""completion: print the script that lets a shell complete commands, options and listed values."""

from __future__ import annotations

from typing import Annotated, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.completion_scripts import script_for
from memoranda.cli.run import GivenRun

Shell = Literal["bash", "zsh", "fish", "powershell"]


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

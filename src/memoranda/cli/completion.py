"""completion: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Parameter(help="The shell.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Print the completion script for a shell.

    For bash: memoranda completion bash > ~/.local/share/bash-completion/completions/memoranda
    """
    from memoranda.cli.parser import command_line

    script = command_line().generate_completion(shell=shell)
    run.answer({"script": script}, lambda: print(script))

"""`kedge completion`: a script for a shell that completes kedge's commands, options and their values.

The script calls `kedge` at each press of the key; Typer makes the answer.
"""

from enum import StrEnum
from typing import Annotated, Final

import typer

from topology.cli.output import terminal

EXAMPLES: Final = (
    ('eval "$(kedge completion bash)"', "for bash: a line in ~/.bashrc"),
    ('eval "$(kedge completion zsh)"', "for zsh: a line in ~/.zshrc, after compinit"),
    ("kedge completion fish > ~/.config/fish/completions/kedge.fish", "for fish: once"),
)


class Shell(StrEnum):
    """The shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print the script that makes your shell complete kedge."""
    from importlib import import_module

    from topology.cli.main import COMPLETING

    script = import_module("typer.completion").get_completion_script
    terminal.put(script(prog_name="kedge", complete_var=COMPLETING, shell=shell.value))

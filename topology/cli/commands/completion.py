"""`kedge completion`: a script that teaches a shell to complete kedge's commands, options and their values.

The script asks `kedge` itself at each press of the key; what it answers is Typer's.
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
    """Those that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print the script that has your shell complete kedge."""
    from importlib import import_module

    from topology.cli.main import COMPLETING

    script = import_module("typer.completion").get_completion_script
    terminal.put(script(prog_name="kedge", complete_var=COMPLETING, shell=shell.value))

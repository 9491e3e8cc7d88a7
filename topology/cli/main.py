"""The command line: which commands there are, and how every error ends: one clear sentence and an exit status.

    0  no message ended dead, and nothing was aborted        2  usage, declaration or configuration
    1  otherwise                                             3  could not start for another reason

Imports are lazy: the first line is there before the runtime and the user's own modules are. Other packages add commands
by entry points of the group `kedge.commands`: NAME = "module:function", a function as Typer takes it.
"""

import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.core
import typer.main

from topology.cli import terminal
from topology.version import version

INTERRUPTED: Final = 130  # what Typer makes of a KeyboardInterrupt
COMMANDS: Final = ("run", "check")  # of ours, in the order of the help: a module each, with a function of its name
GROUP: Final = "kedge.commands"


class Commands(typer.core.TyperGroup):
    """Ours, and those of entry points, which are looked for where ours are not enough: it takes a while."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *(name for name in _entry_points() if name not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            function = getattr(import_module(f"topology.cli.commands.{cmd_name}"), cmd_name)
        elif (entry := _entry_points().get(cmd_name)) is not None:
            function = entry.load()
        else:
            return None
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        one.command(cmd_name, context_settings=SETTINGS)(function)
        return typer.main.get_command(one)


SETTINGS: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="kedge",
    cls=Commands,
    help="Runs topologies: every tuple acked, every alert within milliseconds.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=GROUP)}


def _print_version(wanted: bool) -> None:
    if wanted:
        terminal.put(f"kedge {version()}")
        raise typer.Exit


@app.callback(invoke_without_command=False)
def kedge(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs topologies: every tuple acked, every alert within milliseconds."""


def main() -> None:
    """The command. Ends the process with its exit status."""
    sys.exit(status_of(sys.argv[1:]))


def status_of(arguments: list[str]) -> int:
    """Runs one command line and tells errors. Returns the exit status."""
    try:
        status = int(app(arguments or ["--help"], prog_name="kedge", standalone_mode=False) or 0)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return status
    except (Exception, KeyboardInterrupt) as error:
        from topology.cli.telling import told

        return told(error, debug="--debug" in arguments)

"""The command line: the list of commands, and the end of every error: one clear sentence and an exit status.

    0  no message ended dead, and nothing was aborted        2  usage, declaration or configuration
    1  otherwise                                             3  could not start for another reason

Imports are lazy, so that the first line is printed before the runtime and the user's own modules are imported. Other
packages add commands by entry points of the group `kedge.commands`: NAME = "module:function", with a function that
Typer accepts. The function's module may have EXAMPLES, pairs of ("command line", "purpose"), which end the help.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Annotated, Any, Final, cast

import typer
import typer.core
import typer.main

from topology.cli.command import Command, parsed
from topology.cli.options import json_asked_for
from topology.cli.output import terminal
from topology.cli.usage import USAGE_ERROR
from topology.codes.command_line import BROKEN_PLUGIN_COMMAND
from topology.core import CORE, REASON
from topology.errors import ConfigurationError, did_you_mean
from topology.text import printable
from topology.version import version

INTERRUPTED: Final = 130  # exit status that Typer makes of a KeyboardInterrupt
COMMANDS: Final = (
    "new",
    "run",
    "stop",
    "dead",
    "state",
    "check",
    "graph",
    "explain",
    "completion",
)  # in the order of the help; each is a module with a function of that name
WITH_ACTS: Final = frozenset({"dead", "state"})  # commands that have subcommands: ACTS of their module
STARTS: Final = frozenset(
    {"run"}
)  # commands that start companions: the function takes the companions' options as **beside
GROUP: Final = "kedge.commands"
COMPLETING: Final = "_KEDGE_COMPLETE"  # set by the script of `kedge completion`; Typer's name for it
SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
ABOUT: Final = "Runs topologies: acks every tuple, and replays those that fail."
EPILOG: Final = (
    "kedge COMMAND --help explains a command. Environment variables can set options too. The command line overrides "
    "the environment, and the environment overrides the topology's own settings."
)


class Commands(typer.core.TyperGroup):
    """Kedge's commands, and those of entry points. The slow search for entry points runs only for unknown names."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *(name for name in _entry_points() if name not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            module = import_module(f"topology.cli.commands.{cmd_name}")
            acts = getattr(module, "ACTS", None)
            if acts is not None:
                return _group(module, cmd_name, acts)
            return _command(cmd_name, _whole(cmd_name, getattr(module, cmd_name)))
        entry = _entry_points().get(cmd_name)
        if entry is None:
            return None
        try:
            return _command(cmd_name, entry.load())
        except Exception as error:  # a broken package must not hide the other commands
            return _command(cmd_name, _unusable(cmd_name, entry.value, error))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return parsed(super().parse_args, ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = did_you_mean(args[0], self.list_commands(ctx))
            if args[0].endswith(".py"):
                near = f"; did you mean kedge run {printable(args[0])}?"
            ctx.fail(f"there is no command {args[0]!r:.80}{near}")
        return super().resolve_command(ctx, args)


def _whole(name: str, function: Any) -> Any:
    """Return the function with the companions' options of packages, if the command starts companions."""
    if name not in STARTS:
        return function
    from topology.cli.companion_options import with_options

    return with_options(function)


def _command(name: str, function: Any) -> Any:
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    one.command(name, cls=Command, context_settings=SETTINGS)(function)
    made = typer.main.get_command(one)
    if isinstance(made, Command):
        made.examples = getattr(sys.modules.get(function.__module__), "EXAMPLES", ())
    return made


class Acts(Commands):
    """A command with subcommands: `acts`, one function each."""

    acts: Mapping[str, Any] = MappingProxyType({})
    examples: tuple[tuple[str, str], ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.acts]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.acts:
            return None
        made = _command(cmd_name, self.acts[cmd_name])
        made.examples = tuple(pair for pair in self.examples if pair[0].startswith(f"kedge {self.name} {cmd_name}"))
        return made


def _group(module: ModuleType, name: str, acts: Mapping[str, Any]) -> Acts:
    one = typer.Typer(cls=Acts, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    one.callback(cls=Acts, context_settings=SETTINGS)(getattr(module, name))
    made: Any = typer.main.get_command(one)
    made.name, made.acts, made.examples = name, acts, getattr(module, "EXAMPLES", ())
    return cast("Acts", made)


def _unusable(name: str, where: str, error: Exception) -> Any:
    def unusable() -> None:
        text = f"the command {name!r}, {where}, can't be loaded: {type(error).__name__}: {error}"
        raise ConfigurationError(text, code=BROKEN_PLUGIN_COMMAND)

    unusable.__doc__ = f"(can't be loaded: {type(error).__name__})"
    return unusable


app = typer.Typer(
    name="kedge",
    cls=Commands,
    help=ABOUT,
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _print_version(wanted: bool) -> None:
    if wanted:
        python = ".".join(map(str, sys.version_info[:3]))
        system = " ".join((os.uname().sysname, os.uname().machine)) if hasattr(os, "uname") else sys.platform
        core = f"{CORE} core" + (f": {REASON}" if REASON else "")
        terminal.put(f"kedge {version()} (Python {python}, {system}, {core})")
        raise typer.Exit


@app.callback(invoke_without_command=False)
def kedge(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Runs topologies: acks every tuple, and replays those that fail."""


def main() -> None:
    """Run the command `kedge`. Ends the process with its exit status."""
    sys.exit(status_of(sys.argv[1:]))


def status_of(arguments: list[str]) -> int:
    """Run one command line and print errors. Return the exit status."""
    if COMPLETING in os.environ:
        import_module("typer.completion").completion_init()
    if json_asked_for(arguments, os.environ):
        from topology.cli.output.log import speak_json

        speak_json()
    try:
        status = int(app(_meant(arguments), prog_name="kedge", standalone_mode=False) or 0)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return status
    except (Exception, KeyboardInterrupt) as error:
        from topology.cli.errors import print_error

        return print_error(error, debug="--debug" in arguments or os.environ.get("KEDGE_DEBUG", "0") not in ("", "0"))


def _meant(arguments: list[str]) -> list[str]:
    """Return the arguments, with --help for `kedge`, `kedge dead`, `kedge state` and `kedge help`, as in git."""
    if not arguments or (len(arguments) == 1 and arguments[0] in WITH_ACTS):
        return [*arguments, "--help"]
    if arguments[0] != "help":
        return arguments
    about = [word for word in arguments[1:] if word not in (*SETTINGS["help_option_names"], "help")]
    if len(about) > (2 if WITH_ACTS.intersection(about[:1]) else 1):
        raise USAGE_ERROR(f"kedge help takes one command and no more, not {shlex.join(about)!r:.80}")
    return [*about, "--help"]

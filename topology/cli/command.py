"""The base of every command, also of those from entry points: options from the environment, and help by groups.

The variable KEDGE_SOME_NAME can set each option `--some-name`; several values are quoted there as in a shell. The
command line overrides the environment. Must not know any one command.
"""

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import typer
import typer.core

from topology.cli.output import terminal
from topology.cli.usage import USAGE_ERROR, extra, note_value
from topology.config import Config
from topology.errors import did_you_mean
from topology.text import printable

PREFIX: Final = "KEDGE_"
# Variables without an option: `make run` requests hints with the first two, the third starts Spark without its archive,
# and tests find their server with the last.
INTERNAL: Final = frozenset({"KEDGE_CORE", "KEDGE_HINT", "KEDGE_NEXT", "KEDGE_NO_SPARK_CACHE", "KEDGE_TEST_POSTGRES"})
NO_VARIABLE: Final = frozenset(  # options without a variable: they make sense only if typed, or a setting has one
    {"--help", "--version", "--all", "--now", "--check-types", "--from", "--list", "--delete"}
)
COLUMN_MAX: Final = 22  # characters of a help's left column; a longer name gets its own line

_given_as: ContextVar[Mapping[str, str]] = ContextVar("_given_as", default=MappingProxyType({}))


def given_as(option: str) -> str:
    """Return the name that the user used for this option: its variable if the value comes from there."""
    return _given_as.get().get(option, option)


class Command(typer.core.TyperCommand):
    """A command whose options can be set by variables. `examples`: pairs of a command line and its purpose."""

    examples: tuple[tuple[str, str], ...] = ()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            note_value(parameter)
            if options := _long(parameter):
                _take_from_environment(parameter, options)

    def variables(self) -> dict[str, Any]:
        """Return variable → the option that it sets."""
        return {option.envvar: option for option in self.params if isinstance(option.envvar, str) and _long(option)}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        further, ctx.allow_extra_args = ctx.allow_extra_args, True
        left = parsed(super().parse_args, ctx, args)
        if left and not further and not ctx.resilient_parsing:
            raise extra(ctx, left)
        return left

    def invoke(self, ctx: Any) -> Any:
        _given_as.set(
            {
                name: option.envvar
                for option in self.params
                if isinstance(option.envvar, str) and getattr(option, "from_environment", False)
                for name in option.opts
            }
        )
        for line in unknown_variables(os.environ, {*self.variables()}, partial(_everywhere, ctx)):
            terminal.say(f"warning: {line}", level="warning")
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_argument(each) for each in self.params if each.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by groups in the order of declaration; --help ends the last group."""
        arguments = [
            (_called(each), getattr(each, "help", None) or "")
            for each in self.params
            if each.param_type_name == "argument"
        ]
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": arguments}
        group = "Options"
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx) if each.param_type_name == "option" else None
            if record is not None:
                group = getattr(each, "rich_help_panel", None) or (group if "--help" in each.opts else "Options")
                groups.setdefault(group, []).append((record[0], record[1].replace("[env var: ", "[")))
        width = min(max(len(names) for records in groups.values() for names, _ in records), COLUMN_MAX)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl([(names.ljust(width), text) for names, text in records], col_max=COLUMN_MAX)
        if self.variables():
            formatter.write_paragraph()
            formatter.write_text("The name in brackets is an environment variable that sets the option.")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line, purpose in self.examples:
                    formatter.write(f"  {line}\n")
                    with formatter.indentation(), formatter.indentation():
                        formatter.write_text(purpose)
        super().format_epilog(ctx, formatter)


def parsed(parse: Any, ctx: Any, args: list[str]) -> list[str]:
    """Return the words that are left. Sets the context of errors, which Typer leaves out of some."""
    try:
        return list(parse(ctx, args))
    except USAGE_ERROR as error:
        error.ctx = error.ctx or ctx
        raise


def _called(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _argument(argument: Any) -> str:
    """Return an argument in the form of the usage line."""
    return _called(argument) if argument.required else f"[{_called(argument)}]"


def _long(parameter: Any) -> list[str]:
    """Return the option's names that may have a variable; none for an argument."""
    if parameter.param_type_name != "option":
        return []
    return [name for name in parameter.opts if name.startswith("--") and name not in NO_VARIABLE]


def _take_from_environment(option: Any, names: list[str]) -> None:
    """Give the option its variable, which errors name if the variable's value is invalid."""
    if option.envvar is None:
        option.envvar = PREFIX + names[0].removeprefix("--").replace("-", "_").upper()
    option.show_envvar = True
    option.from_environment = False
    look = option.value_from_envvar

    def value(ctx: Any) -> Any:
        found = look(ctx) if not option.multiple else _words(option, ctx)
        option.from_environment = found is not None
        return found

    option.value_from_envvar = value


def _words(option: Any, ctx: Any) -> list[str] | None:
    """Return the values of one variable, quoted as in a shell."""
    text = option.resolve_envvar_value(ctx)
    if text is None:
        return None
    try:
        return shlex.split(text)
    except ValueError as error:
        option.from_environment = True
        raise typer.BadParameter(
            f"{printable(text)!r} is not quoted as in a shell: {str(error).lower()}", ctx=ctx, param=option
        ) from None


def _everywhere(ctx: Any) -> Iterator[str]:
    """Yield the variables of all commands."""
    if ctx.parent is not None:
        top = ctx.find_root()
        yield from _of_group(top.command, top)


def _of_group(group: Any, ctx: Any) -> Iterator[str]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, Command):
            yield from command.variables()
        elif isinstance(command, typer.core.TyperGroup):
            yield from _of_group(command, ctx)


def unknown_variables(environment: Collection[str], known: Collection[str], others: Any) -> list[str]:
    """Return a sentence for each KEDGE_ variable that no option or setting has. `others` returns further known
    variables. It is slow, so it is called only if a variable is not in `known`, INTERNAL or the settings."""
    ours = {*known, *INTERNAL, *(PREFIX + field.name.upper() for field in fields(Config))}
    strange = sorted(name for name in environment if name.startswith(PREFIX) and name not in ours)
    if not strange:
        return []
    ours.update(others())
    return [
        f"{printable(name)} is in the environment, but no option or setting has this name{did_you_mean(name, ours)}"
        for name in strange
        if name not in ours
    ]

"""Options of `kedge run` that packages define for their companions; see `topology.companions`.

Knows options, entry points and the interface of a companion. Must not know any one companion, nor how it runs.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer
from typer.models import OptionInfo

from topology.cli.command import given_as
from topology.cli.options import RUN_GROUP
from topology.cli.output import terminal
from topology.codes.command_line import OPTION_WITHOUT_COMPANION
from topology.companions import Option
from topology.errors import ConfigurationError

if TYPE_CHECKING:
    from topology.graph import Graph

GROUP: Final = "kedge.companions"

Given = Mapping[str, str | list[str] | None]  # parameter of an option → its value on the command line


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command's function with a parameter per companion option, in place of its `**beside`."""
    signature = inspect.signature(function, eval_str=True)
    all_of_them = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    ]
    after = max(index for index, parameter in enumerate(all_of_them) if _panel(parameter.annotation) == RUN_GROUP) + 1
    all_of_them[after:after] = [
        inspect.Parameter(name, all_of_them[after].kind, default=None, annotation=_annotation(option))
        for name, (_, option) in options().items()
        if name not in [parameter.name for parameter in all_of_them]
    ]

    @functools.wraps(function)
    def command(*given: Any, **by_name: Any) -> None:
        function(*given, **by_name)

    command.__signature__ = signature.replace(parameters=all_of_them)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in all_of_them}
    return command


def configure(topology: "Graph", given: Given) -> None:
    """Pass each given option to its companion. Raise ConfigurationError if the topology has no such companion, and
    any error that the companion raises."""
    from topology.cli.redact import hide, warn_of
    from topology.loading.settings import looked_up, pairs, shown_settings

    for name, value in given.items():
        if not value:
            continue
        companion, option = options()[name]
        called = given_as(option.name)
        receiver = next((receiver for receiver in topology.companions if receiver.name == companion), None)
        if receiver is None:
            text = f"{called} is for topologies with the companion {companion!r}, and {topology.name} has none"
            raise ConfigurationError(text, code=OPTION_WITHOUT_COMPANION)
        if isinstance(value, list):
            listed = pairs(value, called)
            hide(shown_settings(listed))
            if called == option.name:  # else it is in the environment, which other users cannot read
                warn_of(shown_settings(listed), called)
            receiver.configure(option.name, looked_up(listed, called), called)
        else:
            receiver.configure(option.name, value, called)


@cache
def options() -> dict[str, tuple[str, Option]]:
    """Return all installed options: name of a parameter → the companion's name and the option.

    If the module of a package can't be imported, a warning says so and its options are missing: one broken package must
    not keep other topologies from running.
    """
    found: dict[str, tuple[str, Option]] = {}
    for entry in entry_points(group=GROUP):
        try:
            brought = [(option.name.removeprefix("--").replace("-", "_"), option) for option in entry.load()]
        except Exception as error:
            text = f"the options of {entry.name!r}, {entry.value}, can't be loaded: {type(error).__name__}: {error}"
            terminal.say(f"warning: {text}", level="warning")
            continue
        found.update((name, (entry.name, option)) for name, option in brought)
    return found


def _panel(annotation: Any) -> str:
    """Return the group of an option in the help; empty for an argument."""
    return next((str(info.rich_help_panel) for info in get_args(annotation) if isinstance(info, OptionInfo)), "")


def _annotation(option: Option) -> Any:
    """Return the annotation of an option, as Typer takes it."""
    shown = typer.Option(option.name, metavar=option.metavar, help=option.help, rich_help_panel=RUN_GROUP)
    return Annotated[list[str] | None if option.pairs else str | None, shown]

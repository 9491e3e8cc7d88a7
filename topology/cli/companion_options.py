"""Options of `kedge run` that packages bring for their companions; `topology.companions` says how.

Knows options and entry points, and what a companion is; not what any of them is for, nor how one is run.
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

Given = Mapping[str, str | list[str] | None]  # by the parameter of an option, what a command line says


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function of a command with a parameter for each option of a companion, in place of its `**beside`."""
    signature = inspect.signature(function, eval_str=True)
    all_of_them = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    after = max(index for index, one in enumerate(all_of_them) if _panel(one.annotation) == RUN_GROUP) + 1
    all_of_them[after:after] = [
        inspect.Parameter(name, all_of_them[after].kind, default=None, annotation=_annotation(option))
        for name, (_, option) in options().items()
        if name not in [one.name for one in all_of_them]
    ]

    @functools.wraps(function)
    def command(*given: Any, **by_name: Any) -> None:
        function(*given, **by_name)

    command.__signature__ = signature.replace(parameters=all_of_them)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in all_of_them}
    return command


def configure(topology: "Graph", given: Given) -> None:
    """Hands each option that is given to the companion that it is for. Raises ConfigurationError where the topology has
    none, and what that companion raises."""
    from topology.cli.redact import hide, warn_of
    from topology.loading.settings import looked_up, pairs, shown_settings

    for name, value in given.items():
        if not value:
            continue
        companion, option = options()[name]
        called = given_as(option.name)
        one = next((one for one in topology.companions if one.name == companion), None)
        if one is None:
            text = f"{called} is for topologies that have the companion {companion!r}, and {topology.name} has not"
            raise ConfigurationError(text, code=OPTION_WITHOUT_COMPANION)
        if isinstance(value, list):
            listed = pairs(value, called)
            hide(shown_settings(listed))
            if called == option.name:  # else it is in the environment, which nobody else reads
                warn_of(shown_settings(listed), called)
            one.configure(option.name, looked_up(listed, called), called)
        else:
            one.configure(option.name, value, called)


@cache
def options() -> dict[str, tuple[str, Option]]:
    """All that are installed: by the name of a parameter, the companion's name and the option. A package whose module
    can't be imported brings none, and that is told: its trouble must not keep other topologies from running."""
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
    """The group of an option in the help; empty for what is none."""
    return next((str(one.rich_help_panel) for one in get_args(annotation) if isinstance(one, OptionInfo)), "")


def _annotation(option: Option) -> Any:
    """As Typer takes it."""
    shown = typer.Option(option.name, metavar=option.metavar, help=option.help, rich_help_panel=RUN_GROUP)
    return Annotated[list[str] | None if option.pairs else str | None, shown]

"""A mistake of a command line as one sentence, made from the error that Typer raises.

Typer's own texts come from libraries below it, and differ from version to version. Knows errors, options and commands.
Must not know the printing of the sentence.
"""

import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any, Final

import typer

from topology.errors import did_you_mean
from topology.text import printable

USAGE_ERROR: Final[Any] = (
    typer.BadParameter.__base__
)  # of options, arguments and commands; Typer exports no name for it
GIVEN: Final = "given"  # an attribute of errors: the value that could not be converted
BEGUN_MIN: Final = 4  # least characters of a mistyped option, with dashes, that may be the beginning of another
SHOWN_MAX: Final = 80  # characters of a value or word in a sentence


def sentence(error: Any) -> str:
    """Return a sentence on the mistake. For an error that another package's command raised, return its own text."""
    name = shown_name(error)
    context: Any = error.ctx
    command = getattr(context, "command", None)
    path = getattr(context, "command_path", "kedge")
    match type(error).__name__:  # Typer does not export these types either
        case "NoSuchOption":
            near = _near(error.option_name, _options(command))
            return f"there is no option {printable(error.option_name):.{SHOWN_MAX}}{near}"
        case "BadOptionUsage":
            option = (
                next((known for known in command.params if error.option_name in known.opts), None) if command else None
            )
            if option is None or getattr(option, "is_flag", False):
                return f"{error.option_name} takes no value"
            return f"{error.option_name} needs a value: {option.metavar or option.name.upper()}"
        case "MissingParameter" if name:
            return f"{path} needs {name}"
        case "BadParameter" if GIVEN in vars(error):
            kind = _kind(command, error.param)
            who = name if error.param.param_type_name == "option" else path
            near = did_you_mean(str(error.given), _choices(kind))
            return f"{who} takes {_described(kind)}, not {error.given!r:.{SHOWN_MAX}}{near}"
        case "BadParameter" if name:
            return f"{name}: {error.message}"
    return str(error.format_message())


def _near(wrong: str, options: Sequence[str]) -> str:
    """Return a hint at a similar option: it begins with the wrong one, or resembles it in more than the dashes."""
    completions = [option for option in options if len(wrong) >= BEGUN_MIN and option.startswith(wrong)]
    alike = did_you_mean(wrong.lstrip("-"), [option.lstrip("-") for option in options])
    return did_you_mean(wrong, options) if alike else f"; did you mean {completions[0]!r}?" if completions else ""


def shown_name(error: Any) -> str:
    """Return the name that the user used for the option; for an argument, its name in the help."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return ""
    if getattr(parameter, "from_environment", False):
        return str(parameter.envvar)
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name.upper())


def note_value(parameter: Any) -> None:
    """Make errors about this parameter's type carry the value, as `given`, which Typer leaves out."""
    convert = parameter.type_cast_value  # not a callback, whose own message names the value

    def converted(ctx: Any, value: Any) -> Any:
        try:
            return convert(ctx, value)
        except typer.BadParameter as error:
            setattr(error, GIVEN, value)
            raise

    parameter.type_cast_value = converted


def extra(ctx: Any, words: list[str]) -> Any:
    """Return the error for surplus arguments of a command."""
    count = sum(parameter.param_type_name == "argument" for parameter in ctx.command.params)
    most = {0: "no argument", 1: "one argument and no more"}.get(count, f"{count} arguments and no more")
    return USAGE_ERROR(
        f"{ctx.command_path} takes {most}, not {' '.join(words)!r:.{SHOWN_MAX}}{' too' * bool(count)}", ctx
    )


def _options(command: Any) -> list[str]:
    if command is None:
        return []
    return ["--help", *(name for known in command.params if known.param_type_name == "option" for name in known.opts)]


def _kind(command: Any, parameter: Any) -> Any:
    """Return the type of a parameter's value, from the command's function, without the None of an absent option."""
    annotation = inspect.signature(command.callback, eval_str=True).parameters[parameter.name].annotation
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        annotation = kinds[0] if len(kinds) == 1 else annotation
    return annotation


def _choices(kind: Any) -> list[str]:
    from enum import Enum

    return [str(choice.value) for choice in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _described(kind: Any) -> str:
    from topology.loading.settings import described

    return described(kind)

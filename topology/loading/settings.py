"""Values from the command line and the environment, typed from annotations: `--set`, `--config`, `KEDGE_NAME`.

Knows signatures and `Config`, and no topology, terminal or process. All mistakes are ConfigurationErrors that name the
key and the type. They show the value only if it is known to be no secret: a mistyped key may have been a password's
(S12). Reads only the variables and files that a secret's `env:NAME` or `file:PATH` names.
"""

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal

import msgspec

from topology.codes.command_line import (
    INVALID_KEY_VALUE_OPTION,
    INVALID_VALUE_TYPE,
    MISSING_PARAMETER_VALUE,
    UNKNOWN_PARAMETER,
    UNKNOWN_SETTING,
    UNRESOLVED_PARAMETER_TYPE,
)
from topology.config import Config
from topology.errors import ConfigurationError, did_you_mean
from topology.loading.durations import Duration
from topology.secrets import Secret, holds_password, is_absent, is_reference, names_secret, resolved
from topology.text import printable

PREFIX: Final = "KEDGE_"
STAND_IN: Final = Secret("not given")  # in place of a missing secret, if nothing runs
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Given(dict[str, str]):
    """Values by key. `option`: the name by which the user gave them, `--set` or a variable."""

    def __init__(self, option: str) -> None:
        super().__init__()
        self.option = option


def pairs(given: Sequence[str], option: str) -> Given:
    """Parse `key=value` texts into a mapping; a value may contain equals signs, and be empty."""
    found = Given(option)
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{option} takes key=value, not {text!r}", code=INVALID_KEY_VALUE_OPTION)
        if key in found:
            raise ConfigurationError(
                f"{option} {key}=… is given twice", code=INVALID_KEY_VALUE_OPTION
            )  # the values may be secret (S12)
        found[key] = value
    return found


def option_of(given: Mapping[str, str], otherwise: str) -> str:
    """Return the option or variable by which the user gave these values."""
    return given.option if isinstance(given, Given) else otherwise


def arguments(
    factory: Callable[..., Any], given: Mapping[str, str], where: str, absent: list[str] | None = None
) -> dict[str, Any]:
    """Return keyword arguments for a factory, each of its parameter's type. `where` names the factory in messages.

    `absent`: None if the topology will run. Otherwise the topology is only declared and needs no secrets: a missing
    secret becomes STAND_IN, and a sentence on it is added to the list.
    """
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception as error:  # an annotation in quotes can raise any exception
        raise ConfigurationError(
            f"the parameters of {where} can't be read: {error}", code=UNRESOLVED_PARAMETER_TYPE
        ) from error
    named = {declared.name: declared for declared in parameters if declared.kind in _NAMED}
    further = next((declared for declared in parameters if declared.kind is inspect.Parameter.VAR_KEYWORD), None)
    values = {}
    option = option_of(given, "--set")
    for key, value in given.items():
        parameter = named.get(key, further)
        if parameter is None:
            text = f"{option} {key}=…: {where} takes no {key!r}{_known(key, named)}"  # the value may be secret (S12)
            raise ConfigurationError(text, code=UNKNOWN_PARAMETER)
        kind = _kind(parameter)
        if wants_secret(kind):
            values[key] = _secret(value, kind, f"{option} {key}=…", absent)
        else:
            values[key] = _converted(value, kind, f"{option} {key}={value}")
    for declared in parameters:
        required = declared.default is declared.empty and declared.kind in (*_NAMED, inspect.Parameter.POSITIONAL_ONLY)
        if (
            required
            and declared.name not in values
            and absent is not None
            and declared.kind in _NAMED
            and _is_secret(declared)
        ):
            absent.append(f"{where}: there is no value for {declared.name!r}")
            values[declared.name] = STAND_IN
        elif required and declared.name not in values:
            text = f"{where} needs a value for {declared.name!r}"
            raise ConfigurationError(
                text, code=MISSING_PARAMETER_VALUE, next=f"pass it, --set {declared.name}=…, or give it a default"
            )
    return values


def configured(config: Config, given: Mapping[str, str], environment: Mapping[str, str]) -> Config:
    """Return the topology's configuration, with the values of `KEDGE_…` and, with precedence, those of `--config`.

    A value that is not a Config is returned unchanged: `topology.checks.declaration` reports it.
    """
    declared: object = config
    if not isinstance(declared, Config):
        return config
    kinds = typing.get_type_hints(Config)
    changes: dict[str, Any] = {}
    for name, kind in kinds.items():
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            changes[name] = _converted(text, kind, f"{PREFIX}{name.upper()}={text}")
    option = option_of(given, "--config")
    for name, text in given.items():
        if name not in kinds:
            sentence = f"{option} {name}={text}: there is no setting {name!r}{_known(name, kinds)}"
            raise ConfigurationError(sentence, code=UNKNOWN_SETTING)
        changes[name] = _converted(text, kinds[name], f"{option} {name}={text}")
    return dataclasses.replace(config, **changes)


def _known(key: str, known: Collection[str]) -> str:
    """Return the end of a sentence on an unknown key: the likely key, and all known keys."""
    meant = did_you_mean(key, known)
    return f"{meant} It takes {', '.join(known)}" if meant else f"; it takes {', '.join(known) or 'none'}"


def _kind(parameter: inspect.Parameter) -> Any:
    """Return the type that a value must have: the annotation, else the type of a plain default, else text."""
    if parameter.annotation is not parameter.empty:
        return parameter.annotation
    kind = type(parameter.default)
    return kind if kind in (bool, int, float, str) else str


def plain_secrets(factory: Callable[..., Any], given: Mapping[str, str]) -> list[str]:
    """Return the keys whose values are secrets in plain text, or contain a password, and are no references. Every user
    who lists processes can read them."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # `arguments` reports the mistake
        return []
    return [
        key
        for key, value in given.items()
        if holds_password(value)
        or (key in parameters and wants_secret(_kind(parameters[key])) and value and not is_reference(value))
    ]


def shown_settings(given: Mapping[str, str]) -> list[str]:
    """Return the keys of another program's settings whose values are secrets in plain text, and no references."""
    return [
        key
        for key, value in given.items()
        if holds_password(value) or (names_secret(key) and value and not is_reference(value))
    ]


def looked_up(given: Mapping[str, str], called: str) -> dict[str, str]:
    """Return the settings with the text of each secret that is given as env:NAME or file:PATH. Raises
    ConfigurationError, which shows no secret; blocks while it reads."""
    return {
        key: resolved(value, f"{called} {key}=…").reveal() if names_secret(key) and is_reference(value) else value
        for key, value in given.items()
    }


def wants_secret(kind: Any) -> bool:
    """Return True if a parameter of this type takes env:NAME or file:PATH: Secret, or a union with it."""
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(wants_secret(part) for part in typing.get_args(kind))
    return kind is Secret


def _is_secret(parameter: inspect.Parameter) -> bool:
    return wants_secret(_kind(parameter))


def _secret(text: str, kind: Any, what: str, absent: list[str] | None) -> Secret | None:
    """Return the named secret. `null` is None if the parameter may be None, as for other types."""
    if text == "null" and type(None) in typing.get_args(kind):
        return None
    if absent is not None and is_absent(text):
        absent.append(f"{what}: {printable(text)} does not exist")
        return STAND_IN
    return resolved(text, what)


def _converted(text: str, kind: Any, what: str) -> Any:
    """Convert the text to this type. Numbers and `true`, `false`, `null` as in JSON; enums and literals by value."""
    try:
        return msgspec.convert(text, kind, strict=False, dec_hook=_path)
    except (msgspec.ValidationError, NotImplementedError, ValueError, TypeError) as error:
        words = _words_of(kind)
        problem = f"{what}: {text!r} is not {described(kind)}{did_you_mean(text, words)}"
        advice = "give one of these words, without quotes" if words else ""
        raise ConfigurationError(problem, code=INVALID_VALUE_TYPE, next=advice) from error


def _words_of(kind: Any) -> list[str]:
    """Return the words of a choice; none if this type is something else."""
    if typing.get_origin(kind) is Literal:
        return [word for word in typing.get_args(kind) if isinstance(word, str)]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [word for part in typing.get_args(kind) for word in _words_of(part)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [part.value for part in kind if isinstance(part.value, str)]
    return []


def _path(kind: Any, text: Any) -> Any:
    """Convert types that msgspec does not know; msgspec calls it."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(text)
    raise NotImplementedError


def described(kind: Any) -> str:
    """Return a type in words for users who type its values: "a whole number", "'a' or 'b'"."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if kind is Duration:
        return Duration.in_words
    if isinstance(kind, type) and kind in words:
        return words[kind]
    if origin is typing.Annotated:
        return f"{described(inner[0])} within its limits"
    if origin is Literal:
        return _either([repr(part) for part in inner])
    if origin in (typing.Union, types.UnionType):
        return _either([described(part) for part in inner])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _either([repr(part.value) for part in kind])
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path"
    return f"a {kind if origin else getattr(kind, '__name__', kind)}"


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

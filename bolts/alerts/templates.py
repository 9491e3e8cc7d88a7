"""Texts of records: from a template with the names of fields in braces, or from a function of the user's. Pure.

A template is `str.format`'s without attributes, indexes and conversions: `{a.__class__}` would show what is no field.
"""

import enum
from collections.abc import Callable
from datetime import datetime
from string import Formatter
from typing import Any, Final, TypeAlias

from bolts.sinks.values import BadValue, shown
from topology.clients.errors import invalid
from topology.records import Record

Text: TypeAlias = str | Callable[[Any], str]  # a template, or a function of the record
MakesText: TypeAlias = Callable[[Record], str]


def as_it_is(text: str) -> str:
    """Return the text."""
    return text


class AlertTemplate:
    """A template, checked. `escape` is applied to each value, and not to the text around it.

    Raises ConfigurationError, which begins with `needed_by`, for a text that is no template.
    """

    def __init__(self, needed_by: str, name: str, text: str, escape: Callable[[str], str] = as_it_is) -> None:
        self._parts: list[tuple[str, str | None, str]] = []
        self._escape = escape
        try:
            for literal, field, spec, conversion in Formatter().parse(text):
                if field is not None and (not field.isidentifier() or conversion or "{" in (spec or "")):
                    raise ValueError("between braces it has the name of a field, and nothing else but a format")
                self._parts.append((literal, field, spec or ""))
        except ValueError as error:
            raise invalid(f"{needed_by}: {name}={shown(text)} is no template: {error}") from None

    @property
    def has_fields(self) -> bool:
        """True if the text depends on the record."""
        return any(field is not None for _, field, _ in self._parts)

    def __call__(self, record: Record) -> str:
        """Return the text of a record. Raises BadValue if it has no such field, or a value has no such format."""
        made = []
        for literal, field, spec in self._parts:
            made.append(literal)
            if field is not None:
                value = field_of(record, field)
                try:
                    made.append(self._escape(_plainly(value, spec)))
                except (ValueError, TypeError) as error:
                    raise BadValue(f"{type(record).__name__}.{field} has no format {spec!r:.40}: {error}") from error
        return "".join(made)


class TextFunction:
    """A function of the user's that makes a text of a record. `name`: that of the argument."""

    def __init__(self, name: str, function: Callable[[Any], str]) -> None:
        self._name, self._function = name, function

    def __call__(self, record: Record) -> str:
        """Return the text. Raises BadValue with the function's error."""
        made = called(self._name, self._function, record)
        if not isinstance(made, str):
            raise BadValue(f"its {self._name} is a text, and the function returned a {type(made).__name__}")
        return made


def text_maker(needed_by: str, name: str, given: Text, escape: Callable[[str], str] = as_it_is) -> MakesText:
    """Return the function that makes a text of a record: a template's, or the user's. Raises ConfigurationError for
    anything else."""
    if isinstance(given, str):
        return AlertTemplate(needed_by, name, given, escape)
    if not callable(given):
        raise invalid(f"{needed_by}: {name} is a template or a function of the record, not {given!r:.80}")
    return TextFunction(name, given)


def name_maker(needed_by: str, name: str, given: Text, *, empty: bool = False) -> MakesText:
    """Return the function that names something by a record. `given`: a field, a template with one, or a function.

    The function raises BadValue for a record whose name is no text, or is empty, unless `empty` allows that.
    """
    make: MakesText
    if isinstance(given, str):
        make = template = AlertTemplate(needed_by, name, f"{{{given}}}" if given.isidentifier() else given)
        if not template.has_fields:
            text = f"{needed_by}: {name}={shown(given)} has to depend on the record: give a field, or a template with "
            raise invalid(f"{text}one in braces")
    elif callable(given):
        make = TextFunction(name, given)
    else:
        raise invalid(f"{needed_by}: {name} is a field, a template or a function of the record, not {given!r:.80}")

    def named(record: Record) -> str:
        if not (made := make(record)) and not empty:
            raise BadValue(f"its {name} is empty")
        return made

    return named


def field_of(record: Record, field: str) -> Any:
    """Return the value of a field. Raises BadValue if there is none of this name."""
    if field not in record.__struct_fields__:
        fields = ", ".join(record.__struct_fields__)
        raise BadValue(f"{type(record).__name__} has no field {field!r:.80}; it has {fields or 'none'}")
    return getattr(record, field)


def value_of(name: str, given: str | Callable[[Any], Any], record: Record) -> Any:
    """Return the value of a field, or of a function of the user's. Raises BadValue if there is none."""
    return field_of(record, given) if isinstance(given, str) else called(name, given, record)


def called(name: str, function: Callable[[Any], Any], record: Record) -> Any:
    """Return what the user's function makes of the record. Raises BadValue with its error. `name`: the argument's."""
    try:
        return function(record)
    except Exception as error:  # the user's code may raise anything
        raise BadValue(f"its {name} could not be made: {type(error).__name__}: {error}") from error


def encodable(text: str) -> str:
    """Return the text. Raises BadValue if it has a lone surrogate, which no message can have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{shown(text)} has a lone surrogate, which is no character") from error
    return text


def cut(text: str, most: int) -> str:
    """Return the text, shortened to this many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


_TIME: Final = "%Y-%m-%d %H:%M:%S"


def _plainly(value: Any, spec: str) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, datetime):
        return format(value, spec or _TIME) + ("" if spec else " UTC")
    return format(value, spec)

"""Small steps through annotations: unions, the X of `Iterator[X]`, and the types bound to type variables.

Pure. Knows `typing`, and nothing of records, bolts or graphs.
"""

import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Final, Never, NoReturn, TypeAlias, TypeVar

Bindings: TypeAlias = Mapping[Any, Any]  # type variable → the type that a subclass, or `Base[X](…)`, puts in its place

MANY: Final = frozenset(
    [Iterable, Iterator, Generator, AsyncIterable, AsyncIterator, AsyncGenerator, Sequence, Collection, list, frozenset]
)
LATER: Final = frozenset([Awaitable, Coroutine])
ASYNC: Final = LATER | {AsyncIterable, AsyncIterator, AsyncGenerator}
NOTHING: Final = (None, type(None), Never, NoReturn)


def argument(kind: Any, *origins: Any) -> Any:
    """Return X of an `Origin[X]`; None if `kind` is not one of these."""
    args = typing.get_args(kind)
    return args[0] if args and typing.get_origin(kind) in origins else None


def union(kind: Any, bound: Bindings) -> tuple[Any, ...]:
    """Return the parts of a union, or the one type. Bound type variables are replaced."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    found: list[Any] = []
    for part in parts:
        if isinstance(part, TypeVar) and part in bound:
            found += union(bound[part], {})
        else:
            found.append(part)
    return tuple(dict.fromkeys(found))


def named(kind: Any) -> str:
    """Return a type as its user writes it."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def bindings(component: Any, method: str) -> Bindings:
    """Return the types bound to the type variables of the class that defines `method`: `class Mine(Base[Failure])`."""
    cls = type(component)
    owner = next((base for base in cls.__mro__ if method in vars(base)), None)
    if owner is None:
        return {}
    made_as = typing.get_args(getattr(component, "__orig_class__", None))
    return _passed_on(cls, owner, dict(zip(getattr(cls, "__parameters__", ()), made_as, strict=False)))


def _passed_on(cls: type, owner: type, known: Bindings) -> Bindings:
    """Return `known` of `cls`, passed on from base to base up to `owner`."""
    if cls is owner:
        return known
    for base in vars(cls).get("__orig_bases__", cls.__bases__):
        origin = typing.get_origin(base) or base
        if owner in getattr(origin, "__mro__", ()):
            args = [known.get(arg, arg) for arg in typing.get_args(base)]
            return _passed_on(origin, owner, dict(zip(getattr(origin, "__parameters__", ()), args, strict=False)))
    return {}

"""Checks of a state's value, which is immutable through and through. Must not know keys."""

from typing import Any, Final

from topology.codes.tuples import MUTABLE_STATE_VALUE
from topology.errors import EmitError

IMMUTABLE: Final = frozenset({int, float, bool, str, bytes, type(None)})


class UnreadValue:
    """Stands for a value that was not asked for."""


UNREAD: Final = UnreadValue()


def check_immutable(value: Any) -> None:
    """Raises EmitError for a value that can change."""
    if type(value) in IMMUTABLE:
        return
    try:
        hash(value)  # what is immutable through and through can be hashed, what holds a list somewhere can't (D9)
    except TypeError as error:
        raise EmitError(
            f"a state's value is immutable through and through ({error})", code=MUTABLE_STATE_VALUE
        ) from error

"""One key's state as one input sees it: its fields, and the three methods that a bolt calls most.

This is the Python core's class; `state_value.pyx` has the compiled one, with the same attributes. `StateMethods` has
all else. Must not know what a key's content is made of.
"""

from typing import Any

import msgspec

from topology.runtime.state.value import StateMethods
from topology.runtime.state.value_checks import IMMUTABLE, UNREAD, check_immutable


class StateValue(StateMethods, msgspec.Struct, eq=False, gc=False):
    """`topology.components.State` of one input. `_held` is what `KeyValues` holds for the key. `_value` is the key's
    value, once it was asked for or set. `_timers` is a copy of its timers, once they were asked for. A struct, because
    one is made for each input."""

    _codec: Any
    key: bytes
    _held: Any
    changed: bool = False
    _value: Any = UNREAD
    _timers: dict[str, int] | None = None

    def get(self, default: Any = None) -> Any:
        value = self._value
        if value is UNREAD:
            value = self._value = self._read()
        return default if value is None else value

    def set(self, value: Any) -> None:
        if type(value) not in IMMUTABLE:
            check_immutable(value)
        self._value = value
        self.changed = True

    def clear(self) -> None:
        self._value = None
        self.changed = True

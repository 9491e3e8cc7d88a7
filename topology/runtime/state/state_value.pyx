# cython: language_level=3, auto_pickle=False
"""The compiled core's class of one key's state as one input sees it. `state_value.py` says what its attributes are."""

cimport cython

from topology.runtime.state.value import StateMethods
from topology.runtime.state.value_checks import IMMUTABLE, UNREAD, check_immutable

cdef object _immutable = IMMUTABLE
cdef object _unread = UNREAD


@cython.no_gc
cdef class StateFields:
    """The fields, and the three methods that a bolt calls most."""

    def __init__(self, codec, key, held, bint changed=False, value=_unread, timers=None):
        self._codec = codec
        self.key = key
        self._held = held
        self.changed = changed
        self._value = value
        self._timers = timers

    def get(self, default=None):
        value = self._value
        if value is _unread:
            value = self._value = self._read()
        return default if value is None else value

    def set(self, value):
        if type(value) not in _immutable:
            check_immutable(value)
        self._value = value
        self.changed = True

    def clear(self):
        self._value = None
        self.changed = True


class StateValue(StateFields, StateMethods):
    """`topology.components.State` of one input."""

    __slots__ = ()

"""One key's state as `process` sees it, where state is kept as bytes: decoded when it is asked for, encoded once the
input is done, so that a value that has no byte form fails the input that has set it and no other (D9).

Must not know inputs, commits, nor who fires a timer.
"""

import types
import typing
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from topology.codes.tuples import INVALID_TIMER, MUTABLE_STATE_VALUE, STATE_VALUE_TYPE_MISMATCH
from topology.errors import EmitError
from topology.records import encoded
from topology.storage.encoding import state

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NONE: Final[Mapping[str, int]] = {}
_NO_TIMERS: Final = (b"", state.PLAIN)  # what a content begins with
TIMERS_MAX: Final = 100  # of one key
_SCALARS: Final = (int, str, bytes, bool, datetime, Decimal)


class StateCodec:
    """The byte form of one bolt's state. `timed`: whether the bolt has `on_timer`."""

    def __init__(self, component: str, kind: Any, *, timed: bool) -> None:
        self.component = component
        self.timed = timed
        self.due: Callable[[int, int | None], int] = lambda at, before: at  # of a timer that is set; `Timers.due`
        self._kind = kind
        self._any = kind is None or kind is Any or isinstance(kind, typing.TypeVar)  # as in `state: State`
        self._decode = msgspec.msgpack.Decoder(Any if self._any else kind).decode
        origin: Any = typing.get_origin(kind) or kind
        one = isinstance(origin, type) and origin not in (types.UnionType, float) and not self._any
        self._plain: type | None = origin if one else None  # the class of all values; an int will do for a float
        self._is_whole = origin in _SCALARS or (one and issubclass(origin, Enum))  # a value has no parts of other types

    def decode(self, value: bytes) -> Any:
        try:
            return _frozen(self._decode(value)) if self._any else self._decode(value)
        except (msgspec.MsgspecError, ValueError) as error:
            text = f"what is kept of a key in {self.component!r} is no {_name(self._kind)}: {error}"
            raise _other_type(text) from error

    def encode(self, value: Any) -> bytes:
        """Raises EmitError for what is none of the state's type, or has no byte form."""
        if self._plain is not None and type(value) is not self._plain:
            raise self._another(value)
        data = encoded(value)
        if self._is_whole:
            return data
        try:
            back = self.decode(data)  # else it would fail each later input of its key, and never this one (D9)
        except EmitError:
            raise self._another(value) from None
        if self._any and back != value:
            text = f"{value!r:.80} can't be kept as the state of {self.component!r}: name its type in State[…]"
            raise _other_type(text)
        return data

    def _another(self, value: Any) -> EmitError:
        text = f"{self.component!r} set its state to {value!r:.80}; by its annotation it is a {_name(self._kind)}"
        return _other_type(text)

    def check_timer(self, at: Any, name: Any) -> None:
        """Raises EmitError for what is no time, and if the bolt has no `on_timer` to call then."""
        if not self.timed:
            text = f"{self.component!r} has no on_timer(self, key, name, state), which a timer would call"
            raise _no_timer(text)
        if not isinstance(at, datetime) or at.tzinfo is None:
            raise _no_timer(f"a timer's time is a datetime with a zone, and {at!r:.80} is none: use UTC")
        if type(name) is not str:
            raise _no_timer(f"a timer's name is a str, not {name!r:.80}")


def _frozen(value: Any) -> Any:
    """Return what was decoded as lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class StateValue:
    """`topology.components.State` of one input."""

    __slots__ = ("_codec", "_content", "_timers", "_value", "changed", "key")

    def __init__(self, codec: StateCodec, key: bytes, content: bytes) -> None:
        self.key = key
        self.changed = False
        self._codec = codec
        self._content = content
        self._value: Any = _UNREAD if content else None
        self._timers: dict[str, int] | None = None  # a copy, once it was asked for

    def get(self, default: Any = None) -> Any:
        value = self._value
        if value is _UNREAD:
            content = self._content
            kept = content[1:] if content[:1] == state.PLAIN else state.value_of(content)  # the first: the hot path
            value = self._value = None if kept is None else self._codec.decode(kept)
        return default if value is None else value

    def set(self, value: Any) -> None:
        check_immutable(value)
        self._value = value
        self.changed = True

    def clear(self) -> None:
        self._value = None
        self.changed = True

    def timer(self, at: datetime | None, name: str = "") -> None:
        timers = self._own_timers()
        if at is None:
            timers.pop(name, None)
        else:
            self._codec.check_timer(at, name)
            timers[name] = self._codec.due(due_of(at), timers.get(name))
            if len(timers) > TIMERS_MAX:
                raise _no_timer(f"a key of {self._codec.component!r} has more than {TIMERS_MAX} timers")
        self.changed = True

    # -- what the executor asks

    @property
    def timers(self) -> Mapping[str, int]:
        """The key's timers, name → when they are due, in microseconds since 1970."""
        if self._timers is not None:
            return self._timers
        return state.timers_of(self._content) if self._content else _NONE

    @property
    def timers_changed(self) -> bool:
        return self._timers is not None

    @property
    def timers_gone(self) -> Collection[str]:
        """The names of those that the key had before this input, and has no more."""
        return state.timers_of(self._content).keys() - self.timers.keys()

    def fired(self, name: str, due: int) -> bool:
        """Takes a timer away that is due now; False where it was moved, or taken away, meanwhile."""
        if self.timers.get(name) != due:
            return False
        del self._own_timers()[name]
        self.changed = True
        return True

    def content(self) -> bytes:
        """Return what is to be kept of the key. Raises EmitError."""
        value = self._value
        if value is not None and value is not _UNREAD and self._timers is None and self._content[:1] in _NO_TIMERS:
            return state.PLAIN + self._codec.encode(value)  # the hot path
        if value is _UNREAD:
            kept = state.value_of(self._content)
        else:
            kept = None if value is None else self._codec.encode(value)
        return state.packed(kept, self.timers)

    def _own_timers(self) -> dict[str, int]:
        if self._timers is None:
            self._timers = dict(self.timers)
        return self._timers


def check_immutable(value: Any) -> None:
    """Raises EmitError for a value that can change."""
    try:
        hash(value)  # what is immutable through and through can be hashed, what holds a list somewhere can't (D9)
    except TypeError as error:
        raise EmitError(
            f"a state's value is immutable through and through ({error})", code=MUTABLE_STATE_VALUE
        ) from error


def _other_type(text: str) -> EmitError:
    return EmitError(text, code=STATE_VALUE_TYPE_MISMATCH)


def _no_timer(text: str) -> EmitError:
    return EmitError(text, code=INVALID_TIMER)


class _Unread:
    """Stands for a value that was not asked for."""


_UNREAD: Final = _Unread()


def due_of(at: datetime) -> int:
    """A time in microseconds since 1970, UTC."""
    return (at - _EPOCH) // _MICROSECOND


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)

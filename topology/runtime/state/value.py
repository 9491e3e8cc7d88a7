"""One key's state as `process` sees it: decoded when it is asked for, and checked once the input is done, so that a
value that has no byte form fails the input that has set it and no other (D9).

Must not know inputs, commits, nor who fires a timer.
"""

import types
import typing
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from topology.codes.tuples import INVALID_TIMER, STATE_VALUE_TYPE_MISMATCH
from topology.errors import EmitError
from topology.records import encoded
from topology.runtime.state.key_values import KeyValue, content_of_held, timers_in
from topology.runtime.state.lookups import NOTHING
from topology.runtime.state.value_checks import UNREAD
from topology.storage.encoding import state

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_TIMERS: Final = (b"", state.PLAIN)  # what a content begins with
_NO_FIELDS: Final = ()  # a name, as mypy takes slots that it can read for all the fields that there are
TIMERS_MAX: Final = 100  # of one key
INT_MIN: Final = -(2**63)  # what msgpack takes
INT_MAX: Final = 2**64 - 1
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
        # values of this class need no bytes to be known as sound, if an int is one that msgpack takes
        self.quick: type | None = kind if kind in (int, float, bool) else None

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


class StateMethods:
    """The methods of `StateValue` that an input seldom needs, or that the executor calls. It has the fields."""

    __slots__: Sequence[str] = _NO_FIELDS

    _codec: StateCodec
    _held: Any
    _value: Any
    _timers: dict[str, int] | None
    changed: bool
    get: Callable[[], Any]

    def _read(self) -> Any:
        held = self._held
        if type(held) is KeyValue:
            return held.value
        if type(held) is not bytes:
            return held
        kept = state.value_of(held) if held else None
        return None if kept is None else self._codec.decode(kept)

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
    def timers(self) -> dict[str, int]:
        """The key's timers, name → when they are due, in microseconds since 1970."""
        return self._timers if self._timers is not None else timers_in(self._held)

    @property
    def timers_changed(self) -> bool:
        return self._timers is not None

    @property
    def timers_gone(self) -> Collection[str]:
        """The names of those that the key had before this input, and has no more."""
        return timers_in(self._held).keys() - self.timers.keys()

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of outputs of the key's inputs and of its timers, if outputs are named by their count. They are
        counted apart: a timer that fires at another place among the inputs changes no name of theirs."""
        held = self._held
        if type(held) is KeyValue:
            return held.count, held.timer_count
        content = state.content_of(held if type(held) is bytes else NOTHING)
        return content.outputs, content.timer_outputs

    def fired(self, name: str, due: int) -> bool:
        """Takes a timer away that is due now; False where it was moved, or taken away, meanwhile."""
        if self.timers.get(name) != due:
            return False
        del self._own_timers()[name]
        self.changed = True
        return True

    def held(self, outputs: int, timer_outputs: int = 0) -> Any:
        """Return what is to be held of the key after so many outputs more, of an input or of a timer, if they are
        counted. Raises EmitError for a value that has no byte form, or is none of the state's type."""
        before, value = self._held, self._value
        if self._timers is None and not outputs and not timer_outputs:  # the hot path
            kind = type(value)
            if kind is type(before) and kind is self._codec.quick and (kind is not int or INT_MIN <= value <= INT_MAX):
                return value
            if value is UNREAD:
                return before
            if type(before) is not bytes or before[:1] in _NO_TIMERS:
                if type(before) is not KeyValue:
                    return self._alone(value)
                return KeyValue(value, before.timers, before.count, before.timer_count, self._data())
        value = self.get()
        timers, (count, timer_count) = self.timers, self.counts
        count, timer_count = count + outputs, timer_count + timer_outputs
        if not timers and not count and not timer_count:
            return self._alone(value)
        return KeyValue(value, timers, count, timer_count, self._data())

    def content(self) -> bytes:
        """Return `held` as bytes, without counted outputs. Raises EmitError."""
        return content_of_held(self.held(0), self._codec.encode)

    def _alone(self, value: Any) -> Any:
        """Return what is held of a key that has only a value. Raises EmitError."""
        if data := self._data():
            return state.PLAIN + data
        return NOTHING if value is None else value

    def _data(self) -> bytes:
        """Return the bytes of the value; none if it has none, or needs none to be known as sound. Raises EmitError for
        a value that has no byte form, or is none of the state's type."""
        value, codec = self._value, self._codec
        kind = type(value)
        if value is None or (kind is codec.quick and (kind is not int or INT_MIN <= value <= INT_MAX)):
            return b""
        return codec.encode(value)

    def _own_timers(self) -> dict[str, int]:
        if self._timers is None:
            self._timers = dict(self.timers)
        return self._timers


def _other_type(text: str) -> EmitError:
    return EmitError(text, code=STATE_VALUE_TYPE_MISMATCH)


def _no_timer(text: str) -> EmitError:
    return EmitError(text, code=INVALID_TIMER)


def due_of(at: datetime) -> int:
    """A time in microseconds since 1970, UTC."""
    return (at - _EPOCH) // _MICROSECOND


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)

"""Groupings: pure choosers of target tasks, and the byte form of keys.

Fields groupings go key → one of 1,024 slots → task, so that a key's home changes only with the number of tasks, and in
whole slots (D7). Every type of key has a byte form of its own, fixed by golden vectors: 1, 1.0, True and "1" are four
keys (D8). This file must not know executors, workers or links.
"""

import copy
import enum
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from random import Random
from struct import Struct
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from acker.identity import TEXT, id_bytes
from topology.codes.startup import UNCOPYABLE_GROUPING
from topology.codes.tuples import GROUPING_CHOSE_UNKNOWN_TASK, GROUPING_WITHOUT_CHOOSE, INVALID_GROUPING_KEY
from topology.errors import EmitError, StartError
from topology.records import Record

SLOTS: Final = 1024
CACHED_KEYS: Final = 65_536  # keys whose task an emitter remembers; then it begins anew

One: TypeAlias = Callable[[Any, int], int]  # (record, identity) → the index of its one target
Many: TypeAlias = Callable[[Any], Sequence[int]]  # record → indexes, none twice

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_pack_double = Struct("<d").pack
_pack_length = Struct("<I").pack


def key_bytes(value: Any) -> bytes:
    """The byte form of one key: a type tag and its content. Raises EmitError for NaN and for what can't be a key."""
    kind = type(value)
    if kind is str or kind is int or kind is bytes:
        return id_bytes(value)
    if kind is float:
        if math.isnan(value):
            raise _no_key("NaN can't be a key: it is not equal to itself")
        return b"\x05" + _pack_double(value + 0.0)  # -0.0 + 0.0 is 0.0
    if kind is bool:
        return b"\x06\x01" if value else b"\x06\x00"
    if value is None:
        return b"\x07"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise _no_key("a datetime without a time zone can't be a key")
        return b"\x08" + ((value - _EPOCH) // _MICROSECOND).to_bytes(8, "little", signed=True)
    if kind is Decimal:
        return b"\x09" + _decimal_text(value)
    if isinstance(value, enum.Enum):
        return b"\x0a" + key_bytes(value.value)
    if isinstance(value, frozenset):
        return b"\x0c" + joined(sorted(map(key_bytes, value)))
    if isinstance(value, Record):
        return b"\x0d" + joined(map(key_bytes, msgspec.structs.astuple(value)))
    if isinstance(value, tuple):
        return b"\x0b" + joined(map(key_bytes, value))
    raise _no_key(f"{kind.__name__} can't be a key")


def _no_key(text: str) -> EmitError:
    return EmitError(text, code=INVALID_GROUPING_KEY)


def _decimal_text(value: Decimal) -> bytes:
    """One text for equal numbers. Exact: `normalize` would round to the context's precision, and make keys one."""
    sign, digits, exponent = value.as_tuple()
    if exponent == "F":
        return b"-Infinity" if sign else b"Infinity"
    if not isinstance(exponent, int):
        raise _no_key("NaN can't be a key: it is not equal to itself")
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0"  # -0 == 0
    return f"{'-' * sign}{kept}E{exponent + len(text) - len(kept)}".encode()


def joined(parts: Iterable[bytes]) -> bytes:
    """The byte form of several, after its tag."""
    return b"".join(_pack_length(len(part)) + part for part in parts)


def slot_of(key: bytes) -> int:
    """The slot of a key's byte form. The empty key is that of `global_`, all of which task 0 gets, however many there
    are."""
    return xxh3_64_intdigest(key) >> 54 if key else 0


def slot_of_identity(identity: int) -> int:
    """The slot of an identity, which is a hash already."""
    return identity >> 54


def task_of_slot(slot: int, tasks: int) -> int:
    """Which of `tasks` tasks owns a slot: whole ranges, whose sizes differ by one slot at most.

    With one task more, half of the slots move, each to the next task or further up, none down.
    """
    return slot * tasks // SLOTS


def key_function(names: tuple[str, ...]) -> Callable[[Any], bytes]:
    """record → the byte form of these fields of it; of one field its own form, of several that of a tuple."""
    if not names:
        return lambda record: b""
    get = attrgetter(*names)

    def key(record: Any) -> bytes:
        value: Any = get(record)
        return TEXT + value.encode("utf-8", "surrogatepass") if type(value) is str else key_bytes(value)  # hot path

    return key


class Grouping:
    """Which task of a bolt a tuple goes to. Subclass it for `Stream.custom`: define `choose`.

    A custom grouping is a prototype like a bolt: each emitting task has a copy. `choose` may raise: the input fails.
    """

    name: ClassVar[str] = "custom"

    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        """The indexes of the target tasks, 0 … tasks - 1; any number of them."""
        raise EmitError(f"{type(self).__name__} defines no `choose(record, tasks)`", code=GROUPING_WITHOUT_CHOOSE)

    def keys(self) -> tuple[str, ...]:
        """The names of the fields it looks at."""
        return ()

    def __str__(self) -> str:
        """The call that made it, as in the user's source."""
        return f"{self.name}({', '.join(f'{key!r:.80}' for key in self.keys())})"


class OneTarget(Grouping):
    """A grouping that always has exactly one target."""

    @abstractmethod
    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        """The chooser of one emitting task; `local` are the target tasks in its own worker."""


class ManyTargets(Grouping):
    """A grouping that has any number of targets."""

    @abstractmethod
    def many(self, tasks: int) -> Many:
        """The chooser of one emitting task."""


@dataclass(frozen=True)
class Shuffle(OneTarget):
    """One task after the other, starting at a random one."""

    name = "shuffle"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return _round_robin(range(tasks), random)


@dataclass(frozen=True)
class LocalOrShuffle(OneTarget):
    """The tasks in the emitter's own worker, one after the other; all of them where there is none."""

    name = "local_or_shuffle"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return _round_robin(local or range(tasks), random)


def _round_robin(targets: Sequence[int], random: Random) -> One:
    following = random.randrange(len(targets)) - 1

    def one(record: Any, identity: int) -> int:
        nonlocal following
        following += 1
        if following >= len(targets):
            following = 0
        return targets[following]

    return one


@dataclass(frozen=True)
class ByIdentity(OneTarget):
    """By the slot of the tuple's identity: put in place of shuffles before a non-deterministic bolt (B2)."""

    name = "by_identity"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return lambda record, identity: (identity >> 54) * tasks >> 10


@dataclass(frozen=True)
class Fields(OneTarget):
    """Equal values of these fields go to the same task."""

    names: tuple[str, ...]
    name = "fields"

    def keys(self) -> tuple[str, ...]:
        return self.names

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        get = attrgetter(*self.names)
        known: dict[str, int] = {}

        def one(record: Any, identity: int) -> int:
            value: Any = get(record)
            if type(value) is not str:
                return task_of_slot(slot_of(key_bytes(value)), tasks)
            task = known.get(value)
            if task is None:
                if len(known) >= CACHED_KEYS:
                    known.clear()
                task = known[value] = task_of_slot(slot_of(key_bytes(value)), tasks)
            return task

        return one


@dataclass(frozen=True)
class PartialKey(OneTarget):
    """Two candidate tasks a key, never the same one; the one that this emitter has sent less to (Nasir et al., ICDE
    2015)."""

    field: str
    name = "partial_key"

    def keys(self) -> tuple[str, ...]:
        return (self.field,)

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        get = attrgetter(self.field)
        sent = [0] * tasks
        others = max(tasks - 1, 1)

        def one(record: Any, identity: int) -> int:
            digest = xxh3_64_intdigest(key_bytes(get(record)))
            first = digest % tasks
            second = (first + 1 + (digest >> 32) % others) % tasks
            task = first if sent[first] <= sent[second] else second
            sent[task] += 1
            return task

        return one


@dataclass(frozen=True)
class All(ManyTargets):
    """Every task gets a copy."""

    name = "all"

    def many(self, tasks: int) -> Many:
        everyone = range(tasks)
        return lambda record: everyone


@dataclass(frozen=True)
class Global(OneTarget):
    """Task 0 gets everything."""

    name = "global_"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return lambda record, identity: 0


@dataclass(frozen=True)
class Direct(Grouping):
    """The emitter names the task: `out.emit(record, task=n)`."""

    name = "direct"


@dataclass(frozen=True)
class Custom(ManyTargets):
    """A user's own `Grouping`; what it chooses is checked."""

    prototype: Grouping
    name = "custom"

    def __str__(self) -> str:
        return f"custom({type(self.prototype).__name__})"

    def many(self, tasks: int) -> Many:
        """A copy of the user's grouping, of one emitting task. Raises StartError where it can't be copied."""
        whose = type(self.prototype).__name__
        try:
            choose = copy.deepcopy(self.prototype).choose
        except Exception as error:
            raise StartError(
                f"{whose} can't be copied for each emitting task: {error}", code=UNCOPYABLE_GROUPING
            ) from error

        def many(record: Any) -> Sequence[int]:
            chosen = choose(record, tasks)
            if not isinstance(chosen, Iterable):
                raise EmitError(
                    f"{whose} chose {chosen!r:.80}, which is no list of tasks", code=GROUPING_CHOSE_UNKNOWN_TASK
                )
            targets = tuple(chosen)
            for target in targets:
                if type(target) is not int or not 0 <= target < tasks:
                    raise EmitError(
                        f"{whose} chose task {target!r:.80}; there are tasks 0 to {tasks - 1}",
                        code=GROUPING_CHOSE_UNKNOWN_TASK,
                    )
            return tuple(dict.fromkeys(targets))

        return many
